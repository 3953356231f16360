// Settings of a job, where each comes from, and those that may be changed while it runs.

import { change, get } from "../api.js";
import { ask, toast } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { table } from "../table.js";
import { t } from "../texts.js";
import { badge, choice, keepInAddress, searchBox } from "../widgets.js";

export async function settings(view, at, content, status) {
  const filter = { search: view.route.query.search ?? "", show: view.route.query.show ?? "set" };
  const list = table({
    caption: t("tab.settings"),
    key: (row) => row.name,
    rowClass: (row) => (row.layer === "changed" ? "marked" : ""),
    empty: () => h("p", {}, t("settings.none")),
    columns: [
      { name: "name", label: t("settings.name"), wide: true, sort: (row) => row.name, cell: (row) => [h("code", {}, row.name), h("span.sub", {}, row.group)] },
      { name: "value", label: t("settings.value"), wide: true, cell: (row) => h("code.value", {}, shown(row.value)) },
      { name: "layer", label: t("settings.layer"), sort: (row) => row.layer, cell: (row) => (row.layer === "changed"
        ? [badge("paused", t("settings.changed")), h("span.sub", {}, t("settings.before", { value: shown(row.before) }))] : t(`settings.layer.${row.layer}`)) },
      ...(view.may("operator") && status.state !== "finished"
        ? [{ name: "act", label: t("failures.action"), cell: (row) => (row.changeable ? h("button.small", { type: "button", "aria-label": t("settings.change_name", { name: row.name }), onclick: () => edit(row) }, t("settings.change")) : "") }] : []),
    ],
  });
  let rows = [];

  function draw() {
    const kinds = { set: (row) => row.layer !== "default" || row.changeable, changeable: (row) => row.changeable, all: () => true };
    const wanted = kinds[filter.show] ?? kinds.all;
    list.update(rows.filter((row) => wanted(row) && row.name.includes(filter.search.toLowerCase())));
  }

  async function read() {
    ({ rows } = await get(at.route("settings"), at.query));
    if (!view.isGone) draw();
  }

  async function edit(row) {
    const text = await ask({ title: t("settings.change_name", { name: row.name }), text: t("settings.change_text"), label: row.name, value: row.value === null ? "" : shown(row.value), action: t("settings.change") });
    if (text === null) return;
    await view.run(async () => {
      const value = text.trim() === "" ? null : text.trim();
      const answer = await change("PATCH", at.route("settings"), at.query, { settings: { [row.name]: value } });
      toast(t("settings.is_now", { name: row.name, value: shown(answer.settings[row.name] ?? value) }));
      await read();
    });
  }

  const apply = (changes) => {
    Object.assign(filter, changes);
    keepInAddress(filter);
    draw();
  };
  replace(content,
    h("div.toolbar", {},
      searchBox(t("settings.search"), filter.search, (search) => apply({ search }), "/"),
      choice(t("settings.show"), filter.show, ["set", "changeable", "all"].map((kind) => [kind, t(`settings.show.${kind}`)]), (show) => apply({ show }))),
    list.element);
  await read();
}

function shown(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
