// Dialogs and short messages.

import { h, replace } from "./elements.js";
import { t } from "./texts.js";

const TOAST_MS = 6_000;

/** A modal dialog; resolves to what close(value) was given, or null by Escape. build(close) gives its content. */
export function dialog(title, build) {
  return new Promise((resolve) => {
    let answer = null;
    const element = h("dialog", { "aria-labelledby": "dialog-title" });
    const close = (value) => {
      answer = value;
      element.close();
    };
    element.addEventListener("close", () => {
      element.remove();
      resolve(answer);
    });
    // A click beside it.
    element.addEventListener("click", (event) => event.target === element && close(null));
    replace(element, h("div.dialog", {}, h("h2", { id: "dialog-title" }, title), build(close)));
    document.body.append(element);
    element.showModal();
  });
}

/** Ask before something that cannot be taken back; whether it was confirmed. */
export function confirm({ title, text, action, danger = false }) {
  return dialog(title, (close) => [
    h("p", {}, text),
    h("p.buttons", {},
      h("button", { type: "button", autofocus: true, onclick: () => close(false) }, t("dialog.cancel")),
      h("button.primary", { type: "button", class: danger ? "danger" : "", onclick: () => close(true) }, action)),
  ]);
}

/** Ask for one value; null: nothing is to be done. */
export function ask({ title, text, label, value = "", action, rows = 0 }) {
  return dialog(title, (close) => {
    const input = rows ? h("textarea", { id: "asked", rows, spellcheck: "false" }, value) : h("input", { id: "asked", value, spellcheck: "false", autocomplete: "off" });
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      close(input.value);
    } },
    text && h("p", {}, text),
    h("label", { for: "asked" }, label),
    input,
    h("p.buttons", {},
      h("button", { type: "button", onclick: () => close(null) }, t("dialog.cancel")),
      h("button.primary", { type: "submit" }, action)));
    setTimeout(() => input.select());
    return form;
  });
}

/** A message that goes away by itself; problems stay until they are closed. */
export function toast(text, { hint = "", bad = false } = {}) {
  const close = h("button.icon", { type: "button", "aria-label": t("dialog.close"), onclick: () => element.remove() }, "×");
  const element = h("div.toast", { class: bad ? "bad" : "" }, h("div", {}, h("p", {}, text), hint && h("p.hint", {}, hint)), close);
  document.getElementById("toasts").append(element);
  if (!bad) setTimeout(() => element.remove(), TOAST_MS);
}

/** Tell of a problem of a call. */
export function toastProblem(error) {
  toast(problemText(error), { hint: error.hint, bad: true });
}

/** What happened, in words; the server's own words where it has some. */
export function problemText(error) {
  if (error.status === 0) return t(`problem.${error.message}`);
  return error.status ? error.message : `${t("problem.page")}: ${error.message}`;
}
