// A new job, for the workers that serve its store.

import { change } from "../api.js";
import { problemText } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { t } from "../texts.js";
import { jobHref } from "../widgets.js";

export async function submit(view) {
  view.setTitle(t("submit.title"));
  view.watch(null);
  if (!view.may("operator")) return replace(view.main, h("h1", { tabindex: "-1" }, t("submit.title")), h("p.panel", {}, t("submit.not_permitted")));
  const problem = h("p.bad-text", { role: "alert" });
  const field = (name, element, hint) => h("div.row", {}, h("label", { for: name }, t(`submit.${name}`)), element, hint && h("p.hint", { id: `${name}-hint` }, hint));
  const text = (name, options = {}) => h("input", { id: name, spellcheck: "false", autocomplete: "off", ...options });
  const area = (name, rows, options = {}) => h("textarea", { id: name, rows, spellcheck: "false", ...options });
  const inputs = {
    store: h("select", { id: "store" }, view.stores.map((store) => h("option", { value: store.name }, store.name))),
    urls: area("urls", 5, { placeholder: "https://example.com/" }),
    job: text("job"),
    spider: text("spider", { placeholder: "books.py:Books" }),
    output: area("output", 2, { placeholder: "postgresql://host/db#items" }),
    settings: area("settings", 3, { placeholder: "delay_seconds=2\nmax_pages=1000" }),
  };
  const lines = (name) => inputs[name].value.split("\n").map((line) => line.trim()).filter(Boolean);
  const send = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    const settings = Object.fromEntries(lines("settings").map((line) => [line.split("=", 1)[0].trim(), line.slice(line.indexOf("=") + 1).trim()]));
    const given = { urls: inputs.urls.value.split(/\s+/).filter(Boolean), job: inputs.job.value.trim(), spider: inputs.spider.value.trim(), output: lines("output"), settings };
    const body = Object.fromEntries(Object.entries(given).filter(([name, value]) => name === "urls" || (typeof value === "string" ? value : Object.keys(value).length)));
    try {
      const answer = await change("POST", "/jobs", { store: inputs.store.value }, body);
      location.hash = jobHref(inputs.store.value, answer.job);
    } catch (error) {
      problem.textContent = [problemText(error), error.hint].filter(Boolean).join(" · ");
    }
  };
  replace(view.main, h("div.heading", {}, h("h1", { tabindex: "-1" }, t("submit.title"))),
    h("form.panel.form", { onsubmit: send }, h("p", {}, t("submit.text")),
      view.stores.length > 1 ? field("store", inputs.store) : null,
      field("urls", inputs.urls, t("submit.urls_hint")),
      field("spider", inputs.spider, t("submit.spider_hint")),
      field("job", inputs.job, t("submit.job_hint")),
      field("output", inputs.output, t("submit.output_hint")),
      field("settings", inputs.settings, t("submit.settings_hint")),
      problem,
      h("p.buttons.left", {}, h("button.primary", { type: "submit" }, t("submit.submit")), h("a.button", { href: "#/jobs" }, t("dialog.cancel")))));
  return undefined;
}
