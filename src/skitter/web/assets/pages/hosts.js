// Hosts of a job: the slow and troubled ones, those with deep queues, and all of them.

import { get } from "../api.js";
import { toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { duration } from "../format.js";
import { pagedTable } from "../table.js";
import { t } from "../texts.js";
import { badge, choice, count, emptyState, jobHref, keepInAddress, searchBox } from "../widgets.js";

const KINDS = ["slow", "deep", "all"];

export async function hosts(view, at, content) {
  const { query } = view.route;
  const filter = { kind: KINDS.includes(query.kind) ? query.kind : "slow", search: query.search ?? "" };
  const list = pagedTable({
    caption: t("tab.hosts"),
    key: (row) => row.key,
    columns: columns(at),
    empty: () => emptyState(t("hosts.none"), t("hosts.none_text")),
    load: (after) => get(at.route("hosts"), { ...at.query, kind: filter.kind, search: filter.kind === "all" ? filter.search : "", after }),
    onError: toastProblem,
  });
  const apply = (changes) => {
    Object.assign(filter, changes);
    keepInAddress(filter);
    search.hidden = filter.kind !== "all";
    return view.run(() => list.start());
  };
  const search = searchBox(t("hosts.search"), filter.search, (text) => apply({ search: text }), "/");
  replace(content,
    h("div.toolbar", {}, choice(t("hosts.kind"), filter.kind, KINDS.map((kind) => [kind, t(`hosts.${kind}`)]), (kind) => apply({ kind })), search),
    list.element);
  await apply({});
  view.refreshWith(() => list.reload());
}

function state(row) {
  if (row.stopped_by) return badge("stopped", t("hosts.stopped", { by: row.stopped_by }));
  if (row.blocked_seconds) return badge("blocked", t("hosts.blocked", { duration: duration(row.blocked_seconds) }));
  if (row.address_full) return badge("delayed", t("hosts.address_full"));
  if (row.due_seconds) return badge("queued", t("hosts.due", { duration: duration(row.due_seconds) }));
  return row.queued || row.in_flight ? badge("ok", t("hosts.ready")) : badge("stopped", t("hosts.idle"));
}

function columns(at) {
  return [
    { name: "key", label: t("hosts.host"), wide: true, sort: (row) => row.key, cell: (row) => [h("span.name", {}, row.key), row.address && h("span.sub", {}, row.address)].filter(Boolean) },
    { name: "state", label: t("hosts.state"), cell: (row) => state(row) },
    { name: "queued", label: t("part.queued"), num: true, sort: (row) => row.queued, cell: (row) => count(row.queued) },
    { name: "in_flight", label: t("part.leased"), num: true, sort: (row) => row.in_flight, cell: (row) => count(row.in_flight) },
    { name: "pages", label: t("jobs.pages"), num: true, sort: (row) => row.pages, cell: (row) => count(row.pages) },
    { name: "latency", label: t("tile.latency"), num: true, sort: (row) => row.latency_seconds, cell: (row) => (row.latency_seconds ? duration(row.latency_seconds) : "–") },
    { name: "strikes", label: t("hosts.strikes"), num: true, sort: (row) => row.strikes, cell: (row) => count(row.strikes) },
    { name: "error", label: t("hosts.error"), sort: (row) => row.error_class, cell: (row) => (row.error_class ? h("a", { href: jobHref(at.store, at.name, "failures", { host: row.key }) }, row.error_class) : "–") },
  ];
}
