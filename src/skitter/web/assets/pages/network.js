// Proxies (egress among them) and sessions of a job.

import { change, get } from "../api.js";
import { ask, toast } from "../dialogs.js";
import { h, replace } from "../elements.js";
import { ago, bytes, duration, number, percent } from "../format.js";
import { table } from "../table.js";
import { named, t } from "../texts.js";
import { badge, count, emptyState, frontierOf, panel } from "../widgets.js";

const BAN_SECONDS = 3600;

export async function network(view, at, content) {
  const frontier = frontierOf(view, at.store);
  const proxies = table({
    caption: t("network.proxies"),
    key: (row) => row.id,
    columns: proxyColumns(view, (row) => ban(row)),
    empty: () => emptyState(t("network.no_proxies"), t("network.no_proxies_text"), `skitter crawl URL --proxies proxies.txt --job ${at.name} --frontier ${frontier}`, `skitter egress --job ${at.name} --frontier ${frontier}`),
  });
  const sessions = table({
    caption: t("network.sessions"),
    key: (row) => row.name,
    empty: () => emptyState(t("network.no_sessions"), t("network.no_sessions_text")),
    columns: [
      { name: "name", label: t("network.session"), wide: true, cell: (row) => h("span.name", {}, row.name || t("network.own")) },
      { name: "state", label: t("network.state"), cell: (row) => (row.state ? badge(row.state, named("session", row.state)) : "–") },
      { name: "cookies", label: t("network.cookies"), num: true, cell: (row) => count(row.cookies) },
      { name: "domains", label: t("network.domains"), wide: true, cell: (row) => row.domains.join(", ") || "–" },
      { name: "uses", label: t("network.uses"), num: true, cell: (row) => (row.uses === undefined ? "–" : count(row.uses)) },
      { name: "in_flight", label: t("part.leased"), num: true, cell: (row) => (row.in_flight === undefined ? "–" : count(row.in_flight)) },
      { name: "logins", label: t("network.logins"), num: true, cell: (row) => (row.logins === undefined ? "–" : `${number(row.logins)}${row.failed_logins ? ` (${t("network.failed", { count: number(row.failed_logins) })})` : ""}`) },
      { name: "changed", label: t("network.changed"), num: true, cell: (row) => ago(row.changed_at) },
    ],
  });
  const read = async () => {
    const [first, second] = await Promise.all([get(at.route("proxies"), at.query), get(at.route("sessions"), at.query)]);
    proxies.update(first.rows);
    sessions.update(second.rows);
  };

  async function ban(row) {
    const text = await ask({ title: t("network.ban_title", { proxy: row.proxy }), text: t("network.ban_text"), label: t("network.ban_seconds"), value: String(row.banned_seconds ? 0 : BAN_SECONDS), action: t("network.ban") });
    if (text === null) return;
    await view.run(async () => {
      const answer = await change("POST", at.route("proxies", row.id, "ban"), at.query, { seconds: Number(text) });
      toast(answer.banned_seconds ? t("network.banned_for", { duration: duration(answer.banned_seconds) }) : t("network.unbanned"));
      await read();
    });
  }

  replace(content, panel(t("network.proxies"), proxies.element), panel(t("network.sessions"), sessions.element));
  await read();
  view.refreshWith(() => view.run(read));
}

function proxyColumns(view, ban) {
  return [
    { name: "proxy", label: t("network.proxy"), wide: true, sort: (row) => row.proxy, cell: (row) => [h("code", {}, row.proxy), row.owner && h("span.sub", {}, row.owner)].filter(Boolean) },
    { name: "state", label: t("network.state"), cell: (row) => [badge(row.state, named("proxy", row.state)), rest(row)] },
    { name: "in_flight", label: t("part.leased"), num: true, sort: (row) => row.in_flight, cell: (row) => count(row.in_flight) },
    { name: "answers", label: t("network.answers"), num: true, sort: (row) => row.answers, cell: (row) => count(row.answers) },
    { name: "success", label: t("network.success"), num: true, sort: (row) => row.success_rate, cell: (row) => percent(row.success_rate) },
    { name: "latency", label: t("tile.latency"), num: true, sort: (row) => row.latency_seconds, cell: (row) => (row.latency_seconds ? duration(row.latency_seconds) : "–") },
    { name: "bytes", label: t("tile.bytes"), num: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
    { name: "banned", label: t("network.banned_hosts"), wide: true, cell: (row) => Object.keys(row.banned_hosts ?? {}).join(", ") || "–" },
    ...(view.may("operator") ? [{ name: "act", label: t("failures.action"), cell: (row) => h("button.small", { type: "button", "aria-label": t("network.ban_title", { proxy: row.proxy }), onclick: () => ban(row) }, row.banned_seconds ? t("network.unban") : t("network.ban")) }] : []),
  ];
}

function rest(row) {
  const seconds = row.banned_seconds || row.resting_seconds;
  const text = [seconds ? duration(seconds) : "", row.error].filter(Boolean).join(" · ");
  return text ? h("span.sub", {}, text) : "";
}
