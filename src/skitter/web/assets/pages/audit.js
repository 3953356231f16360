// The audit trail: who has changed what, and what came of it.

import { get } from "../api.js";
import { toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { instant, number } from "../format.js";
import { pagedTable } from "../table.js";
import { t } from "../texts.js";
import { badge, choice, emptyState, facts, jobHref, keepInAddress, searchBox } from "../widgets.js";

const VERIFY_MS = 300_000;

export async function audit(view) {
  const filter = { job: view.route.query.job ?? "", actor: view.route.query.actor ?? "", store: view.route.query.store ?? view.stores[0]?.name ?? "" };
  const list = pagedTable({
    caption: t("nav.audit"),
    key: (row) => row.id ?? `${row.at} ${row.actor} ${row.action} ${row.job}`,
    empty: () => emptyState(t("audit.none"), t("audit.none_text")),
    load: (after) => get("/audit", { ...filter, limit: 100, after }),
    onError: toastProblem,
    columns: [
      { name: "at", label: t("audit.when"), cell: (row) => h("span.when", {}, instant(row.at)) },
      { name: "actor", label: t("audit.who"), wide: true, cell: (row) => [h("span.name", {}, row.actor), row.claim ? h("span.sub", {}, t("audit.claims", { claim: row.claim })) : ""] },
      { name: "action", label: t("audit.what"), cell: (row) => h("code", {}, row.action) },
      { name: "job", label: t("jobs.job"), cell: (row) => (row.job ? h("a", { href: jobHref(filter.store, row.job) }, row.job) : "–") },
      { name: "change", label: t("audit.change"), wide: true, cell: (row) => changeOf(row) },
      { name: "outcome", label: t("audit.outcome"), cell: (row) => badge(row.outcome === "done" ? "done" : row.outcome === "unknown" ? "unknown" : "failed", row.outcome) },
    ],
  });
  const apply = (changes) => {
    Object.assign(filter, changes);
    keepInAddress(filter);
    return list.start();
  };
  const verified = h("div", { "aria-live": "polite" });
  const verify = async () => {
    const found = await get("/audit/verify", { store: filter.store }, { timeout: VERIFY_MS });
    replace(verified, h("section.panel", {},
      h("p", {}, found.ok ? badge("done", t("audit.whole", { entries: number(found.entries) })) : badge("failed", t("audit.not_whole"))),
      found.problems.length > 0 && h("ul", {}, found.problems.map((problem) => h("li", {}, problem))),
      facts([[t("audit.head"), h("code", {}, found.head)]])));
  };
  view.setTitle(t("nav.audit"));
  view.watch(null);
  replace(view.main,
    h("div.heading", {}, h("h1", { tabindex: "-1" }, t("nav.audit"))),
    h("div.toolbar", { role: "search" }, searchBox(t("audit.job"), filter.job, (job) => apply({ job }), "/"),
      searchBox(t("audit.who"), filter.actor, (actor) => apply({ actor })),
      view.stores.length > 1 && choice(t("jobs.store"), filter.store, view.stores.map(({ name }) => [name, name]), (store) => apply({ store })),
      view.may("admin") && h("button", { type: "button", onclick: () => view.run(verify, verified) }, t("audit.verify"))),
    verified,
    list.element);
  await apply({});
}

/** What was, and what it became. */
function changeOf(row) {
  const text = (values) => Object.entries(values ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
  const [details, before, after] = [text(row.details), text(row.before), text(row.after)];
  return [details && h("span.line", {}, details), before && h("span.line.old", {}, before), after && h("span.line.new", {}, after)].filter(Boolean);
}
