// Small pieces that several pages show.

import { toast } from "./dialogs.js";
import { h } from "./elements.js";
import { ago, compact, number } from "./format.js";
import { named, t } from "./texts.js";

const MARKS = { running: "▶", paused: "❚❚", draining: "◔", stopped: "■", finished: "✓", interrupted: "!", unreadable: "!", unknown: "?", done: "✓", missed: "!", skipped: "–", queued: "…", delayed: "…", leased: "▶", failed: "✗", excluded: "–", redirected: "→" };
const TONES = { running: "good", ready: "good", leased: "good", done: "info", finished: "info", ok: "good", paused: "warn", draining: "warn", delayed: "warn", missed: "warn", silent: "warn", blocked: "warn", rests: "warn", expired: "warn", interrupted: "bad", unreadable: "bad", failed: "bad", banned: "bad", gone: "bad" };

/** A state as a word with a colour and a sign. */
export function badge(state, text = named("state", state)) {
  return h("span.badge", { class: TONES[state] ?? "plain" }, h("span", { "aria-hidden": "true" }, MARKS[state] ?? "●"), text);
}

/** The state of a job as people see it: one that says "running" and has no worker is interrupted. */
export function shownState(job) {
  return job.state === "running" && job.workers === 0 ? "interrupted" : job.state;
}

/** The address of a page of a job. */
export function jobHref(store, job, tab = "", query = {}) {
  const text = new URLSearchParams(query).toString();
  return `#/jobs/${encodeURIComponent(store)}/${encodeURIComponent(job)}${tab ? `/${tab}` : ""}${text ? `?${text}` : ""}`;
}

/** The address of a schedule's page. */
export function scheduleHref(store, name) {
  return `#/schedules/${encodeURIComponent(store)}/${encodeURIComponent(name)}`;
}

/** A crawled URL, which leads to what is known of it. */
export function urlLink(store, job, url) {
  return h("a.url", { href: jobHref(store, job, "why", { url }), title: url }, url);
}

/** A count, short, and in full when it is pointed at. */
export function count(value) {
  const text = compact(value);
  return text === number(value) ? text : h("span", { title: number(value) }, text);
}

/** A figure with its name. */
export function tile(label, tone = "") {
  const value = h("dd");
  const note = h("dd.note");
  return { element: h("div.tile", { class: tone }, h("dt", {}, label), value, note), value, note };
}

/** A command for a terminal, with a button that copies it. */
export function command(text) {
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    toast(t("copy.done"));
  };
  return h("div.command", {}, h("code", {}, text), h("button", { type: "button", onclick: copy }, t("copy.copy")));
}

/** What to do where there is nothing to show. */
export function emptyState(title, text, ...commands) {
  return h("div.nothing", {}, h("p.title", {}, title), text && h("p", {}, text), commands.map(command));
}

/** A bar for a share from 0 to 1. */
export function bar(share, label) {
  const element = h("span.bar", { role: "img", "aria-label": label, title: label }, h("span"));
  element.firstChild.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return element;
}

/** Pairs of names and values. */
export function facts(pairs) {
  return h("dl.facts", {}, pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function panel(title, ...content) {
  return h("section.panel", {}, h("h2", {}, title), content);
}

/** A labelled input of a toolbar; calls change(value) a moment after the last key. */
export function searchBox(label, value, change, key = null) {
  let timer = 0;
  return h("label.field", {}, h("span", {}, label), h("input", { type: "search", value, spellcheck: "false", autocomplete: "off", "data-key": key, oninput: (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => change(event.target.value.trim()), 250);
  } }));
}

export function choice(label, value, options, change) {
  return h("label.field", {}, h("span", {}, label), h("select", { onchange: (event) => change(event.target.value) },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text))));
}

/** The name of a worker's machine and process. */
export function workerName(worker) {
  return worker.host_name ? `${worker.host_name}:${worker.pid}` : worker.id;
}

export function agoOrNone(at) {
  return at ? ago(at) : "–";
}

/** Keep the filters of a page in its address, without showing it anew. */
export function keepInAddress(query) {
  const given = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(given).toString();
  history.replaceState(null, "", location.hash.split("?")[0] + (text ? `?${text}` : ""));
}

/** The URL of a store for a command line. */
export function frontierOf(view, store) {
  return view.stores.find(({ name }) => name === store)?.frontier ?? store;
}
