// Intakes of a job: where requests come from, and how far each is behind.

import { get } from "../api.js";
import { h, replace } from "../elements.js";
import { duration } from "../format.js";
import { table } from "../table.js";
import { t } from "../texts.js";
import { badge, count, emptyState, frontierOf } from "../widgets.js";

export async function intakes(view, at, content) {
  const list = table({
    caption: t("tab.intakes"),
    key: (row) => row.source,
    empty: () => emptyState(t("intakes.none"), t("intakes.none_text"), `skitter worker --job ${at.name} --intake file:urls.txt --frontier ${frontierOf(view, at.store)}`),
    columns: [
      { name: "source", label: t("intakes.source"), wide: true, cell: (row) => h("code", {}, row.source) },
      { name: "state", label: t("intakes.state"), cell: (row) => state(row) },
      { name: "backlog", label: t("intakes.backlog"), num: true, cell: (row) => (row.backlog === null ? "–" : count(row.backlog)) },
      { name: "lag", label: t("intakes.lag"), num: true, cell: (row) => (row.lag_seconds === null ? "–" : duration(row.lag_seconds)) },
      { name: "read", label: t("intakes.read"), num: true, cell: (row) => count(row.read) },
      { name: "added", label: t("intakes.added"), num: true, cell: (row) => count(row.added) },
      { name: "dead", label: t("intakes.dead"), num: true, cell: (row) => (row.dead_letters ? h("span.bad-text", {}, count(row.dead_letters)) : "0") },
    ],
  });
  const read = async () => list.update((await get(at.route("intakes"), at.query)).rows);
  replace(content, list.element);
  await read();
  view.refreshWith(() => view.run(read));
}

function state(row) {
  if (row.closed) return badge("done", t("intakes.closed"));
  if (row.trouble) return badge("failed", row.trouble);
  if (row.paused) return badge("paused", row.paused);
  return row.owners.length ? badge("running", t("intakes.reading")) : badge("gone", t("intakes.nobody"));
}
