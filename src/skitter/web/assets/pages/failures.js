// Failures of a job, by class and host, one page after another; one or all of them are tried again.

import { change, get } from "../api.js";
import { confirm, toast, toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { ago, number } from "../format.js";
import { pagedTable } from "../table.js";
import { t } from "../texts.js";
import { choice, count, emptyState, keepInAddress, searchBox, urlLink } from "../widgets.js";

const MOST_HOSTS = 8;

export async function failures(view, at, content) {
  const { query } = view.route;
  const filter = { class: query.class ?? "", host: query.host ?? "", order: query.order === "oldest" ? "oldest" : "newest" };
  const summary = h("div.filters");
  const toolbar = h("div.toolbar");
  const list = pagedTable({
    caption: t("tab.failures"),
    key: (row) => row.id,
    columns: columns(view, at, (row) => retryOne(row)),
    empty: () => (filter.class || filter.host ? emptyState(t("failures.no_match")) : emptyState(t("failures.none"), t("failures.none_text"))),
    load: (after) => get(at.route("failures"), { ...at.query, ...filter, limit: 50, after }),
    onError: toastProblem,
  });

  function apply(changes) {
    Object.assign(filter, changes);
    keepInAddress({ ...filter, order: filter.order === "newest" ? "" : filter.order });
    drawToolbar();
    readSummary();
    return view.run(() => list.start());
  }

  function drawToolbar() {
    const focused = toolbar.querySelector("input");
    if (focused && focused === document.activeElement) return;
    replace(toolbar,
      searchBox(t("failures.host"), filter.host, (host) => apply({ host }), "/"),
      choice(t("failures.order"), filter.order, [["newest", t("failures.newest")], ["oldest", t("failures.oldest")]], (order) => apply({ order })),
      view.may("operator") && h("button", { type: "button", id: "retry-all", onclick: retryAll }, filter.class || filter.host ? t("failures.retry_shown") : t("failures.retry_all")));
  }

  async function readSummary() {
    const answer = await view.run(() => get(at.route("failures", "summary"), at.query));
    if (!answer || view.isGone) return;
    const chip = (name, value, text, total) => h("button.chip", { type: "button", "aria-pressed": String(filter[name] === value), onclick: () => apply({ [name]: filter[name] === value ? "" : value }) }, `${text} `, h("b", {}, number(total)));
    const classes = Object.entries(answer.classes).filter(([, total]) => total).sort(([, a], [, b]) => b - a);
    const said = JSON.stringify([answer, filter]);
    if (summary.dataset.said === said) return;
    summary.dataset.said = said;
    replace(summary,
      classes.length > 0 && h("div.chips", { role: "group", "aria-label": t("failures.by_class") }, h("span.label", {}, t("failures.by_class")), classes.map(([name, total]) => chip("class", name, name, total))),
      answer.hosts.length > 0 && h("div.chips", { role: "group", "aria-label": t("failures.by_host") }, h("span.label", { title: t("failures.looked_at", { count: number(answer.looked_at) }) }, t("failures.by_host")),
        answer.hosts.slice(0, MOST_HOSTS).map(({ host, failures: total }) => chip("host", host, host, total))));
  }

  async function retryOne(row) {
    await view.run(async () => {
      const { retried } = await change("POST", at.route("failures", "retry"), at.query, { ids: [row.id] });
      toast(t("failures.retried", { count: number(retried) }));
      await list.start();
      await readSummary();
    });
  }

  async function retryAll() {
    const text = filter.class || filter.host ? t("failures.confirm_shown", { class: filter.class || "–", host: filter.host || "–" }) : t("failures.confirm_all");
    if (!(await confirm({ title: t("failures.confirm"), text, action: t("failures.retry") }))) return;
    await view.run(async () => {
      const body = Object.fromEntries(Object.entries({ class: filter.class, host: filter.host }).filter(([, value]) => value));
      let total = 0;
      for (let more = true; more && !view.isGone;) {
        const answer = await change("POST", at.route("failures", "retry"), at.query, body);
        total += answer.retried;
        more = answer.more;
      }
      toast(t("failures.retried", { count: number(total) }));
      await list.start();
      await readSummary();
    });
  }

  replace(content, summary, toolbar, list.element);
  await apply({});
  view.refreshWith(() => {
    list.reload();
    readSummary();
  });
}

function columns(view, at, retry) {
  return [
    { name: "url", label: t("failures.url"), wide: true, cell: (row) => [
      urlLink(at.store, at.name, row.url),
      row.referrer && h("span.sub", {}, t("failures.found_on"), " ", urlLink(at.store, at.name, row.referrer)),
    ].filter(Boolean) },
    { name: "class", label: t("failures.class"), cell: (row) => [h("span.name", {}, row.error_class), row.status ? h("span.sub", {}, t("failures.status", { status: row.status })) : ""] },
    { name: "error", label: t("failures.error"), wide: true, cell: (row) => errorText(row.error) },
    { name: "attempts", label: t("failures.attempts"), num: true, cell: (row) => [count(row.attempts), row.losses ? h("span.sub", {}, t("failures.lost", { losses: row.losses })) : ""] },
    { name: "ended", label: t("failures.when"), num: true, cell: (row) => ago(row.ended_at) },
    ...(view.may("operator") ? [{ name: "act", label: t("failures.action"), cell: (row) => h("button.small", { type: "button", "aria-label": t("failures.retry_url", { url: row.url }), onclick: () => retry(row) }, t("failures.retry")) }] : []),
  ];
}

/** The last line says what happened; the traceback is there to be opened. */
export function errorText(error) {
  const lines = error.trim().split("\n");
  if (lines.length === 1) return h("span.error", {}, lines[0]);
  return h("details.error", {}, h("summary", {}, lines.at(-1).startsWith(" ") ? lines[0] : lines.at(-1)), h("pre", { tabindex: "0" }, error));
}
