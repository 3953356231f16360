// The frame of the dashboard: session, navigation, routes, theme and language.

import { change, forgetAnswers, get, whenUnauthorized } from "./api.js";
import { problemText, toastProblem } from "./dialogs.js";
import { h, replace } from "./elements.js";
import { refreshTimes } from "./format.js";
import { startKeyboard } from "./keyboard.js";
import { Live } from "./live.js";
import { LANGUAGES, language, loadTexts, remember, t } from "./texts.js";
import { audit } from "./pages/audit.js";
import { job } from "./pages/job.js";
import { jobs } from "./pages/jobs.js";
import { login } from "./pages/login.js";
import { scheduleForm } from "./pages/schedule_form.js";
import { schedule, schedules } from "./pages/schedules.js";
import { submit } from "./pages/submit.js";

const ROLES = ["viewer", "worker", "operator", "admin"];
const REFRESH_MS = 3_000;
const PAGES = { jobs, job, submit, schedules, schedule, "schedule-form": scheduleForm, audit };

const top = document.getElementById("top");
const main = document.getElementById("main");
let session = { role: null };
let stores = [];
let view = null;
let live = null;
let liveState = "off";

/** One shown page: what it may use, and what ends with it. */
class View {
  #leaving = [];
  #gone = false;

  constructor(route) {
    this.route = route;
    this.main = main;
    this.session = session;
    this.stores = stores;
  }

  get isGone() {
    return this.#gone;
  }

  /** Whether the session's role permits what needs another. */
  may(role) {
    return ROLES.indexOf(session.role) >= ROLES.indexOf(role);
  }

  watch(query) {
    live.watch(query);
  }

  on(event, listener) {
    this.#leaving.push(live.on(event, listener));
  }

  onLeave(callback) {
    this.#leaving.push(callback);
  }

  /** Read again whenever the job has changed, at most every few seconds. */
  refreshWith(read) {
    let readAt = performance.now();
    let timer = 0;
    this.on("job", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        readAt = performance.now();
        read();
      }, Math.max(0, readAt + REFRESH_MS - performance.now()));
    });
    this.onLeave(() => clearTimeout(timer));
  }

  /** Run what may fail; a problem is shown in place of the page, or as a message. */
  async run(action, place = null) {
    try {
      return await action();
    } catch (error) {
      if (this.#gone || error.status === 401) return undefined;
      if (place) replace(place, problemPanel(error));
      else toastProblem(error);
      return undefined;
    }
  }

  setTitle(...parts) {
    document.title = [...parts, "skitter"].join(" · ");
  }

  leave() {
    this.#gone = true;
    this.#leaving.forEach((callback) => callback());
  }
}

function problemPanel(error) {
  return h("section.panel.problem", { role: "alert" },
    h("h2", {}, problemText(error)),
    error.hint && h("p", {}, error.hint),
    h("p", {}, h("button", { type: "button", onclick: () => show() }, t("problem.again"))));
}

/** #/jobs/STORE/JOB/failures?class=http as {page, parts, query}. */
function parseRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts = [];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    // A broken escape: the first page.
  }
  const [name = "jobs", ...rest] = parts;
  const single = { jobs: "job", schedules: "schedule" }[name];
  return { page: single && rest.length >= 2 ? single : name, parts: rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

let shownPlace = "";

async function show() {
  view?.leave();
  const address = location.hash;
  const route = parseRoute();
  view = new View(route);
  drawTop();
  if (!session.role) {
    live.watch(null);
    return login(view, start);
  }
  const page = PAGES[route.page] ?? PAGES.jobs;
  const place = [route.page, ...route.parts].join("/");
  const moved = shownPlace !== "" && shownPlace !== place;
  shownPlace = place;
  const shown = view;
  await view.run(() => page(view), main);
  if (shown !== view) return undefined;
  main.dataset.shown = address;
  // A change of filters leaves the focus where it is.
  if (moved && !main.contains(document.activeElement)) (main.querySelector("h1") ?? main).focus();
  return undefined;
}

function drawTop() {
  const current = { job: "jobs", submit: "jobs", schedule: "schedules", "schedule-form": "schedules" }[view.route.page] ?? view.route.page;
  const link = (name) => h("a", { href: `#/${name}`, "aria-current": current === name ? "page" : null }, t(`nav.${name}`));
  const theme = document.documentElement.dataset.theme ?? "system";
  replace(top,
    h("a.brand", { href: "#/jobs", "aria-label": t("nav.home") }, h("img", { src: "assets/favicon.svg", alt: "", width: 22, height: 22 }), h("span", { "aria-hidden": "true" }, "skitter")),
    session.role && h("nav", { "aria-label": t("nav.main") }, link("jobs"), link("schedules"), view.may("operator") && link("audit")),
    h("div.tools", {},
      h("span.connection", { id: "live", role: "status", class: liveState, title: t(`live.${liveState}.title`) }, h("span.dot", { "aria-hidden": "true" }), h("span", {}, t(`live.${liveState}`))),
      h("select", { "aria-label": t("top.language"), onchange: (event) => chooseLanguage(event.target.value) },
        Object.entries(LANGUAGES).map(([name, text]) => h("option", { value: name, selected: name === language() }, text))),
      h("select", { id: "theme", "aria-label": t("top.theme"), onchange: (event) => chooseTheme(event.target.value) },
        ["system", "light", "dark"].map((name) => h("option", { value: name, selected: name === theme }, t(`theme.${name}`)))),
      h("button.icon", { type: "button", "aria-label": t("top.help"), title: t("top.help"), onclick: () => keyboard.help() }, "?"),
      session.kind === "user" && h("span.user", { title: t("top.role", { role: session.role }) }, session.name),
      session.kind === "user" && h("button", { type: "button", id: "logout", onclick: logout }, t("top.logout"))));
  const skip = document.getElementById("skip");
  skip.textContent = t("top.skip");
}

function tellState(state) {
  liveState = state;
  const element = document.getElementById("live");
  if (!element) return;
  element.className = `connection ${state}`;
  element.title = t(`live.${state}.title`);
  element.lastChild.textContent = t(`live.${state}`);
}

async function chooseLanguage(name) {
  remember("skitter.language", name);
  await loadTexts(name);
  await show();
}

function chooseTheme(name) {
  remember("skitter.theme", name);
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  drawTop();
}

async function logout() {
  await view.run(() => change("DELETE", "/session"));
  forgetAnswers();
  await start();
}

/** Ask who we are, and show the page of the address. */
async function start() {
  try {
    session = await get("/session");
    stores = session.role ? (await get("/stores")).rows : [];
  } catch (error) {
    replace(main, problemPanel(error));
    setTimeout(start, REFRESH_MS);
    return;
  }
  await show();
}

async function checkSession() {
  const now = await get("/session").catch(() => null);
  if (now && now.role !== session.role) {
    session = now;
    await show();
  }
}

function toggleTheme() {
  const chosen = document.documentElement.dataset.theme;
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  chooseTheme(isDark ? "light" : "dark");
}

const keyboard = startKeyboard({ view: () => view, toggleTheme });
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names a page, not a place on it
  main.focus();
});
whenUnauthorized(checkSession);
window.addEventListener("hashchange", show);
setInterval(refreshTimes, 5_000);
await loadTexts();
live = new Live(tellState, checkSession);
await start();
