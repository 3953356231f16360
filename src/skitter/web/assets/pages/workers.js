// Workers of a job: what each does, its share, and who is silent or gone.

import { get } from "../api.js";
import { toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { ago, bytes, duration, percent, rate } from "../format.js";
import { pagedTable } from "../table.js";
import { named, t } from "../texts.js";
import { badge, bar, choice, count, emptyState, frontierOf, keepInAddress, workerName } from "../widgets.js";

const SILENT_SECONDS = 45;

export async function workers(view, at, content) {
  const filter = { alive: view.route.query.alive ?? "" };
  const list = pagedTable({
    caption: t("tab.workers"),
    key: (row) => row.id,
    columns: columns(),
    rowClass: (row) => (row.alive ? "" : "faded"),
    empty: () => emptyState(t("workers.none"), t("workers.none_text"), `skitter worker --job ${at.name} --frontier ${frontierOf(view, at.store)}`),
    load: (after) => get(at.route("workers"), { ...at.query, ...filter, limit: 200, after }),
    onError: toastProblem,
  });
  const apply = (changes) => {
    Object.assign(filter, changes);
    keepInAddress(filter);
    return view.run(() => list.start());
  };
  replace(content,
    h("div.toolbar", {}, choice(t("workers.which"), filter.alive, [["", t("workers.all")], ["true", t("workers.alive")], ["false", t("workers.gone")]], (alive) => apply({ alive }))),
    list.element);
  await apply({});
  view.refreshWith(() => list.reload());
}

function state(row) {
  if (row.problem) return badge("skipped", t("workers.skips"));
  if (!row.alive) return badge("gone", t("workers.is_gone"));
  if (row.silent_seconds > SILENT_SECONDS) return badge("silent", t("workers.silent"));
  return badge(row.doing === "fetching" ? "running" : row.doing.startsWith("blocked") ? "blocked" : "queued", named("doing", row.doing) || t("workers.at_work"));
}

function columns() {
  return [
    { name: "name", label: t("workers.worker"), wide: true, sort: workerName, cell: (row) => [h("span.name", { title: row.id }, workerName(row)), h("span.sub", {}, [row.version, row.member].filter(Boolean).join(" · "))] },
    { name: "state", label: t("workers.state"), sort: (row) => row.doing, cell: (row) => [
      state(row),
      row.problem ? h("span.sub", {}, row.problem) : row.alive && row.waits_for ? h("span.sub", {}, t("workers.waits", { what: named("waits", row.waits_for) })) : "",
    ] },
    { name: "slots", label: t("workers.slots"), num: true, sort: (row) => row.in_flight, cell: (row) => `${row.in_flight} / ${row.slots || "–"}` },
    { name: "leased", label: t("workers.leased"), num: true, sort: (row) => row.leased, cell: (row) => count(row.leased) },
    { name: "rate", label: t("jobs.rate"), num: true, sort: (row) => row.pages_per_second, cell: (row) => (row.alive ? rate(row.pages_per_second) : "–") },
    { name: "share", label: t("workers.share"), num: true, sort: (row) => row.share, cell: (row) => h("span.share", {}, bar(row.share, percent(row.share)), ` ${percent(row.share)}`) },
    { name: "latency", label: t("tile.latency"), num: true, sort: (row) => row.latency_seconds, cell: (row) => (row.latency_seconds ? duration(row.latency_seconds) : "–") },
    { name: "memory", label: t("workers.memory"), num: true, sort: (row) => row.memory_bytes, cell: (row) => (row.memory_bytes ? bytes(row.memory_bytes) : "–") },
    { name: "silent", label: t("workers.heard"), num: true, sort: (row) => row.silent_seconds, cell: (row) => t("workers.heard_ago", { duration: duration(row.silent_seconds) }) },
    { name: "started", label: t("workers.started"), num: true, sort: (row) => row.started_at, cell: (row) => ago(row.started_at) },
  ];
}
