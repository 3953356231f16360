// Shortcuts, and the dialog that lists them. They can be switched off: a voice or a slip may type letters.

import { dialog } from "./dialogs.js";
import { h } from "./elements.js";
import { recall, remember, t } from "./texts.js";

const OFF = "skitter.shortcuts";
const TABS = 9;
const SECOND_KEY_MS = 1_200;

export function startKeyboard({ view, toggleTheme }) {
  let first = "";
  let timer = 0;
  const shortcuts = [
    ["?", "keys.help", help],
    ["/", "keys.search", () => focusOn("[data-key='/']")],
    ["g j", "keys.jobs", () => go("#/jobs")],
    ["g s", "keys.schedules", () => go("#/schedules")],
    ["g a", "keys.audit", () => view().may("operator") && go("#/audit")],
    ["n", "keys.submit", () => click("[data-key='n']")],
    ["p", "keys.pause", () => click("[data-key='p']")],
    ["j", "keys.down", () => moveRow(1)],
    ["k", "keys.up", () => moveRow(-1)],
    ["t", "keys.theme", toggleTheme],
  ];

  function go(hash) {
    location.hash = hash;
  }

  function click(selector) {
    document.querySelector(selector)?.click();
  }

  function focusOn(selector) {
    const found = document.querySelector(selector);
    found?.focus();
    found?.select?.();
  }

  /** Move the focus to the first link or button of the next row. */
  function moveRow(step) {
    const rows = [...document.querySelectorAll("main table.rows tbody tr")];
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : now + step];
    next?.querySelector("a, button, input")?.focus();
  }

  function help() {
    if (document.querySelector("dialog[open]")) return;
    const rows = [...shortcuts, [`1 – ${TABS}`, "keys.tabs"], ["Esc", "keys.close"], ["← →", "keys.chart"]];
    const box = h("input", { type: "checkbox", checked: recall(OFF) !== "off", onchange: () => remember(OFF, box.checked ? "on" : "off") });
    dialog(t("keys.title"), (close) => [
      h("table.keys", {}, h("tbody", {}, rows.map(([keys, text]) =>
        h("tr", {}, h("th", { scope: "row" }, keys.split(" ").map((key) => (key === "–" ? " – " : h("kbd", {}, key)))), h("td", {}, t(text)))))),
      h("label.check", {}, box, t("keys.on")),
      h("p.buttons", {}, h("button.primary", { type: "button", autofocus: true, onclick: () => close(null) }, t("dialog.close"))),
    ]);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (recall(OFF) === "off") return;
    const keys = first ? `${first} ${event.key}` : event.key;
    clearTimeout(timer);
    first = "";
    if (/^[1-9]$/.test(event.key)) return void document.querySelectorAll(".tabs a")[Number(event.key) - 1]?.click();
    const found = shortcuts.find(([wanted]) => wanted === keys);
    if (found) {
      event.preventDefault();
      found[2]();
    } else if (shortcuts.some(([wanted]) => wanted.startsWith(`${event.key} `))) {
      first = event.key;
      timer = setTimeout(() => (first = ""), SECOND_KEY_MS);
    }
    return undefined;
  });
  return { help };
}
