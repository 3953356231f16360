// The consistency check of a job.

import { change } from "../api.js";
import { confirm } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { number } from "../format.js";
import { table } from "../table.js";
import { t } from "../texts.js";
import { badge, facts, panel } from "../widgets.js";

const TIMEOUT_MS = 600_000;

export async function check(view, at, content) {
  const result = h("div", { "aria-live": "polite" });
  if (!view.may("operator")) return replace(content, h("p.panel", {}, t("check.not_permitted")));
  const run = async (repair) => {
    replace(result, h("p.busy", {}, t("check.running")));
    await view.run(async () => {
      const answer = await change("POST", at.route("fsck"), at.query, { repair }, { timeout: TIMEOUT_MS });
      if (!view.isGone) replace(result, report(answer));
    }, result);
  };
  const repair = async () => {
    if (await confirm({ title: t("check.repair"), text: t("check.repair_text"), action: t("check.repair") })) await run(true);
  };
  return replace(content,
    h("section.panel", {}, h("h2", {}, t("tab.check")), h("p", {}, t("check.text")),
      h("p.buttons.left", {}, h("button.primary", { type: "button", onclick: () => run(false) }, t("check.check")), view.may("admin") && h("button", { type: "button", onclick: repair }, t("check.repair")))),
    result);
}

function report({ consistent, found, report: details }) {
  const findings = table({
    caption: t("check.findings"),
    key: (row) => `${row.code} ${row.place} ${row.what}`,
    columns: [
      { name: "code", label: t("check.code"), cell: (row) => h("code", {}, row.code) },
      { name: "place", label: t("check.place"), wide: true, cell: (row) => row.place },
      { name: "what", label: t("check.what"), wide: true, cell: (row) => row.what },
      { name: "expected", label: t("check.expected"), cell: (row) => row.expected || "–" },
      { name: "found", label: t("check.found"), cell: (row) => row.found || "–" },
      { name: "mended", label: t("check.mended"), cell: (row) => (row.mended ? t("check.yes") : row.mendable ? t("check.can_be") : t("check.no")) },
    ],
  });
  findings.update(details.findings ?? []);
  return panel(t("check.result"),
    h("p", {}, consistent ? badge("done", t("check.consistent")) : badge("failed", t("check.inconsistent", { count: number(found) }))),
    facts(Object.entries(details.checked ?? {}).map(([name, n]) => [name, number(n)])),
    (details.unchecked ?? []).length > 0 && h("p", {}, t("check.unchecked", { what: details.unchecked.join(", ") })),
    found ? findings.element : null);
}
