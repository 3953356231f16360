// Elements. Everything that comes from the API is put in as text or as an attribute's value, and is never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const HREF = /^(#|\/(?!\/)|https?:\/\/)/i;

/** Make an element: h("td.num", {title: "…", onclick: f}, "text", child). */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name.split(".", 1)[0]), name, attributes, children);
}

/** Make an SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name.split(".", 1)[0]), name, attributes, children);
}

function fill(element, name, attributes, children) {
  const classes = name.split(".").slice(1);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") classes.push(value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    // A link of a stranger's page may name a scheme that runs code.
    else if (key !== "href" || HREF.test(value)) element.setAttribute(key, value === true ? "" : String(value));
  }
  if (classes.length) element.setAttribute("class", classes.join(" "));
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put children in place of all there are. */
export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/** Set the text of an element, if it is another: selections and screen readers are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A link to the page of another site; only what is HTTP. */
export function foreignLink(url, text) {
  return h("a.foreign", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, text);
}
