// How a job stands and how it went: figures, charts, and what needs attention.

import { get } from "../api.js";
import { chart } from "../chart.js";
import { h, replace } from "../elements.js";
import { bytes, compact, duration, number, rate } from "../format.js";
import { table } from "../table.js";
import { named, t } from "../texts.js";
import { badge, command, count, frontierOf, jobHref, panel, shownState, tile } from "../widgets.js";

const MOST_SAMPLES = 900;
const MOST_CLASSES = 5;
const PARTS = ["done", "redirected", "failed", "excluded", "leased", "queued", "delayed"];

export async function overview(view, at, content, first) {
  const figures = tiles(at);
  const attention = h("div");
  const parts = h("div.parts");
  const charts = jobCharts();
  const sinks = sinkTable();
  const callbacks = callbackTable();
  const needs = needTable();
  const disks = h("p.capacity");
  const tables = h("div.columns", {}, panel(t("overview.sinks"), sinks.element, disks), panel(t("overview.callbacks"), callbacks.element));
  const needsPanel = panel(t("overview.needs"), needs.element);
  replace(content, attention, h("dl.tiles", {}, figures.map(({ element }) => element)), parts, charts.element, tables, needsPanel);

  const draw = (status) => {
    figures.forEach((figure) => figure.draw(status));
    drawAttention(view, at, attention, status);
    drawParts(parts, status);
    sinks.update(status.sinks);
    callbacks.update(status.callbacks);
    needs.update(status.needs);
    needsPanel.hidden = !status.needs.length;
  };
  draw(first);
  view.on("job", (status) => status.job === at.name && draw(status));
  let samples = [];
  let asked = false;
  view.on("sample", (sample) => {
    if (samples.length && sample.at <= samples.at(-1).at) return;
    samples = [...samples, sample].slice(-MOST_SAMPLES);
    if (asked) charts.update(samples);
  });
  await view.run(async () => {
    const { rows } = await get(at.route("history"), at.query);
    const newest = rows.at(-1)?.at ?? 0;
    samples = [...rows, ...samples.filter((sample) => sample.at > newest)];
    asked = true;
    charts.update(samples);
  });
  await view.run(async () => {
    const { rows } = await get(at.route("capacity"), at.query);
    replace(disks, rows.map((one) => h("span", {}, t("overview.capacity", { place: one.place, free: bytes(one.free_bytes), total: bytes(one.total_bytes) }))));
  });
}

function tiles(at) {
  const latency = (status) => {
    const live = status.worker_list.filter((worker) => worker.alive && worker.latency_seconds);
    const weight = live.reduce((sum, worker) => sum + worker.pages_per_second, 0);
    if (!live.length) return NaN;
    if (!weight) return live.reduce((sum, worker) => sum + worker.latency_seconds, 0) / live.length;
    return live.reduce((sum, worker) => sum + worker.latency_seconds * worker.pages_per_second, 0) / weight;
  };
  const length = (status) => (status.ended_at || Date.now() / 1000) - status.started_at;
  const finished = (status) => status.done + status.redirected + status.failed + status.excluded;
  return [
    one("rate", (status) => rate(status.pages_per_second), (status) => t("tile.average", { rate: rate(status.done / Math.max(1, length(status))) })),
    one("queued", (status) => count(status.queued), (status) => (status.delayed ? t("tile.delayed", { delayed: compact(status.delayed) }) : "")),
    one("in_flight", (status) => count(status.leased), (status) => (status.overdue_seconds ? t("tile.overdue", { duration: duration(status.overdue_seconds) }) : "")),
    one("done", (status) => count(status.done), (status) => (status.unchanged ? t("tile.unchanged", { unchanged: compact(status.unchanged) }) : t("tile.of_seen", { seen: compact(status.seen) }))),
    one("failed", (status) => (status.failed ? h("a.bad-text", { href: jobHref(at.store, at.name, "failures") }, count(status.failed)) : "0"),
      (status) => (status.failed ? t("tile.share", { share: `${(100 * status.failed / Math.max(1, finished(status))).toPrecision(2)} %` }) : "")),
    one("items", (status) => count(status.tally.items ?? 0), (status) => (status.rejected ? t("tile.rejected", { rejected: compact(status.rejected) }) : "")),
    one("bytes", (status) => bytes(status.tally.bytes ?? 0), (status) => (status.done ? t("tile.a_page", { bytes: bytes((status.tally.bytes ?? 0) / status.done) }) : "")),
    one("latency", (status) => (Number.isFinite(latency(status)) ? duration(latency(status)) : "–"), () => ""),
    one("workers", (status) => h("a", { href: jobHref(at.store, at.name, "workers") }, number(status.workers)), () => ""),
    one("time", (status) => duration(length(status)), (status) => (status.ended_at ? t("tile.ended") : "")),
  ];

  function one(name, value, note) {
    const made = tile(t(`tile.${name}`));
    let said = "";
    made.draw = (status) => {
      const [shown, below] = [value(status), note(status)];
      const text = `${shown.outerHTML ?? shown}|${below}`;
      if (text === said) return;
      said = text;
      replace(made.value, shown);
      replace(made.note, below);
    };
    return made;
  }
}

/** What somebody should know before the figures: why nothing moves, and what to do. */
function drawAttention(view, at, place, status) {
  const found = [];
  const frontier = frontierOf(view, at.store);
  if (shownState(status) === "interrupted") found.push([t("attention.no_worker"), command(`skitter worker --job ${at.name} --frontier ${frontier}`)]);
  if (status.blocked_by) found.push([t("attention.blocked", { by: named("waits", status.blocked_by) })]);
  for (const sink of status.sinks.filter(({ trouble }) => trouble)) found.push([t("attention.sink", { target: sink.target, trouble: sink.trouble })]);
  if (status.overdue_seconds > 60) found.push([t("attention.overdue", { duration: duration(status.overdue_seconds) })]);
  for (const need of status.needs.filter(({ workers }) => !workers)) found.push([t("attention.need", { need: need.name, queued: number(need.queued) })]);
  for (const worker of status.worker_list.filter(({ problem }) => problem)) found.push([t("attention.skipped", { node: worker.host_name, problem: worker.problem })]);
  for (const intake of status.intakes.filter(({ trouble }) => trouble)) found.push([t("attention.intake", { source: intake.source, trouble: intake.trouble })]);
  if (!status.exact) found.push([t("attention.not_exact")]);
  const said = JSON.stringify(found.map(([text]) => text));
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  replace(place, found.length ? h("section.panel.attention", { "aria-label": t("attention.title") }, h("ul", {}, found.map((parts) => h("li", {}, parts)))) : null);
}

/** All requests as one bar. */
function drawParts(place, status) {
  const total = Math.max(1, status.seen);
  const strip = h("div.strip", { role: "img", "aria-label": PARTS.map((name) => `${t(`part.${name}`)} ${number(status[name])}`).join(", ") });
  for (const name of PARTS.filter((each) => status[each])) {
    const piece = h(`span.part-${name}`);
    piece.style.flexGrow = String(status[name] / total);
    strip.append(piece);
  }
  replace(place, strip, h("ul.legend", {}, PARTS.filter((name) => status[name]).map((name) =>
    h("li", {}, h(`span.key.part-${name}`, { "aria-hidden": "true" }), `${t(`part.${name}`)} `, h("b", {}, compact(status[name]))))));
}

function jobCharts() {
  const speed = chart({ title: t("chart.rate"), format: rate, names: [""] });
  const queue = chart({ title: t("chart.queue"), format: compact, names: [t("part.queued"), t("part.leased")] });
  const errors = chart({ title: t("chart.errors"), format: (value) => t("unit.per_minute", { value: compact(Math.round(value * 10) / 10) }), stacked: true });
  const latency = chart({ title: t("chart.latency"), format: duration, names: [""] });
  const traffic = chart({ title: t("chart.bytes"), format: (value) => t("unit.per_second", { value: bytes(value) }), names: [""] });
  const items = chart({ title: t("chart.items"), format: rate, names: [""] });
  const all = [speed, queue, errors, latency, traffic, items];
  return {
    element: h("div.charts", {}, all.map(({ element }) => element)),
    update(samples) {
      const points = (values) => samples.map((sample, index) => ({ at: sample.at, values: values(sample, samples[index - 1]) }));
      speed.update(points((sample) => [sample.pages_per_second]));
      queue.update(points((sample) => [sample.queued + sample.delayed, sample.leased]));
      latency.update(points((sample) => [sample.latency_seconds || null]));
      traffic.update(points((sample, before) => [increase(sample.bytes, before?.bytes, sample, before, 1)]).slice(1));
      items.update(points((sample, before) => [increase(sample.items, before?.items, sample, before, 1)]).slice(1));
      const classes = mostFrequent(samples.at(-1)?.errors ?? {});
      const failures = points((sample, before) => classes.map((name) => increase(sample.errors[name] ?? 0, before?.errors[name] ?? 0, sample, before, 60))).slice(1);
      errors.update(classes.length ? failures : failures.map(({ at }) => ({ at, values: [0] })), classes.length ? classes : [t("chart.no_errors")]);
    },
  };
}

/** How fast a count grew between two samples; null if a new run has begun. */
function increase(value, earlier, sample, before, seconds) {
  if (!before || value < earlier || sample.at <= before.at) return null;
  return ((value - earlier) * seconds) / (sample.at - before.at);
}

function mostFrequent(errors) {
  return Object.keys(errors).filter((name) => errors[name]).sort((a, b) => errors[b] - errors[a]).slice(0, MOST_CLASSES);
}

function sinkTable() {
  return table({
    caption: t("overview.sinks"),
    key: (row) => row.target,
    empty: () => h("p", {}, t("overview.no_sinks")),
    columns: [
      { name: "target", label: t("sink.target"), wide: true, cell: (row) => h("code", {}, row.target) },
      { name: "state", label: t("sink.state"), cell: (row) => (row.trouble ? badge("failed", row.trouble) : row.blocking ? badge("blocked", t("sink.blocking")) : row.closed ? badge("done", t("sink.complete")) : badge("ok", t("sink.open"))) },
      { name: "lag", label: t("sink.lag"), num: true, cell: (row) => count(row.undelivered) },
      { name: "rejected", label: t("sink.rejected"), num: true, cell: (row) => count(row.rejected) },
    ],
  });
}

function callbackTable() {
  return table({
    caption: t("overview.callbacks"),
    key: (row) => row.name,
    empty: () => h("p", {}, t("overview.no_callbacks")),
    columns: [
      { name: "name", label: t("callback.name"), wide: true, cell: (row) => h("code", {}, row.name) },
      { name: "calls", label: t("callback.calls"), num: true, cell: (row) => count(row.calls) },
      { name: "mean", label: t("callback.mean"), num: true, cell: (row) => duration(row.seconds / Math.max(1, row.calls)) },
      { name: "longest", label: t("callback.longest"), num: true, cell: (row) => (row.longest_seconds ? duration(row.longest_seconds) : "–") },
    ],
  });
}

function needTable() {
  return table({
    caption: t("overview.needs"),
    key: (row) => row.name,
    columns: [
      { name: "name", label: t("need.name"), wide: true, cell: (row) => h("code", {}, row.name) },
      { name: "queued", label: t("part.queued"), num: true, cell: (row) => count(row.queued) },
      { name: "workers", label: t("need.workers"), num: true, cell: (row) => (row.workers ? count(row.workers) : h("span.bad-text", {}, "0")) },
    ],
  });
}
