// Items of a job: which fields are filled, the latest records, and where they go.

import { get } from "../api.js";
import { h, replace } from "../elements.js";
import { number, percent } from "../format.js";
import { table } from "../table.js";
import { t } from "../texts.js";
import { bar, emptyState, facts, frontierOf, panel } from "../widgets.js";

const SAMPLE = 20;

export async function items(view, at, content) {
  const about = h("div");
  const fields = table({
    caption: t("items.fields"),
    key: (row) => row.name,
    empty: () => h("p", {}, t("items.no_fields")),
    columns: [
      { name: "name", label: t("items.field"), wide: true, sort: (row) => row.name, cell: (row) => h("code", {}, row.name) },
      { name: "rate", label: t("items.filled"), sort: (row) => row.rate, cell: (row) => h("span.share", {}, bar(row.rate, percent(row.rate)), ` ${percent(row.rate)}`) },
      { name: "count", label: t("items.count"), num: true, sort: (row) => row.filled, cell: (row) => number(row.filled) },
      { name: "types", label: t("items.types"), cell: (row) => Object.entries(row.types).map(([type, n]) => `${type} ${number(n)}`).join(", ") },
    ],
  });
  const records = h("ol.records");
  const read = async () => {
    const answer = await get(at.route("items"), { ...at.query, sample: SAMPLE });
    if (view.isGone) return;
    if (!answer.items) return void replace(content, emptyState(t("items.none"), t("items.none_text"), `skitter crawl URL -o items.jsonl --job ${at.name} --frontier ${frontierOf(view, at.store)}`));
    if (!content.contains(records)) replace(content, about, panel(t("items.fields"), fields.element), panel(t("items.sample"), records));
    replace(about, facts([[t("items.looked_at"), number(answer.items)], [t("items.source"), h("code", {}, answer.source)], [t("items.undelivered"), number(answer.undelivered)]]));
    fields.update(Object.entries(answer.fields).map(([name, field]) => ({ name, ...field })));
    const said = JSON.stringify(answer.sample);
    if (records.dataset.said === said) return;
    records.dataset.said = said;
    replace(records, answer.sample.map((record) => h("li", {}, h("dl.record", {}, Object.entries(record).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))))))));
  };
  await read();
  view.refreshWith(() => view.run(read));
}
