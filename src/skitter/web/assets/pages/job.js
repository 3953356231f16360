// One job: its heading, what can be done with it, and its tabs.

import { change, get, path } from "../api.js";
import { ask, confirm, toast, toastProblem } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { ago, rate } from "../format.js";
import { named, t } from "../texts.js";
import { badge, jobHref, shownState } from "../widgets.js";
import { check } from "./check.js";
import { failures } from "./failures.js";
import { hosts } from "./hosts.js";
import { intakes } from "./intakes.js";
import { items } from "./items.js";
import { network } from "./network.js";
import { overview } from "./overview.js";
import { settings } from "./settings.js";
import { why } from "./why.js";
import { workers } from "./workers.js";

const TABS = { overview, hosts, workers, failures, items, why, settings, intakes, network, check };

export async function job(view) {
  const [store, name, tab = "overview"] = view.route.parts;
  const shown = tab in TABS ? tab : "overview";
  const heading = h("div.heading.job", {});
  const content = h("div.content", {});
  const at = { store, name, query: { store }, route: (...parts) => path("jobs", name, ...parts), frame: { heading } };
  view.setTitle(t(`tab.${shown}`), name);
  replace(view.main,
    h("p.crumbs", {}, h("a", { href: "#/jobs" }, t("nav.jobs")), h("span", { "aria-hidden": "true" }, "/"), h("span", {}, name)),
    heading,
    h("nav.tabs", { "aria-label": t("job.pages") }, Object.keys(TABS).map((each) =>
      h("a", { href: jobHref(store, name, each === "overview" ? "" : each), "aria-current": each === shown ? "page" : null }, t(`tab.${each}`)))),
    content);
  const first = await get(at.route(), at.query);
  if (view.isGone) return;
  let drawn = "";
  const draw = (status) => {
    const said = JSON.stringify([shownState(status), status.run, status.spider, status.reason, status.started_at]);
    if (said !== drawn) drawHeading(view, at, heading, status);
    drawn = said;
    const speed = status.pages_per_second ? [rate(status.pages_per_second)] : [];
    view.setTitle(...speed, t(`tab.${shown}`), name);
  };
  draw(first);
  view.watch({ job: name, store });
  view.on("job", (status) => status.job === name && draw(status));
  view.on("problem", (problem) => problem.status === 404 && replace(view.main,
    h("section.panel.problem", { role: "alert" }, h("h2", {}, t("job.gone", { job: name })), h("p", {}, h("a", { href: "#/jobs" }, t("jobs.show_all"))))));
  await view.run(() => TABS[shown](view, at, content, first), content);
}

function drawHeading(view, at, heading, status) {
  const state = shownState(status);
  const focused = heading.contains(document.activeElement) && document.activeElement.dataset.action;
  replace(heading,
    h("h1", { tabindex: "-1" }, at.name), badge(state),
    h("p.meta", {},
      h("span", {}, t("job.run", { run: status.run })),
      h("span", {}, status.spider || t("job.built_in")),
      h("span", {}, t("job.started"), " ", ago(status.started_at)),
      status.reason && h("span.bad-text", {}, named("stop", status.reason))),
    view.may("operator") && h("div.actions", {}, actions(view, at, status)));
  if (focused) heading.querySelector(`[data-action="${focused}"]`)?.focus();
}

function actions(view, at, status) {
  const { state } = status;
  const button = (name, act, options = {}) => h("button", { type: "button", "data-action": name, onclick: act, ...options }, t(`act.${name}`));
  const tell = (name, question) => () => act(view, at, name, question);
  return [
    state === "running" && button("pause", tell("pause"), { "data-key": "p" }),
    (state === "paused" || state === "stopped") && button("resume", tell("resume"), { "data-key": "p", class: "primary" }),
    (state === "running" || state === "paused") && button("stop", tell("stop", "stop")),
    (state === "finished" || state === "stopped") && button("runs", tell("runs", "runs"), { class: state === "finished" ? "primary" : "" }),
    state !== "finished" && button("add", () => addUrls(view, at)),
    view.may("admin") && state !== "running" && button("drop", () => drop(view, at), { class: "danger" }),
  ];
}

/** Send a command to the job, after a question if there is one. */
async function act(view, at, name, question) {
  if (question && !(await confirm({ title: t(`confirm.${question}`, { job: at.name }), text: t(`confirm.${question}.text`), action: t(`act.${name}`), danger: question === "stop" }))) return;
  await view.run(async () => {
    let answer = await change("POST", at.route(name), at.query);
    if (answer.spent_max_pages) {
      const more = await ask({ title: t("confirm.max_pages", { job: at.name }), text: t("confirm.max_pages.text", { limit: answer.spent_max_pages }), label: "max_pages", value: String(2 * answer.spent_max_pages), action: t("act.resume") });
      if (more === null) return;
      await change("PATCH", at.route("settings"), at.query, { settings: { max_pages: more.trim() } });
      answer = await change("POST", at.route(name), at.query);
    }
    toast(t("job.is_now", { job: at.name, state: named("state", answer.state) }));
    drawHeading(view, at, at.frame.heading, await get(at.route(), at.query));
  });
}

async function addUrls(view, at) {
  const text = await ask({ title: t("act.add"), label: t("job.urls_one_a_line"), action: t("act.add"), rows: 6 });
  const urls = (text ?? "").split(/\s+/).filter(Boolean);
  if (!urls.length) return;
  await view.run(async () => {
    const { added } = await change("POST", at.route("urls"), at.query, { urls });
    toast(t("job.added", { added, given: urls.length }));
  });
}

async function drop(view, at) {
  const typed = await ask({ title: t("confirm.drop", { job: at.name }), text: t("confirm.drop.text"), label: t("confirm.drop.label", { job: at.name }), action: t("act.drop") });
  if (typed === null) return;
  if (typed.trim() !== at.name) return void toastProblem({ status: 400, message: t("confirm.drop.other"), hint: "" });
  await view.run(async () => {
    await change("DELETE", at.route(), at.query);
    toast(t("job.dropped", { job: at.name }));
    location.hash = "#/jobs";
  });
}
