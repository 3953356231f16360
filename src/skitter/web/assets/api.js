// Calls of /api/v1, and nothing else.

// Relative to the page, so that a reverse proxy may serve it below a path.
const BASE = "api/v1";
const TIMEOUT_MS = 30_000;
const REMEMBERED = 60;

/** An answer that is an error, as problem details. */
export class Problem extends Error {
  constructor(status, body = {}) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.hint = body.hint || "";
    this.retryAfter = 0;
  }
}

// What was read last, by path: an answer that has not changed is not sent, nor drawn again.
const remembered = new Map();
let onUnauthorized = () => {};

/** Say what is to happen when the server does not know us any more. */
export function whenUnauthorized(callback) {
  onUnauthorized = callback;
}

export function forgetAnswers() {
  remembered.clear();
}

export function path(...parts) {
  return "/" + parts.map(encodeURIComponent).join("/");
}

/** The URL of a route, with its query. */
export function url(route, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return BASE + route + (text ? `?${text}` : "");
}

/** Read a route; the same object as before if nothing has changed. */
export async function get(route, query = {}, { timeout = TIMEOUT_MS } = {}) {
  const where = url(route, query);
  const before = remembered.get(where);
  const headers = before ? { "If-None-Match": before.etag } : {};
  const answer = await send(where, { headers, timeout });
  if (answer.status === 304 && before) return before.data;
  const data = await answer.json();
  const etag = answer.headers.get("ETag");
  remembered.delete(where);
  if (etag) remembered.set(where, { etag, data });
  if (remembered.size > REMEMBERED) remembered.delete(remembered.keys().next().value);
  return data;
}

/** Change something: POST, PATCH or DELETE. */
export async function change(method, route, query = {}, body = {}, { timeout = TIMEOUT_MS } = {}) {
  const options = method === "DELETE" ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await send(url(route, query), { method, timeout, ...options });
  return answer.status === 204 ? null : answer.json();
}

async function send(where, { timeout, ...options }) {
  let answer;
  try {
    answer = await fetch(where, { ...options, credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(timeout) });
  } catch (error) {
    throw new Problem(0, { detail: error.name === "TimeoutError" ? "timeout" : "unreachable" });
  }
  if (answer.ok || answer.status === 304) return answer;
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  problem.retryAfter = Number(answer.headers.get("Retry-After")) || 0;
  if (answer.status === 401 && !where.startsWith(`${BASE}/session`)) onUnauthorized();
  throw problem;
}
