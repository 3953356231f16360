// Hosts of a job: the slow and troubled ones, those with deep queues, all of them; and their pause and end.

import { change, get } from "../api.js";
import { confirm, toast, toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { duration } from "../format.js";
import { pagedTable } from "../table.js";
import { t } from "../texts.js";
import { badge, choice, count, emptyState, jobHref, keepInAddress, searchBox } from "../widgets.js";

const KINDS = ["slow", "deep", "all", "paused", "blocked", "given_up"];
const LISTED = KINDS.slice(2);

export async function hosts(view, at, content) {
  const { query } = view.route;
  const filter = { kind: KINDS.includes(query.kind) ? query.kind : "slow", search: query.search ?? "" };
  const list = pagedTable({
    caption: t("tab.hosts"),
    key: (row) => row.key,
    columns: columns(view, at, act),
    empty: () => emptyState(t("hosts.none"), t("hosts.none_text")),
    load: (after) => get(at.route("hosts"), { ...at.query, kind: filter.kind, search: LISTED.includes(filter.kind) ? filter.search : "", after }),
    onError: toastProblem,
  });
  const apply = (changes) => {
    Object.assign(filter, changes);
    keepInAddress(filter);
    search.hidden = !LISTED.includes(filter.kind);
    return view.run(() => list.start());
  };
  const search = searchBox(t("hosts.search"), filter.search, (text) => apply({ search: text }), "/");
  replace(content,
    h("div.toolbar", {}, choice(t("hosts.kind"), filter.kind, KINDS.map((kind) => [kind, t(`hosts.${kind}`)]), (kind) => apply({ kind })), search),
    list.element);

  /** Ask, and then pause, resume or give up a host. */
  async function act(command, host) {
    const label = t(`hosts.${command}`);
    const sure = await confirm({ title: t("hosts.act_title", { command: label, host }), text: t(`hosts.${command}_text`), action: label, danger: command === "give-up" });
    if (!sure) return;
    await view.run(async () => {
      await change("POST", at.route("hosts", command), at.query, { host });
      toast(t(`hosts.${command}_done`, { host }));
      await list.start();
    });
  }

  await apply({});
  view.refreshWith(() => list.reload());
}

function state(row) {
  if (row.paused) return badge("paused", t("hosts.is_paused"));
  if (row.given_up) return badge("failed", t("hosts.is_given_up"));
  if (row.stopped_by) return badge("stopped", t("hosts.stopped", { by: row.stopped_by }));
  if (row.blocked_seconds) return badge("blocked", t("hosts.is_blocked", { duration: duration(row.blocked_seconds) }));
  if (row.address_full) return badge("delayed", t("hosts.address_full"));
  if (row.due_seconds) return badge("queued", t("hosts.due", { duration: duration(row.due_seconds) }));
  return row.queued || row.in_flight ? badge("ok", t("hosts.ready")) : badge("stopped", t("hosts.idle"));
}

/** What an operator may do with the host. Only its key is used: a cell that says the same is kept. */
function actions(row, act) {
  const commands = row.paused ? ["resume", "give-up"] : row.given_up ? ["resume", "pause"] : ["pause", "give-up"];
  const host = row.key;
  return h("div.actions", {}, commands.map((command) => h("button.small", { type: "button", "aria-label": t("hosts.act_title", { command: t(`hosts.${command}`), host }), onclick: () => act(command, host) }, t(`hosts.${command}`))));
}

function columns(view, at, act) {
  return [
    { name: "key", label: t("hosts.host"), wide: true, sort: (row) => row.key, cell: (row) => [h("span.name", {}, row.key), row.address && h("span.sub", {}, row.address)].filter(Boolean) },
    { name: "state", label: t("hosts.state"), cell: (row) => state(row) },
    { name: "queued", label: t("part.queued"), num: true, sort: (row) => row.queued, cell: (row) => count(row.queued) },
    { name: "in_flight", label: t("part.leased"), num: true, sort: (row) => row.in_flight, cell: (row) => count(row.in_flight) },
    { name: "pages", label: t("jobs.pages"), num: true, sort: (row) => row.pages, cell: (row) => count(row.pages) },
    { name: "latency", label: t("tile.latency"), num: true, sort: (row) => row.latency_seconds, cell: (row) => (row.latency_seconds ? duration(row.latency_seconds) : "–") },
    { name: "strikes", label: t("hosts.strikes"), num: true, sort: (row) => row.strikes, cell: (row) => count(row.strikes) },
    { name: "error", label: t("hosts.error"), sort: (row) => row.error_class, cell: (row) => (row.error_class ? h("a", { href: jobHref(at.store, at.name, "failures", { host: row.key }) }, row.error_class) : "–") },
    ...(view.may("operator") ? [{ name: "act", label: t("failures.action"), cell: (row) => actions(row, act) }] : []),
  ];
}
