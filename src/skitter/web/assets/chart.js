// Charts over time, as SVG, with the same values as a table.

import { h, replace, setText, svg } from "./elements.js";
import { clock } from "./format.js";
import { t } from "./texts.js";

const HEIGHT = 132;
const MARGIN = { top: 8, right: 8, bottom: 20 };
const LETTER_PIXELS = 7;
const GAP_SECONDS = 150;
const TABLE_ROWS = 30;

/** A chart: update(points, names) draws [{at, values: [number | null, …]}]. stacked: areas on each other. */
export function chart({ title, format, stacked = false, names = [] }) {
  const now = h("output.now");
  const legend = h("ul.legend", { hidden: true });
  const picture = svg("svg", { tabindex: "0", role: "img", height: HEIGHT });
  const values = h("div");
  const details = h("details", { ontoggle: () => drawTable() }, h("summary", {}, t("chart.as_table")), values);
  const element = h(
    "figure.chart", {},
    h("figcaption", {}, h("span.title", {}, title), now),
    h("div.plot", {}, picture),
    h("div.under", {}, legend, details),
  );
  let points = [];
  let cursor = null;
  let width = 0;
  let left = 0;

  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    draw();
  }).observe(picture.parentElement ?? element);
  picture.addEventListener("pointermove", (event) => point(event.clientX - picture.getBoundingClientRect().left));
  picture.addEventListener("pointerleave", () => move(null));
  picture.addEventListener("blur", () => move(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !points.length) return;
    event.preventDefault();
    move(Math.min(points.length - 1, Math.max(0, (cursor ?? points.length - 1) + step)));
  });

  function span() {
    const last = points.at(-1).at;
    return [Math.min(points[0].at, last - 60), last];
  }

  function x(at) {
    const [first, last] = span();
    return left + ((at - first) / (last - first)) * (width - left - MARGIN.right);
  }

  function point(pixels) {
    if (!points.length) return;
    const nearest = points.reduce((best, one, index) => (Math.abs(x(one.at) - pixels) < Math.abs(x(points[best].at) - pixels) ? index : best), 0);
    move(nearest);
  }

  function move(index) {
    if (cursor === index) return;
    cursor = index;
    draw();
  }

  function sum(one) {
    return one.values.reduce((total, value) => total + (value ?? 0), 0);
  }

  function draw() {
    const one = points[cursor] ?? points.at(-1);
    tell(one);
    if (!width) return;
    picture.setAttribute("width", width);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    if (points.length < 2) {
      const text = svg("text.none", { x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" }, t("chart.waiting"));
      return replace(picture, text);
    }
    const highest = Math.max(...points.map((each) => (stacked ? sum(each) : Math.max(...each.values.map((value) => value ?? 0)))));
    const top = niceTop(highest);
    left = 10 + LETTER_PIXELS * Math.max(...[0, top / 2, top].map((value) => format(value).length));
    const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    replace(picture, axes(top, y), names.map((_, index) => (stacked ? area(index, y) : line(index, y))).flat(), mark(y));
    return undefined;
  }

  function tell(one) {
    const texts = one ? one.values.map((value) => (value === null ? "–" : format(value))) : [];
    const total = one && (stacked ? format(sum(one)) : texts[0]);
    const when = one && cursor !== null ? ` · ${clock(one.at)}` : "";
    setText(now, one ? `${total}${when}` : "");
    picture.setAttribute("aria-label", `${title}: ${one ? names.map((name, index) => `${name || title} ${texts[index]}`).join(", ") : t("chart.waiting")}`);
    legend.hidden = names.length < 2 && !stacked;
    replace(legend, names.map((name, index) => h(`li.series-${index}`, {}, h("span.key", { "aria-hidden": "true" }), `${name} `, h("b", {}, texts[index] ?? ""))));
  }

  function axes(top, y) {
    const [first, last] = span();
    const across = [0, top / 2, top].map((value) => [
      svg("line.grid", { x1: left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    ]);
    const times = [
      svg("text", { x: left, y: HEIGHT - 4 }, clock(first)),
      svg("text", { x: width - MARGIN.right, y: HEIGHT - 4, "text-anchor": "end" }, clock(last)),
    ];
    return [across, times];
  }

  /** Runs of points without a gap, [index, …] each. */
  function runs(index) {
    const found = [];
    let run = [];
    points.forEach((each, place) => {
      const gap = place > 0 && each.at - points[place - 1].at > GAP_SECONDS;
      if ((gap || each.values[index] === null) && run.length) {
        found.push(run);
        run = [];
      }
      if (each.values[index] !== null && each.values[index] !== undefined) run.push(place);
    });
    return run.length ? [...found, run] : found;
  }

  function line(index, y) {
    return runs(index).map((run) => {
      const path = run.map((place, step) => `${step ? "L" : "M"}${x(points[place].at).toFixed(1)} ${y(points[place].values[index]).toFixed(1)}`).join("");
      const low = `L${x(points[run.at(-1)].at).toFixed(1)} ${y(0)}L${x(points[run[0]].at).toFixed(1)} ${y(0)}Z`;
      const under = index === 0 ? [svg(`path.under-line.series-${index}`, { d: path + low })] : [];
      return [...under, svg(`path.line.series-${index}`, { d: path })];
    });
  }

  function area(index, y) {
    const below = (each, upTo) => each.values.slice(0, upTo).reduce((total, value) => total + (value ?? 0), 0);
    return runs(index).map((run) => {
      const upper = run.map((place) => `${x(points[place].at).toFixed(1)} ${y(below(points[place], index + 1)).toFixed(1)}`);
      const lower = run.map((place) => `${x(points[place].at).toFixed(1)} ${y(below(points[place], index)).toFixed(1)}`).reverse();
      return svg(`path.area.series-${index}`, { d: `M${[...upper, ...lower].join("L")}Z` });
    });
  }

  function mark(y) {
    const one = points[cursor];
    if (!one) return null;
    const at = x(one.at);
    const dots = stacked ? [] : one.values.map((value, index) => value !== null && svg(`circle.dot.series-${index}`, { cx: at, cy: y(value), r: 3 }));
    return [svg("line.cursor", { x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }), dots];
  }

  function drawTable() {
    if (!details.open) return;
    const step = Math.max(1, Math.ceil(points.length / TABLE_ROWS));
    const some = points.filter((_, index) => (points.length - 1 - index) % step === 0).reverse();
    replace(values, h(
      "table.values", {},
      h("caption", {}, title),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("chart.time")), names.map((name) => h("th.num", { scope: "col" }, name || title)))),
      h("tbody", {}, some.map((one) => h("tr", {}, h("th", { scope: "row" }, clock(one.at)), one.values.map((value) => h("td.num", {}, value === null ? "–" : format(value)))))),
    ));
  }

  return {
    element,
    update(newPoints, newNames = names) {
      points = newPoints;
      names = newNames;
      draw();
      drawTable();
    },
  };
}

/** The end of an axis: 1, 2 or 5 times a power of ten. */
function niceTop(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}
