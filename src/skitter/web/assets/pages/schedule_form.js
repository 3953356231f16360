// A new schedule, or a change of one.

import { change, get, path } from "../api.js";
import { problemText } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { t } from "../texts.js";
import { scheduleHref } from "../widgets.js";

const OVERLAPS = ["skip", "queue", "replace", "allow"];
const CATCH_UPS = ["none", "latest", "all"];
const PLAIN_WORD = /^[\w@%+=:,./-]+$/;

export async function scheduleForm(view) {
  const { store = view.stores[0]?.name, name = "" } = view.route.query;
  const title = name ? t("schedule_form.change", { name }) : t("schedule_form.title");
  view.setTitle(title);
  view.watch(null);
  if (!view.may("operator")) return replace(view.main, h("h1", { tabindex: "-1" }, title), h("p.panel", {}, t("schedule_form.not_permitted")));
  const found = name ? await get(path("schedules", name), { store }) : {};
  const problem = h("p.bad-text", { role: "alert" });
  const text = (id, value, options = {}) => h("input", { id, value: value ?? "", spellcheck: "false", autocomplete: "off", ...options });
  const select = (id, options, value) => h("select", { id }, options.map((one) => h("option", { value: one, selected: one === value }, one)));
  const inputs = {
    store: select("store", view.stores.map((one) => one.name), store),
    name: text("name", name, { required: true, disabled: Boolean(name) }),
    command: h("textarea", { id: "command", rows: 3, spellcheck: "false", required: true, placeholder: "crawl news.py -o news.jsonl" }, (found.command ?? []).map(quoted).join(" ")),
    cron: text("cron", found.cron, { placeholder: "0 2 * * *" }),
    every: text("every", found.every_seconds && `${found.every_seconds}s`, { placeholder: "1h30m" }),
    timezone: text("timezone", found.timezone ?? "UTC"),
    overlap: select("overlap", OVERLAPS, found.overlap ?? "skip"),
    catch_up: select("catch_up", CATCH_UPS, found.catch_up ?? "latest"),
    retries: text("retries", found.retries ?? 0, { type: "number", min: 0, step: 1 }),
  };
  const send = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    const value = (id) => inputs[id].value.trim();
    const body = { command: value("command"), cron: value("cron"), every: value("every") || 0, timezone: value("timezone"), overlap: value("overlap"), catch_up: value("catch_up"), retries: Number(value("retries")), ...kept(found) };
    try {
      if (name) await change("PUT", path("schedules", name), { store }, body);
      else await change("POST", "/schedules", { store: value("store") }, { name: value("name"), ...body });
      location.hash = scheduleHref(name ? store : value("store"), name || value("name"));
    } catch (error) {
      problem.textContent = [problemText(error), error.hint].filter(Boolean).join(" · ");
    }
  };
  const field = (id, hint = "") => h("div.row", {}, h("label", { for: id }, t(`schedule_form.${id}`)), inputs[id], hint && h("p.hint", {}, hint));
  replace(view.main, h("div.heading", {}, h("h1", { tabindex: "-1" }, title)),
    h("form.panel.form", { onsubmit: send }, h("p", {}, t("schedule_form.text")),
      view.stores.length > 1 && !name && field("store"),
      field("name"),
      field("command", t("schedule_form.command_hint")),
      field("cron", t("schedule_form.cron_hint")),
      field("every", t("schedule_form.every_hint")),
      ["timezone", "overlap", "catch_up", "retries"].map((id) => field(id)),
      problem,
      h("p.buttons.left", {}, h("button.primary", { type: "submit" }, t("schedule_form.save")), h("a.button", { href: name ? scheduleHref(store, name) : "#/schedules" }, t("dialog.cancel")))));
  return undefined;
}

/** What a change leaves as it is. */
function kept(found) {
  if (!found.name) return {};
  return { start_within: found.start_within_seconds, jitter: found.jitter_seconds, until: found.until && new Date(found.until * 1000).toISOString(), max_instances: found.max_instances, retry_delay: found.retry_delay_seconds };
}

function quoted(word) {
  return PLAIN_WORD.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
