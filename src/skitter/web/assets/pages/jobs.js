// All jobs of the stores.

import { get } from "../api.js";
import { toastProblem } from "../dialogs.js";
import { h, replace, setText } from "../elements.js";
import { ago, duration, number, rate } from "../format.js";
import { pagedTable } from "../table.js";
import { named, t } from "../texts.js";
import { badge, choice, count, emptyState, jobHref, keepInAddress, searchBox, shownState } from "../widgets.js";

const STATES = ["running", "interrupted", "paused", "draining", "stopped", "finished", "unreadable"];
const LIMIT = 100;

export async function jobs(view) {
  const filter = { search: view.route.query.search ?? "", state: view.route.query.state ?? "", store: view.route.query.store ?? "" };
  const manyStores = view.stores.length > 1;
  const total = h("p.total", { role: "status" });
  const list = pagedTable({
    caption: t("jobs.title"),
    columns: columns(manyStores),
    key: (row) => `${row.store}\n${row.job}`,
    empty: () => (filter.search || filter.state || filter.store ? noMatch() : noJobs(view)),
    load: (after) => get("/jobs", { ...filter, limit: LIMIT, after }),
    onError: toastProblem,
  });

  function apply(changes) {
    Object.assign(filter, changes);
    keepInAddress(filter);
    view.watch({ jobs: "true", ...filter });
    return view.run(() => list.start());
  }

  function noMatch() {
    return h("div.nothing", {}, h("p.title", {}, t("jobs.no_match")), h("p", {}, h("a", { href: "#/jobs" }, t("jobs.show_all"))));
  }

  view.setTitle(t("jobs.title"));
  replace(view.main,
    h("div.heading", {}, h("h1", { tabindex: "-1" }, t("jobs.title")), total,
      view.may("operator") && h("a.button.primary", { href: "#/submit", "data-key": "n" }, t("jobs.new"))),
    h("div.toolbar", { role: "search" },
      searchBox(t("jobs.search"), filter.search, (search) => apply({ search }), "/"),
      choice(t("jobs.state"), filter.state, [["", t("jobs.every_state")], ...STATES.map((state) => [state, t(`state.${state}`)])], (state) => apply({ state })),
      manyStores && choice(t("jobs.store"), filter.store, [["", t("jobs.every_store")], ...view.stores.map(({ name }) => [name, name])], (store) => apply({ store }))),
    list.element);
  view.on("jobs", (answer) => {
    list.show(answer);
    const running = list.rows.filter((row) => row.state === "running" && row.workers);
    const together = running.reduce((sum, row) => sum + (row.pages_per_second ?? 0), 0);
    setText(total, t("jobs.total", { jobs: number(list.rows.length), running: number(running.length), rate: rate(together) }));
  });
  await apply({});
}

function columns(manyStores) {
  return [
    { name: "job", label: t("jobs.job"), sort: (row) => row.job, wide: true, cell: (row) => [
      h("a.name", { href: jobHref(row.store, row.job) }, row.job),
      h("span.sub", {}, [manyStores && row.store, row.spider].filter(Boolean).join(" · ")),
    ] },
    { name: "state", label: t("jobs.state"), sort: shownState, cell: (row) => [
      badge(shownState(row)),
      row.problem ? h("span.sub.bad-text", {}, row.problem) : row.reason ? h("span.sub", {}, named("stop", row.reason)) : "",
    ] },
    { name: "done", label: t("jobs.pages"), num: true, sort: (row) => row.done ?? -1, cell: (row) => count(row.done) },
    { name: "rate", label: t("jobs.rate"), num: true, sort: (row) => row.pages_per_second ?? -1, cell: (row) => (row.pages_per_second ? rate(row.pages_per_second) : "–") },
    { name: "failed", label: t("jobs.failed"), num: true, sort: (row) => row.failed ?? -1, cell: (row) =>
      (row.failed ? h("a.bad-text", { href: jobHref(row.store, row.job, "failures") }, count(row.failed)) : count(row.failed)) },
    { name: "unfinished", label: t("jobs.unfinished"), num: true, sort: (row) => row.unfinished ?? -1, cell: (row) => count(row.unfinished) },
    { name: "workers", label: t("jobs.workers"), num: true, sort: (row) => row.workers ?? -1, cell: (row) => count(row.workers) },
    { name: "age", label: t("jobs.age"), num: true, sort: (row) => -(row.started_at ?? 0), cell: (row) => [
      row.started_at ? ago(row.started_at) : "–",
      row.ended_at ? h("span.sub", {}, t("jobs.took", { duration: duration(row.ended_at - row.started_at) })) : "",
    ] },
  ];
}

function noJobs(view) {
  const frontier = view.stores[0]?.frontier ?? "";
  return emptyState(t("jobs.none"), t("jobs.none_text"), `skitter crawl https://example.com --frontier ${frontier}`);
}
