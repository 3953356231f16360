// Numbers, sizes, durations and times as people read them, in the chosen language.

import { h } from "./elements.js";
import { language, t } from "./texts.js";

const NONE = "–";

function decimal(value, digits) {
  return new Intl.NumberFormat(language(), { maximumFractionDigits: digits }).format(value);
}

/** A count in full: 1,234,567. */
export function number(value) {
  return Number.isFinite(value) ? decimal(value, 0) : NONE;
}

/** A count in at most four digits: 12,345 is 12.3K. */
export function compact(value) {
  if (!Number.isFinite(value)) return NONE;
  if (Math.abs(value) < 10_000) return decimal(value, 0);
  return new Intl.NumberFormat(language(), { notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

/** Something per second. */
export function rate(value) {
  if (!Number.isFinite(value)) return NONE;
  return t("unit.per_second", { value: decimal(value, value >= 100 ? 0 : value >= 10 ? 1 : 2) });
}

export function percent(share) {
  return Number.isFinite(share) ? `${decimal(100 * share, share > 0 && share < 0.1 ? 1 : 0)} %` : NONE;
}

/** A size, in units of 1,000. */
export function bytes(value) {
  if (!Number.isFinite(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${decimal(value, unit && value < 100 ? 1 : 0)} ${units[unit]}`;
}

/** A duration in its two largest units: 2 h 14 min. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds <= 0) return `0 ${t("unit.s")}`;
  if (seconds < 1) return `${decimal(Math.max(1, seconds * 1000), 0)} ${t("unit.ms")}`;
  if (seconds < 60) return `${decimal(seconds, seconds < 10 ? 1 : 0)} ${t("unit.s")}`;
  const sizes = [[86_400, "unit.d"], [3_600, "unit.h"], [60, "unit.min"], [1, "unit.s"]];
  const first = sizes.findIndex(([size]) => seconds >= size);
  const large = Math.floor(seconds / sizes[first][0]);
  const rest = Math.floor((seconds % sizes[first][0]) / sizes[first + 1][0]);
  const parts = [`${number(large)} ${t(sizes[first][1])}`];
  if (rest && large < 100) parts.push(`${rest} ${t(sizes[first + 1][1])}`);
  return parts.join(" ");
}

/** A time of day, with the date. */
export function instant(at) {
  if (!at) return NONE;
  return new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "medium" }).format(at * 1000);
}

/** The time of day alone, for axes. */
export function clock(at) {
  return new Intl.DateTimeFormat(language(), { timeStyle: "medium", hourCycle: "h23" }).format(at * 1000);
}

function relative(at) {
  const distance = at - Date.now() / 1000;
  const sizes = [[86_400, "day"], [3_600, "hour"], [60, "minute"], [1, "second"]];
  const [size, unit] = sizes.find(([seconds]) => Math.abs(distance) >= seconds) ?? [1, "second"];
  return new Intl.RelativeTimeFormat(language(), { numeric: "auto", style: "short" }).format(Math.trunc(distance / size), unit);
}

/** A time as an element that says how long ago it was, and goes on saying so. */
export function ago(at) {
  if (!at) return h("span.none", {}, NONE);
  const date = new Date(at * 1000);
  return h("time", { datetime: date.toISOString(), title: instant(at), "data-at": at }, relative(at));
}

/** Bring all times of the page up to date. */
export function refreshTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-at]")) {
    const text = relative(Number(element.dataset.at));
    if (element.textContent !== text) element.textContent = text;
  }
}
