// Tables that are brought up to date in place: rows keep their elements, so focus and selections survive.

import { h, replace } from "./elements.js";
import { t } from "./texts.js";

/**
 * A table. columns: [{name, label, num, wide, sort(row), cell(row)}]; cell gives text or nodes. key(row) names a row.
 * empty() gives what is shown in place of no rows. rowClass(row) marks a row. sort: {name, down}.
 */
export function table({ caption, columns, key, empty, rowClass = () => "", sort = null }) {
  const body = h("tbody", { role: "rowgroup" });
  const headers = columns.map((column) => header(column));
  const element = h(
    "table.rows", { role: "table" },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, headers)),
    body,
  );
  const nothing = h("div.empty", { hidden: true });
  const wrapper = h("div.table", {}, element, nothing);
  const shown = new Map();
  let rows = [];

  function header(column) {
    const attributes = { role: "columnheader", scope: "col", class: column.num ? "num" : "" };
    if (!column.sort) return h("th", attributes, column.label);
    const button = h("button.sort", { type: "button", onclick: () => turn(column) }, column.label, h("span.mark", { "aria-hidden": "true" }));
    return h("th", attributes, button);
  }

  function turn(column) {
    sort = { name: column.name, down: sort?.name === column.name ? !sort.down : Boolean(column.num) };
    draw();
  }

  function ordered() {
    const column = sort && columns.find(({ name }) => name === sort.name);
    headers.forEach((cell, index) => {
      if (!columns[index].sort) return;
      const direction = columns[index] === column ? (sort.down ? "descending" : "ascending") : "none";
      cell.setAttribute("aria-sort", direction);
    });
    if (!column) return rows;
    const sign = sort.down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [column.sort(a), column.sort(b)];
      return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
  }

  function draw() {
    const wanted = ordered();
    const kept = new Set();
    let place = body.firstElementChild;
    for (const row of wanted) {
      const name = key(row);
      if (kept.has(name)) continue;
      kept.add(name);
      const line = shown.get(name) ?? newLine(name);
      bringUpToDate(line, row);
      if (line.element === place) place = place.nextElementSibling;
      else body.insertBefore(line.element, place);
    }
    for (const [name, line] of shown) {
      if (kept.has(name)) continue;
      line.element.remove();
      shown.delete(name);
    }
    element.hidden = !wanted.length;
    nothing.hidden = Boolean(wanted.length);
    if (!wanted.length) replace(nothing, empty ? empty() : h("p", {}, t("table.empty")));
  }

  function newLine(name) {
    const cells = columns.map((column) =>
      h("td", { role: "cell", "data-label": column.label, class: [column.num ? "num" : "", column.wide ? "wide" : ""].join(" ").trim() || null }));
    const line = { element: h("tr", { role: "row" }, cells), cells, row: null, said: [] };
    shown.set(name, line);
    return line;
  }

  function bringUpToDate(line, row) {
    line.element.className = rowClass(row);
    if (line.row === row) return;
    line.row = row;
    columns.forEach((column, index) => {
      const content = [column.cell(row)].flat(Infinity);
      const said = content.map((part) => (part instanceof Node ? part.outerHTML : part)).join("\0");
      if (line.said[index] === said) return;
      line.said[index] = said;
      replace(line.cells[index], ...content);
    });
  }

  return {
    element: wrapper,
    update(newRows) {
      rows = newRows;
      draw();
    },
    get rows() {
      return rows;
    },
  };
}

/**
 * A table that is read page by page: load(after) gives {rows, next}; a button reads on. reload() reads the first page
 * again, unless more than that is shown: then new rows would push away what somebody reads.
 */
export function pagedTable({ load, onError, ...options }) {
  const inner = table(options);
  const more = h("button", { type: "button", hidden: true, onclick: () => read(next) }, t("table.more"));
  const element = h("div", {}, inner.element, h("p.more", {}, more));
  let next = null;
  let pages = 0;

  async function read(after) {
    more.disabled = true;
    try {
      let answer = await load(after);
      // A filter may have looked at many entries and found none of them: the server says where to go on.
      for (let empty = 0; !answer.rows.length && answer.next && empty < 20; empty += 1) answer = await load(answer.next);
      pages = after ? pages + 1 : 1;
      next = answer.next;
      inner.update(after ? [...inner.rows, ...answer.rows] : answer.rows);
      more.hidden = !next;
    } catch (error) {
      onError(error);
    }
    more.disabled = false;
  }

  return {
    element,
    start: () => read(null),
    reload: () => (pages > 1 ? Promise.resolve() : read(null)),
    /** Show a first page that came by itself. */
    show(answer) {
      if (pages > 1) return;
      pages = 1;
      next = answer.next;
      more.hidden = !next;
      inner.update(answer.rows);
    },
    get rows() {
      return inner.rows;
    },
  };
}
