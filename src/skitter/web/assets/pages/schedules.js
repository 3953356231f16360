// Schedules, and the history of one.

import { change, get, path } from "../api.js";
import { confirm, toast, toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { ago, duration, instant } from "../format.js";
import { pagedTable, table } from "../table.js";
import { named, t } from "../texts.js";
import { badge, emptyState, facts, jobHref, panel, scheduleHref } from "../widgets.js";

const REFRESH_MS = 5_000;

export async function schedules(view) {
  const leader = h("p.meta");
  const list = pagedTable({
    caption: t("nav.schedules"),
    key: (row) => `${row.store}\n${row.name}`,
    empty: () => emptyState(t("schedules.none"), t("schedules.none_text"), `skitter schedule add nightly --cron "0 2 * * *" --frontier ${view.stores[0]?.frontier ?? ""} -- crawl https://example.com`),
    load: async (after) => {
      const answer = await get("/schedules", { limit: 100, after });
      replace(leader, answer.leader ? t("schedules.leader", { leader: answer.leader }) : answer.rows.length ? h("span.bad-text", {}, t("schedules.no_leader")) : "");
      return answer;
    },
    onError: toastProblem,
    columns: [
      { name: "name", label: t("schedules.name"), wide: true, cell: (row) => [h("a.name", { href: scheduleHref(row.store, row.name) }, row.name), h("span.sub", {}, row.command.join(" "))] },
      { name: "when", label: t("schedules.when"), cell: (row) => [h("code", {}, when(row)), h("span.sub", {}, row.timezone)] },
      { name: "state", label: t("jobs.state"), cell: (row) => state(row) },
      { name: "next", label: t("schedules.next"), num: true, cell: (row) => ago(row.next_at) },
      { name: "last", label: t("schedules.last"), cell: (row) => (row.last ? [badge(row.last.outcome), h("span.sub", {}, ago(row.last.scheduled_at))] : "–") },
    ],
  });
  view.setTitle(t("nav.schedules"));
  view.watch(null);
  replace(view.main, h("div.heading", {}, h("h1", { tabindex: "-1" }, t("nav.schedules")), leader,
    view.may("operator") && h("div.actions", {}, h("a.button.primary", { href: "#/schedule-form", "data-key": "n" }, t("schedules.new")))), list.element);
  await list.start();
  repeat(view, () => list.reload());
}

export async function schedule(view) {
  const [store, name] = view.route.parts;
  const route = (...parts) => path("schedules", name, ...parts);
  const heading = h("div.heading.job");
  const about = h("div");
  const history = table({
    caption: t("schedules.history"),
    key: (row) => `${row.scheduled_at} ${row.manual}`,
    empty: () => h("p", {}, t("schedules.no_history")),
    columns: [
      { name: "scheduled", label: t("schedules.scheduled"), cell: (row) => [h("span.when", {}, instant(row.scheduled_at)), row.manual ? h("span.sub", {}, t("schedules.manual")) : ""] },
      { name: "outcome", label: t("schedules.outcome"), cell: (row) => [badge(row.outcome), row.reason ? h("span.sub", {}, row.reason) : ""] },
      { name: "took", label: t("schedules.took"), num: true, cell: (row) => (row.started_at && row.ended_at ? duration(row.ended_at - row.started_at) : "–") },
      { name: "job", label: t("jobs.job"), cell: (row) => (row.job ? h("a", { href: jobHref(store, row.job) }, row.job) : "–") },
      { name: "exit", label: t("schedules.exit"), num: true, cell: (row) => (row.exit_code === null ? "–" : String(row.exit_code)) },
      { name: "output", label: t("schedules.output"), wide: true, cell: (row) => (row.output ? h("details.error", {}, h("summary", {}, row.output.trim().split("\n").at(-1)), h("pre", { tabindex: "0" }, row.output)) : "–") },
    ],
  });
  view.setTitle(name, t("nav.schedules"));
  view.watch(null);
  replace(view.main, h("p.crumbs", {}, h("a", { href: "#/schedules" }, t("nav.schedules")), h("span", { "aria-hidden": "true" }, "/"), h("span", {}, name)), heading, about, panel(t("schedules.history"), history.element));

  const read = async () => {
    const [found, past] = await Promise.all([get(route(), { store }), get(route("history"), { store, limit: 100 })]);
    if (view.isGone) return;
    const said = JSON.stringify(found);
    if (heading.dataset.said !== said) draw(found);
    heading.dataset.said = said;
    history.update(past.rows);
  };
  const act = (action, question = null) => async () => {
    if (question && !(await confirm({ title: t("schedules.confirm_remove", { name }), text: t("schedules.confirm_remove_text"), action: t("schedules.remove"), danger: true }))) return;
    await view.run(async () => {
      if (action === "remove") {
        await change("DELETE", route(), { store });
        location.hash = "#/schedules";
        return;
      }
      await change("POST", route(action), { store });
      toast(t(`schedules.did_${action}`, { name }));
      await read();
    });
  };
  function draw(found) {
    const button = (action, options = {}) => h("button", { type: "button", "data-action": action, onclick: act(action, action === "remove" ? "remove" : null), ...options }, t(`schedules.${action}`));
    replace(heading, h("h1", { tabindex: "-1" }, name), state(found),
      view.may("operator") && h("div.actions", {}, button("run", { class: "primary" }), found.paused ? button("resume", { "data-key": "p" }) : button("pause", { "data-key": "p" }),
        !found.origin && h("a.button", { href: `#/schedule-form?${new URLSearchParams({ store, name })}` }, t("schedules.change")), button("remove", { class: "danger" })));
    replace(about, h("section.panel", {}, facts([
      [t("schedules.command"), h("code", {}, ["skitter", ...found.command].join(" "))],
      [t("schedules.when"), h("code", {}, when(found))],
      [t("schedules.timezone"), found.timezone],
      [t("schedules.next"), found.next_at ? [ago(found.next_at), ` (${instant(found.next_at)})`] : "–"],
      [t("schedules.overlap"), found.overlap],
      [t("schedules.catch_up"), found.catch_up],
      [t("schedules.start_within"), found.start_within_seconds === null ? "" : duration(found.start_within_seconds)],
      [t("schedules.retries"), found.retries ? t("schedules.retries_after", { retries: found.retries, duration: duration(found.retry_delay_seconds) }) : ""],
      [t("schedules.until"), found.until ? instant(found.until) : ""],
      [t("jobs.job"), found.job ? h("a", { href: jobHref(store, found.job) }, found.job) : ""],
    ])));
  }
  await read();
  repeat(view, () => view.run(read));
}

function when(row) {
  return row.cron || t("schedules.every", { duration: duration(row.every_seconds) });
}

function state(row) {
  if (row.running.length) return badge("running", named("state", "running"));
  if (row.paused) return badge("paused", named("state", "paused"));
  return row.next_at ? badge("ok", t("schedules.active")) : badge("stopped", t("schedules.over"));
}

/** Schedules have no events: they are read again while the page is shown. */
function repeat(view, read) {
  const timer = setInterval(() => document.visibilityState === "visible" && read(), REFRESH_MS);
  view.onLeave(() => clearInterval(timer));
}
