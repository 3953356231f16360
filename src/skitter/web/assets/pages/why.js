// What became of one URL of a job, and why.

import { get } from "../api.js";
import { foreignLink, h, replace } from "../elements.js";
import { duration, instant, number, percent } from "../format.js";
import { named, t } from "../texts.js";
import { badge, emptyState, facts, jobHref, keepInAddress, panel, urlLink } from "../widgets.js";
import { errorText } from "./failures.js";

export async function why(view, at, content) {
  const answer = h("div", { "aria-live": "polite" });
  const input = h("input", { id: "why-url", type: "text", inputmode: "url", value: view.route.query.url ?? "", placeholder: "https://example.com/page", spellcheck: "false", autocomplete: "off", "data-key": "/" });
  const look = async () => {
    const url = input.value.trim();
    keepInAddress({ url });
    if (!url) return replace(answer, emptyState(t("why.nothing"), t("why.nothing_text")));
    const found = await get(at.route("why"), { ...at.query, url });
    return view.isGone ? undefined : replace(answer, explanation(at, found));
  };
  replace(content,
    h("form.toolbar.wide", { onsubmit: (event) => {
      event.preventDefault();
      view.run(look, answer);
    } },
    h("label.field", { for: "why-url" }, h("span", {}, t("why.url")), input),
    h("button.primary", { type: "submit" }, t("why.ask"))),
    answer);
  await view.run(look, answer);
}

function explanation(at, found) {
  const { trace } = found;
  return [
    h("section.panel", {},
      h("h2.url", {}, found.url),
      h("p", {}, badge(found.state, named("url_state", found.state)), " ", foreignLink(found.url, t("why.open"))),
      h("ul.reasons", {}, found.reasons.map((reason) => h("li", {}, words(at, reason))))),
    trace && panel(t("why.known"), facts([
      [t("why.depth"), number(trace.depth)],
      [t("why.priority"), number(trace.priority)],
      [t("failures.attempts"), number(trace.attempts)],
      [t("why.losses"), trace.losses ? number(trace.losses) : ""],
      [t("why.status"), trace.status || ""],
      [t("why.added"), trace.added_at ? instant(trace.added_at) : ""],
      [t("why.ended"), trace.ended_at ? instant(trace.ended_at) : ""],
      [t("why.referrer"), trace.referrer ? urlLink(at.store, at.name, trace.referrer) : ""],
      [t("why.worker"), trace.worker],
      [t("hosts.host"), trace.host ? h("a", { href: jobHref(at.store, at.name, "hosts", { kind: "all", search: trace.host.key }) }, trace.host.key) : ""],
    ]), trace.error && h("div.trace", {}, errorText(trace.error))),
  ];
}

/** A reason as a sentence. One that is newer than this page is shown by its name and values. */
function words(at, { kind, values }) {
  const key = `reason.${kind}`;
  const shown = {};
  for (const [name, value] of Object.entries(values)) {
    if (name === "seconds") shown[name] = duration(value);
    else if (name.endsWith("_at")) shown[name] = value ? instant(value) : "–";
    else if (name === "error") shown[name] = String(value).trim().split("\n").at(-1);
    else if (name === "error_rate") shown[name] = percent(value);
    else if (name === "state") shown[name] = named("state", value);
    else if (name === "visits") shown[name] = value.map(([seconds, changed]) => t(changed ? "why.changed_after" : "why.same_after", { duration: duration(seconds) })).join(", ") || "–";
    else if (name === "rate") shown[name] = value ? duration(1 / value) : "–";
    else if (Array.isArray(value)) shown[name] = value.join(", ");
    else shown[name] = value === null || value === "" ? "–" : value;
  }
  const text = t(key, shown);
  if (text === key) return `${kind}: ${JSON.stringify(values)}`;
  if (kind === "origin" && values.referrer) return [t("why.found_on"), " ", urlLink(at.store, at.name, values.referrer), t("why.found_rest", shown)];
  return text;
}
