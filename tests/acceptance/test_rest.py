"""The REST API of ``skitter serve``, against real server processes: roles, refusals, paging, streams, changes."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest

from certificates import Authority
from rig.filled_jobs import fill_job
from rig.master import Master
from rig.processes import HANG_SECONDS, wait_until
from skitter import connect

ROLES = ("viewer", "worker", "operator", "admin")
TOKENS = {role: f"{role}-token-0123456789" for role in ROLES}
PASSWORD = "correct horse battery"
ALLOWED = '[remote]\nallow = ["submit", "schedule", "settings", "proxies"]\n'
"""The project file of a server that takes new work from operators."""
FAILURES = 120

TABLE = {
    None: ["GET /session", "POST /session", "DELETE /session"],
    "viewer": [
        *("GET /openapi.json", "GET /stores", "GET /events", "GET /jobs", "GET /jobs/{job}"),
        *(
            f"GET /jobs/{{job}}/{part}"
            for part in (
                *("history", "hosts", "workers", "failures", "failures/summary", "items", "sinks", "intakes", "why"),
                *("settings", "proxies", "sessions", "capacity", "scale"),
            )
        ),
        *("GET /schedules", "GET /schedules/{name}", "GET /schedules/{name}/history"),
    ],
    "operator": [
        "GET /audit",
        "POST /jobs",
        *(
            f"POST /jobs/{{job}}/{part}"
            for part in (
                *("pause", "resume", "stop", "runs", "urls", "failures/retry", "proxies/{proxy}/ban", "fsck"),
                *("hosts/pause", "hosts/resume", "hosts/give-up"),
            )
        ),
        "PATCH /jobs/{job}/settings",
        *("POST /schedules", "PUT /schedules/{name}"),
        *(f"POST /schedules/{{name}}/{part}" for part in ("pause", "resume", "run")),
        "DELETE /schedules/{name}",
    ],
    "admin": ["DELETE /jobs/{job}", "GET /audit/verify"],
}
"""Every route, by the least role that may use it."""


HOST_ACTIONS = ["host.pause", "host.resume", "host.give_up", "host.resume"]


def check_host_commands(browser: Browser, site: Any) -> None:
    """Pause, resume and give up a host, and find it in the lists."""
    host = site.base
    assert browser.get("/jobs/j/hosts")["rows"][0]["pages"] == 2
    paused = browser.post("/jobs/j/hosts/pause", host=site.url("/a"))
    assert paused == {"job": "j", "host": host, "before": "none", "after": "paused"}
    assert browser.get("/jobs/j")["paused_hosts"] == 1
    assert [row["key"] for row in browser.get("/jobs/j/hosts", kind="paused")["rows"]] == [host]
    assert browser.get("/jobs/j/hosts", kind="all", search="nothing") == {"rows": [], "next": None}
    assert browser.get("/jobs/j/hosts", kind="all", search="127.0.0.1", limit=1)["rows"][0]["paused"] is True
    assert browser.post("/jobs/j/hosts/resume", host=host)["before"] == "paused"
    assert browser.post("/jobs/j/hosts/give-up", host=host)["after"] == "given_up"
    assert [row["key"] for row in browser.get("/jobs/j/hosts", kind="given_up")["rows"]] == [host]
    assert browser.post("/jobs/j/hosts/resume", host=host)["before"] == "given_up"
    assert browser.ask("POST", "/jobs/j/hosts/pause", {"host": "http://never.example"}).status == 404
    for wrong in ({}, {"host": ""}, {"host": "no host"}, {"host": host, "more": 1}):
        assert browser.ask("POST", "/jobs/j/hosts/pause", wrong).status in (400, 422), wrong


class Told(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """A client of one server. ``cookie`` is kept as a browser keeps it."""

    def __init__(self, master: Master, token: str = "") -> None:
        self.port = master.port
        self.cookie = ""
        self._token = token

    def ask(
        self, method: str, path: str, body: Any = None, query: dict[str, Any] | None = None, **headers: str
    ) -> Told:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_SECONDS)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self._token:
            named.setdefault("Authorization", f"Bearer {self._token}")
        if self.cookie:
            named.setdefault("Cookie", self.cookie)
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
        if method in ("GET", "DELETE"):
            data = b""
        else:
            named.setdefault("Content-Type", "application/json")
        url = path if path.startswith("/") and not path.startswith("//") else f"/{path}"
        url = f"/api/v1{url}" if not url.startswith(("/api", "/assets", "/healthz", "/v1", "/..")) else url
        try:
            connection.request(method, url + (f"?{urlencode(query)}" if query else ""), data or None, named)
            answer = connection.getresponse()
            told = Told(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        if "set-cookie" in told.headers:
            self.cookie = told.headers["set-cookie"].partition(";")[0]
        return told

    def get(self, path: str, **query: Any) -> Any:
        told = self.ask("GET", path, query=query)
        assert told.status == 200, told
        return told.json

    def post(self, path: str, **body: Any) -> Any:
        told = self.ask("POST", path, body)
        assert told.status in (200, 201), told
        return told.json


def private_file(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Master]]:
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(Master(tmp_path, f"sqlite:{tmp_path / 'jobs.db'}", *options))


def add_user(skitter: Any, name: str, role: str) -> None:
    """Add a user with PASSWORD to the file ``users``."""
    private_file(skitter.folder / "password-of-user", PASSWORD)
    given = ("--role", role, "--users", "users", "--password-file", "password-of-user")
    skitter.run("user", "add", name, *given)


@pytest.fixture
def guarded(skitter: Any, tmp_path: Path, serve: Callable[..., Master]) -> Master:
    """A master with a token and a user for each role, and a job with failures."""
    tokens = tmp_path / "tokens"
    lines = [f"{role} {token}\n" for role, token in TOKENS.items()]
    private_file(tokens, "".join([*lines, "viewer limited-token-012345 shop-*\n"]))
    add_user(skitter, "anna", "operator")
    fill_job(f"sqlite:{tmp_path / 'jobs.db'}", "news", failures=FAILURES, hosts=4, queued=5, workers=3)
    (tmp_path / "skitter.toml").write_text(ALLOWED)
    return serve("--token-file", str(tokens), "--users", str(tmp_path / "users"))


def paths_of(route: str) -> tuple[str, str]:
    method, _, path = route.partition(" ")
    return method, path.format(job="nothing", name="nothing", proxy="nothing")


def test_every_route_needs_its_role(guarded: Master) -> None:
    clients = {role: Browser(guarded, token) for role, token in TOKENS.items()}
    document = clients["viewer"].get("/openapi.json")
    served = {
        f"{method.upper()} {path.removeprefix('/api/v1')}": operation["description"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    expected = {route: f"Role: {role or 'everybody'}." for role, routes in TABLE.items() for route in routes}
    assert served == expected
    for needed, routes in TABLE.items():
        for route in routes:
            method, path = paths_of(route)
            # No body of any route: whoever may use it is told so, and nothing is changed.
            told = {None: Browser(guarded).ask(method, path, b"[]").status}
            told |= {role: client.ask(method, path, b"[]").status for role, client in clients.items()}
            refused = {role for role, status in told.items() if status in (401, 403)}
            if needed is None:
                assert not refused, (route, told)
                continue
            below = ROLES[: ROLES.index(needed)]
            assert refused == {None, *below}, (route, told)
            assert told[None] == 401, route
            assert all(status < 500 for status in told.values()), (route, told)


def test_a_credential_with_jobs_sees_no_others(guarded: Master, tmp_path: Path) -> None:
    fill_job(f"sqlite:{tmp_path / 'jobs.db'}", "shop-1")
    limited = Browser(guarded, "limited-token-012345")
    assert [row["job"] for row in limited.get("/jobs")["rows"]] == ["shop-1"]
    assert limited.ask("GET", "/jobs/news").status == 403
    assert limited.ask("GET", "/events", query={"job": "news"}).status == 403


def test_users_log_in_stay_and_log_out(guarded: Master, skitter: Any, tmp_path: Path) -> None:
    browser = Browser(guarded)
    assert browser.get("/session") == {
        "name": "nobody", "role": None, "kind": "none", "jobs": [], "expires_at": None, "login": True,
    }  # fmt: skip
    assert browser.ask("POST", "/session", {"user": "anna", "password": "wrong"}).status == 401
    told = browser.ask("POST", "/session", {"user": "anna", "password": PASSWORD})
    assert told.status == 200
    assert (told.json["name"], told.json["role"], told.json["kind"]) == ("anna", "operator", "user")
    cookie = told.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"))
    assert "Secure" not in cookie
    assert browser.get("/jobs/news")["failed"] == FAILURES
    assert browser.post("/jobs/news/pause")["state"] == "paused"
    assert browser.ask("DELETE", "/jobs/news").status == 403, "an operator drops nothing"
    rows = browser.get("/audit", actor="user:")["rows"]
    assert [(row["actor"], row["action"]) for row in rows] == [("user:anna", "pause")]
    # A cookie that was changed anywhere is none.
    name, _, value = browser.cookie.partition("=")
    for place in (0, len(value) // 2, len(value) - 2):
        other = "A" if value[place] != "A" else "B"
        forged = f"{name}={value[:place]}{other}{value[place + 1 :]}"
        assert Browser(guarded).ask("GET", "/jobs", Cookie=forged).status == 401
    payload, _, signature = value.partition(".")
    for forged in ("", ".", f"{payload}.", f".{signature}", "\u00e4.\u00e4", "a" * 4000):
        assert Browser(guarded).ask("GET", "/jobs", Cookie=f"{name}={quote(forged)}").status == 401
    # The work API is for tokens.
    assert browser.ask("POST", "/v1/jobs", b"").status == 403
    kept = browser.cookie
    guarded.kill()
    guarded.start()
    assert Browser(guarded).ask("GET", "/jobs", Cookie=kept).status == 200, "a session outlives the server"
    assert browser.ask("DELETE", "/session").status == 204
    assert Browser(guarded).ask("GET", "/jobs", Cookie=kept).status == 401
    # Another password ends all sessions.
    assert browser.ask("POST", "/session", {"user": "anna", "password": PASSWORD}).status == 200
    private_file(tmp_path / "password", "another one 1\n")
    skitter.run("user", "password", "anna", "--users", tmp_path / "users", "--password-file", "password")
    wait_until(lambda: browser.ask("GET", "/jobs").status == 401)


def test_changes_of_users_are_in_the_trail_of_the_store(
    skitter: Any, until: Callable[..., Any], tmp_path: Path, serve: Callable[..., Master]
) -> None:
    """While the server runs and while it does not: names, roles and jobs before and after, and nothing of passwords."""
    private_file(tmp_path / "password", f"{PASSWORD}\n")
    secret = ("--password-file", "password", "--users", "users")
    skitter.run("user", "add", "anna", "--role", "admin", *secret)
    master = serve("--users", str(tmp_path / "users"))

    def rows(count: int) -> list[dict[str, Any]]:
        browser = Browser(master)
        assert browser.ask("POST", "/session", {"user": "anna", "password": PASSWORD}).status == 200
        return until(lambda: len(found := browser.get("/audit", action="users.")["rows"]) == count and found)

    (first,) = rows(1)
    assert (first["before"], first["after"], first["outcome"]) == ({}, {"anna": "admin"}, "done")
    assert first["actor"].startswith("serve:")
    assert first["claim"].startswith("cli:")
    skitter.run("user", "add", "ben", "--role", "viewer", "--job", "shop-*", *secret)
    assert (rows(2)[0]["before"], rows(2)[0]["after"]) == ({}, {"ben": "viewer shop-*"})
    skitter.run("user", "password", "ben", *secret)
    assert rows(3)[0]["before"] == {"ben": "viewer shop-*"}
    assert rows(3)[0]["after"] == {"ben": "viewer shop-*, password changed"}
    # What has not changed is not recorded again, and what changed meanwhile is.
    master.kill()
    master.start()
    assert len(rows(3)) == 3
    master.kill()
    skitter.run("user", "remove", "ben", "--users", "users")
    master.start()
    assert rows(4)[0]["after"] == {"anna": "admin"}
    stored = json.loads((tmp_path / "users").read_text())
    told = json.dumps(rows(4))
    assert all(user["hash"] not in told and user["salt"] not in told for user in stored["users"])
    assert (
        skitter.run("audit", "--verify", "--frontier", f"sqlite:{tmp_path / 'jobs.db'}").stdout == "4 entries: intact\n"
    )


def test_users_of_a_folder_without_jobs_are_recorded_and_schedules_still_fit_beside(
    skitter: Any, until: Callable[..., Any], tmp_path: Path
) -> None:
    private_file(tmp_path / "password", f"{PASSWORD}\n")
    skitter.run("user", "add", "anna", "--role", "admin", "--password-file", "password")
    process = skitter.start("serve", "--bind", "127.0.0.1:0")
    try:
        process.stdout.readline()
        until(lambda: skitter.run("audit", "--json").stdout, process)
        skitter.run("schedule", "add", "hourly", "--every", "1h", "--", "crawl", "http://a.example/")
        actions = [json.loads(line)["action"] for line in skitter.run("audit", "--json").stdout.splitlines()]
        assert actions == ["schedule.add", "users.change"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)


def test_wrong_passwords_are_slowed_by_user_and_address(guarded: Master) -> None:
    browser = Browser(guarded)
    told = [browser.ask("POST", "/session", {"user": "anna", "password": f"no {n}"}) for n in range(7)]
    assert [each.status for each in told[:5]] == [401] * 5
    assert 429 in [each.status for each in told]
    slowed = next(each for each in told if each.status == 429)
    assert int(slowed.headers["retry-after"]) >= 1
    # From this address nobody else is tried either, and the right password neither.
    assert browser.ask("POST", "/session", {"user": "otto", "password": "x"}).status == 429
    assert browser.ask("POST", "/session", {"user": "anna", "password": PASSWORD}).status == 429


def test_what_other_sites_and_hostile_clients_send_is_refused(guarded: Master) -> None:
    admin, browser = Browser(guarded, TOKENS["admin"]), Browser(guarded)
    assert browser.ask("POST", "/session", {"user": "anna", "password": PASSWORD}).status == 200
    own = f"http://127.0.0.1:{guarded.port}"
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": own.replace("http:", "https:")},
        {"Origin": own, "Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        assert browser.ask("POST", "/jobs/news/stop", **headers).status == 403, headers
        assert Browser(guarded).ask("POST", "/session", {"user": "anna", "password": "x"}, **headers).status == 403
    # Proxy headers of somebody who is no proxy of ours change nothing.
    forwarded = {"Origin": "https://evil.example", "X_Forwarded_Host": "evil.example", "X_Forwarded_Proto": "https"}
    assert browser.ask("POST", "/jobs/news/stop", **forwarded).status == 403
    assert browser.ask("POST", "/jobs/news/pause", Origin=own, Sec_Fetch_Site="same-origin").status == 200
    assert browser.get("/jobs/news")["state"] == "paused"
    for method in ("GET", "PUT", "OPTIONS"):
        told = admin.ask(method, "/jobs/news/pause")
        assert told.status == 405
        assert told.headers["content-type"] == "application/problem+json"
    assert admin.ask("POST", "/jobs/news/pause", b"x=1", Content_Type="application/x-www-form-urlencoded").status == 415
    assert admin.ask("POST", "/jobs/news/urls", b" " * (1024 * 1024 + 1)).status == 413
    assert admin.ask("POST", "/jobs/news/urls", {"urls": ["http://a.example/"] * 1001}).status == 400
    for body in (b"{", b"[" * 100_000, b'{"urls": 7}', b'{"nothing": 1}', b"\xff", b"null"):
        assert admin.ask("POST", "/jobs/news/urls", body).status == 400, body[:20]
    for path in ("/jobs/..", "/jobs/..%2F..%2Fetc%2Fpasswd", "/jobs/.hidden", "/jobs/%00", "/jobs/" + "x" * 200):
        assert admin.ask("GET", path).status == 404, path
    for path in ("/../../etc/passwd", "/assets/../../../etc/passwd", "/assets/..%2F..%2Fetc%2Fpasswd"):
        assert admin.ask("GET", path).status == 404, path
    for spider in ("/etc/evil.py:Evil", "../evil.py:Evil"):
        told = admin.ask("POST", "/jobs", {"urls": ["http://a.example/"], "spider": spider})
        assert (told.status, "outside" in told.json["detail"]) == (400, True)
    for query in (
        {"limit": 0},
        {"limit": 1000},
        {"limit": "x"},
        {"after": "x" * 500},
        {"nothing": 1},
        {"state": "odd"},
    ):
        assert admin.ask("GET", "/jobs", query=query).status == 400, query
    for path in ("/jobs", "/jobs/nothing", "/session"):
        headers = admin.ask("GET", path, Origin="https://evil.example").headers
        assert "access-control-allow-origin" not in headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=HANG_SECONDS) as raw:
        head = f"POST /api/v1/jobs/news/urls HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKENS['admin']}\r\n"
        raw.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        assert b" 411 " in raw.recv(65536)
    assert admin.ask("GET", "/healthz").status == 200


def test_a_name_that_is_rebound_to_this_machine_is_refused_where_there_are_no_credentials(
    serve: Callable[..., Master],
) -> None:
    browser = Browser(serve())
    for host in ("evil.example", f"evil.example:{browser.port}", "127.0.0.1.evil.example", "[::1].evil", ""):
        assert browser.ask("GET", "/jobs", Host=host).status in (400, 421), host
        assert browser.ask("POST", "/v1/jobs", b"", Host=host).status in (400, 421), host
    for host in ("localhost", f"localhost:{browser.port}", "127.0.0.1", "[::1]:1"):
        assert browser.ask("GET", "/jobs", Host=host).status == 200, host
    assert browser.ask("POST", "/jobs/x/pause", Origin="http://evil.example").status == 403


def test_a_named_proxy_tells_the_address_and_the_origin(
    skitter: Any, serve: Callable[..., Master], tmp_path: Path
) -> None:
    add_user(skitter, "anna", "admin")
    browser = Browser(serve("--users", str(tmp_path / "users"), "--trusted-proxy", "127.0.0.0/8"))
    through = {"X_Forwarded_Host": "crawls.example", "X_Forwarded_Proto": "https", "Origin": "https://crawls.example"}
    for attempt in range(8):
        wrong = {"user": f"u{attempt}", "password": "x"}
        # What a client itself says stands before what the proxy adds.
        told = browser.ask("POST", "/session", wrong, X_Forwarded_For=f"10.0.0.{attempt}, 192.0.2.7", **through)
        assert told.status == (401 if attempt < 5 else 429)
    right = {"user": "anna", "password": PASSWORD}
    told = browser.ask("POST", "/session", right, X_Forwarded_For="192.0.2.8", **through)
    assert told.status == 200
    assert "; Secure" in told.headers["set-cookie"]
    assert browser.ask("POST", "/session", right, Origin="https://crawls.example").status == 403


def test_lists_are_paged_by_key_and_reads_have_tags(guarded: Master) -> None:
    admin = Browser(guarded, TOKENS["admin"])
    for order in ("newest", "oldest"):
        listed, after = [], ""
        while True:
            page = admin.get("/jobs/news/failures", limit=50, order=order, after=after)
            assert len(page["rows"]) <= 50
            listed += page["rows"]
            if page["next"] is None:
                break
            after = page["next"]
        assert len({row["id"] for row in listed}) == FAILURES
        numbers = [int(row["url"].rpartition("/")[2]) for row in listed]
        assert numbers == sorted(numbers, reverse=order == "newest")
    summary = admin.get("/jobs/news/failures/summary")
    assert (summary["total"], summary["looked_at"], sum(summary["classes"].values())) == (FAILURES,) * 3
    assert {row["host"]: row["failures"] for row in summary["hosts"]} == {f"http://h{n}.example": 30 for n in range(4)}
    one_class = next(iter(summary["classes"]))
    of_class = admin.get("/jobs/news/failures", **{"class": one_class, "limit": 200})["rows"]
    assert {row["error_class"] for row in of_class} == {one_class}
    assert len(of_class) == summary["classes"][one_class]
    assert admin.ask("GET", "/jobs/news/failures", query={"class": "odd"}).status == 400
    of_host = admin.get("/jobs/news/failures", host="h2.example", limit=200)["rows"]
    assert {row["host"] for row in of_host} == {"http://h2.example"}
    assert len(of_host) == 30
    assert "Traceback" in of_host[0]["error"]
    # A page goes on where it was, whatever is retried meanwhile.
    first = admin.get("/jobs/news/failures", limit=10)
    retried = admin.post("/jobs/news/failures/retry", ids=[row["id"] for row in first["rows"][:5]])
    assert retried == {"job": "news", "state": "running", "retried": 5, "more": False}
    second = admin.get("/jobs/news/failures", limit=10, after=first["next"])
    assert [int(row["url"].rpartition("/")[2]) for row in second["rows"]] == list(range(109, 99, -1))
    assert admin.post("/jobs/news/failures/retry", host="h2.example")["retried"] == 29
    assert admin.post("/jobs/news/failures/retry", **{"class": one_class})["retried"] > 0
    left = admin.get("/jobs/news")["failed"]
    assert admin.post("/jobs/news/failures/retry")["retried"] == left
    assert admin.get("/jobs/news")["failed"] == 0
    workers = admin.get("/jobs/news/workers", limit=2)
    more = admin.get("/jobs/news/workers", limit=2, after=workers["next"])
    assert [len(workers["rows"]), len(more["rows"]), more["next"]] == [2, 1, None]
    told = admin.ask("GET", "/jobs/news/settings")
    assert told.status == 200
    again = admin.ask("GET", "/jobs/news/settings", If_None_Match=told.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    admin.ask("PATCH", "/jobs/news/settings", {"settings": {"delay_seconds": 3}})
    assert admin.ask("GET", "/jobs/news/settings", If_None_Match=told.headers["etag"]).status == 200


def finished(browser: Browser, path: str) -> Any:
    """A job when it is finished: what others change is seen a moment later."""
    return wait_until(lambda: (detail := browser.get(path))["state"] == "finished" and detail)


def test_a_job_is_submitted_steered_and_dropped(serve: Callable[..., Master], skitter: Any, site: Any) -> None:
    site.page("/", "<title>home</title><a href='/a'>a</a><a href='/gone'>gone</a>")
    site.page("/a", "<title>a</title>")
    browser = Browser(serve())
    place = ("--frontier", f"sqlite:{skitter.folder / 'jobs.db'}", "--job", "j")
    told = browser.ask("POST", "/jobs", {"urls": [site.url("/")], "job": "j", "settings": {"delay_seconds": 0}})
    assert (told.status, told.json["begun"], told.json["state"], told.json["run"]) == (201, "new", "running", 1)
    row = next(row for row in browser.get("/jobs")["rows"] if row["job"] == "j")
    assert (row["state"], row["workers"], row["store"]) == ("running", 0, "jobs")
    assert [each["job"] for each in browser.get("/jobs", state="interrupted", search="J")["rows"]] == ["j"]
    assert browser.get("/jobs", search="nothing") == {"rows": [], "next": None}
    skitter.run("worker", *place)
    detail = finished(browser, "/jobs/j")
    assert (detail["state"], detail["done"], detail["failed"], detail["seeds"]) == ("finished", 2, 1, [site.url("/")])
    assert detail["errors"] == skitter.json("status", *place)["errors"] == {"http_4xx": 1}
    assert browser.get("/jobs/j/items")["items"] == 2
    (failure,) = browser.get("/jobs/j/failures")["rows"]
    assert (failure["url"], failure["referrer"]) == (site.url("/gone"), site.url("/"))
    why = browser.get("/jobs/j/why", url=site.url("/gone"))
    assert (why["state"], why["reasons"][0]["kind"]) == ("failed", "failed")
    assert browser.ask("GET", "/jobs/j/why", query={"url": "http://["}).status == 400
    check_host_commands(browser, site)
    assert browser.get("/jobs/j/history")["rows"][-1]["done"] == 2
    assert browser.post("/jobs/j/urls", urls=[site.url("/b"), site.url("/a")]) == {"job": "j", "added": 1}
    assert browser.post("/jobs/j/pause")["state"] == "paused"
    assert browser.get("/jobs/j")["state"] == "paused", "what was changed is read anew"
    changed = browser.ask("PATCH", "/jobs/j/settings", {"settings": {"delay-seconds": "2.5"}})
    assert (changed.status, changed.json["settings"]) == (200, {"delay_seconds": 2.5})
    rows = {each["name"]: each for each in browser.get("/jobs/j/settings")["rows"]}
    assert (rows["delay_seconds"]["layer"], rows["delay_seconds"]["before"]) == ("changed", 0.0)
    assert {name for name, each in rows.items() if each["layer"] != "default"} == {"delay_seconds"}
    assert skitter.json("status", *place)["changed_settings"]["delay_seconds"]["value"] == 2.5
    for wrong in ({"delay_seconds": -1}, {"user_agent": "x"}, {"nothing": 1}, {}):
        assert browser.ask("PATCH", "/jobs/j/settings", {"settings": wrong}).status == 400, wrong
    assert browser.post("/jobs/j/resume")["state"] == "running"
    assert browser.post("/jobs/j/stop")["state"] in ("stopped", "draining")
    assert browser.post("/jobs/j/fsck") | {"report": None} == {
        "job": "j", "consistent": True, "found": 0, "report": None,
    }  # fmt: skip
    told = browser.ask("POST", "/jobs/j/runs")
    assert (told.status, told.json["run"], told.json["state"], told.json["begun"]) == (201, 2, "running", "rerun")
    assert browser.get("/jobs/j")["done"] == 0
    assert {each["name"]: each for each in browser.get("/jobs/j/settings")["rows"]}["delay_seconds"]["value"] == 0.0
    assert browser.ask("POST", "/jobs/j/proxies/nothing/ban").status == 404
    assert browser.ask("DELETE", "/jobs/j").json == {"job": "j", "dropped": True}
    trail = browser.get("/audit", job="j", limit=200)["rows"]
    actions = ["begin", *HOST_ACTIONS, "add", "pause", "set", "resume", "stop", "begin", "drop"]
    assert [row["action"] for row in trail if row["outcome"] == "done"][::-1] == actions
    assert {row["actor"] for row in trail} == {"anybody"}
    first = browser.get("/audit", job="j", limit=3)
    assert browser.get("/audit", job="j", limit=3, after=first["next"])["rows"] == trail[3:6]
    assert browser.get("/audit/verify")["ok"] is True
    assert browser.ask("GET", "/jobs/j").status == 404
    assert browser.ask("DELETE", "/jobs/j").status == 404


def test_several_stores_are_served_each_by_its_name(skitter: Any, tmp_path: Path) -> None:
    fill_job(f"sqlite:{tmp_path / 'one.db'}", "same", failures=3)
    fill_job(f"sqlite:{tmp_path / 'two.db'}", "same", failures=1)
    with Master(
        tmp_path, f"sqlite:{tmp_path / 'one.db'}", "--frontier", f"other=sqlite:{tmp_path / 'two.db'}"
    ) as master:
        browser = Browser(master)
        assert [row["name"] for row in browser.get("/stores")["rows"]] == ["one", "other"]
        rows = browser.get("/jobs")["rows"]
        assert [(row["store"], row["job"], row["failed"]) for row in rows] == [("one", "same", 3), ("other", "same", 1)]
        page = browser.get("/jobs", limit=1)
        assert browser.get("/jobs", limit=1, after=page["next"])["rows"][0]["store"] == "other"
        assert browser.get("/jobs/same", store="other")["failed"] == 1
        assert browser.ask("GET", "/jobs/same").status == 400
        assert browser.ask("GET", "/jobs/same", query={"store": "third"}).status == 404
        # Workers and commands reach the first at the address itself, each of them below its name.
        for url, failed in ((master.url, 3), (f"{master.url}/stores/other", 1)):
            assert skitter.json("status", "--frontier", url, "--job", "same")["failed"] == failed


def test_without_a_store_the_jobs_of_the_folder_are_served(skitter: Any, tmp_path: Path) -> None:
    (tmp_path / ".skitter").mkdir(0o700)
    fill_job(f"sqlite:{tmp_path / '.skitter' / 'first.db'}", "first", failures=2)
    fill_job(f"sqlite:{tmp_path / '.skitter' / 'both.db'}", "second")
    skitter.run("schedule", "add", "nightly", "--every", "1h", "--", "crawl", "http://a.example/", "--job", "first")
    process = skitter.start("serve", "--bind", "127.0.0.1:0")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        browser = Browser.__new__(Browser)
        browser.port, browser.cookie, browser._token = int(url.rpartition(":")[2].strip("/")), "", ""
        assert [row["job"] for row in browser.get("/jobs")["rows"]] == ["first", "second"]
        assert browser.get("/jobs/first")["failed"] == 2
        assert browser.get("/jobs/second")["failed"] == 0
        assert browser.ask("GET", "/jobs/third").status == 404
        assert not (tmp_path / ".skitter" / "third.db").exists()
        (schedule,) = browser.get("/schedules")["rows"]
        assert (schedule["name"], schedule["job"], schedule["store"]) == ("nightly", "first", "local")
        assert browser.post("/schedules/nightly/pause")["paused"] is True
        assert skitter.json("schedule", "show", "nightly")["paused"] is True
        assert browser.post("/schedules/nightly/resume")["paused"] is False
        assert browser.post("/schedules/nightly/run")["leader"] == ""
        assert browser.get("/schedules/nightly")["waiting"] != []
        assert browser.get("/schedules/nightly/history")["rows"] == []
        assert browser.ask("POST", "/schedules/nothing/run").status == 404
        assert browser.ask("DELETE", "/schedules/nightly").json == {"name": "nightly", "removed": True}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0


def test_a_job_that_its_limit_stopped_says_how_to_resume_it(
    skitter: Any, site: Any, serve: Callable[..., Master], tmp_path: Path
) -> None:
    site.page("/", "".join(f"<a href='/{n}'>x</a>" for n in range(4)))
    frontier = f"sqlite:{tmp_path / 'jobs.db'}"
    skitter.run("crawl", site.url("/"), "--job", "j", "--max-pages", 1, "--frontier", frontier, "-q")
    browser = Browser(serve())
    told = browser.post("/jobs/j/resume")
    assert (told["state"], told["spent_max_pages"]) == ("stopped", 1)
    assert told["hint"] == "max_pages=1 is reached: set a higher limit, then resume again"
    assert browser.ask("PATCH", "/jobs/j/settings", {"settings": {"max_pages": 3}}).status == 200
    told = browser.post("/jobs/j/resume")
    assert (told["state"], told["spent_max_pages"], told["hint"]) == ("running", 0, "")


def test_schedules_are_added_and_changed_over_rest(
    guarded: Master, skitter: Any, site: Any, until: Callable[..., Any], tmp_path: Path
) -> None:
    """What is added is checked as the command line checks it, recorded, and run by a scheduler."""
    site.page("/", "<title>a</title>")
    operator = Browser(guarded, TOKENS["operator"])
    command = f"crawl {site.url('/')} --job nightly --set allow_private=true -o 'items of today.jsonl'"
    told = operator.ask("POST", "/schedules", {"name": "nightly", "cron": "0 2 * * *", "command": command})
    assert told.status == 201, told
    assert (told.json["job"], told.json["command"][-1]) == ("nightly", "items of today.jsonl")
    assert operator.ask("POST", "/schedules", {"name": "nightly", "every": "1h", "command": command}).status == 409
    words = told.json["command"]
    changed = operator.ask("PUT", "/schedules/nightly", {"every": "1h30m", "command": words, "retries": 2})
    assert (changed.status, changed.json["every_seconds"], changed.json["retries"]) == (200, 5400, 2)
    assert operator.ask("PUT", "/schedules/weekly", {"every": "1h", "command": words}).status == 404
    frontier = ("--frontier", f"sqlite:{tmp_path / 'jobs.db'}")
    assert skitter.json("schedule", "show", "nightly", *frontier)["every_seconds"] == 5400
    for wrong in (
        {"name": "x", "every": "1h", "command": "sh -c id"},
        {"name": "x", "every": "1h", "command": ["export", "--job", "news", "-o", "x.jsonl"]},
        {"name": "x", "every": "1h", "command": f"crawl {site.url('/')} --proxies command:id"},
        {"name": "x", "every": "1h", "command": "crawl ../spider.py"},
        {"name": "x", "every": "1h", "command": "crawl 'unended"},
        {"name": "../x", "every": "1h", "command": words},
        {"name": "x", "command": words},
        {"name": "x", "cron": "nonsense", "command": words},
    ):
        refused = operator.ask("POST", "/schedules", wrong)
        assert refused.status == 400, (wrong, refused)
        assert refused.json["hint"], wrong
    assert [row["name"] for row in operator.get("/schedules")["rows"]] == ["nightly"]
    rows = operator.get("/audit", action="schedule.")["rows"]
    entries = [(row["action"], row["actor"].partition(":")[0]) for row in rows]
    assert entries == [("schedule.change", "token"), ("schedule.add", "token")]
    # What was added over REST runs.
    operator.post("/schedules/nightly/run")
    scheduler = skitter.start("scheduler", *frontier)
    try:
        until(lambda: operator.get("/schedules/nightly")["last"] is not None)
        assert operator.get("/schedules/nightly")["last"]["outcome"] == "done"
        assert (tmp_path / "items of today.jsonl").exists()
    finally:
        scheduler.send_signal(signal.SIGTERM)
        scheduler.communicate(timeout=HANG_SECONDS)


def test_a_credential_with_jobs_schedules_no_others(serve: Callable[..., Master], tmp_path: Path) -> None:
    private_file(tmp_path / "tokens", f"operator {TOKENS['operator']} shop-*\n")
    (tmp_path / "skitter.toml").write_text(ALLOWED)
    limited = Browser(serve("--token-file", str(tmp_path / "tokens")), TOKENS["operator"])
    crawl = "crawl http://a.example/ --job"
    assert limited.ask("POST", "/schedules", {"name": "a", "every": 60, "command": f"{crawl} news"}).status == 403
    assert limited.ask("POST", "/schedules", {"name": "a", "every": 60, "command": f"{crawl} shop-1"}).status == 201
    assert limited.ask("PUT", "/schedules/a", {"every": 60, "command": f"{crawl} news"}).status == 403


def test_the_python_client_does_everything_through_a_master(skitter: Any, site: Any, tmp_path: Path) -> None:
    site.page("/a", "<title>a</title>")
    site.page("/b", "<title>b</title>")
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("master")
    private_file(tmp_path / "tokens", f"operator {TOKENS['operator']}\n")
    private_file(tmp_path / "own", TOKENS["operator"])
    (tmp_path / "skitter.toml").write_text(ALLOWED)
    tls = ("--tls-cert", cert, "--tls-key", key, "--token-file", "tokens")
    process = skitter.start("serve", "--frontier", "sqlite:m.db", "--bind", "127.0.0.1:0", *tls)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip().rstrip("/")
        assert address.startswith("https://127.0.0.1:")
        url = f"{address}?ca={authority.file}&token_file={tmp_path / 'own'}"
        with connect(url) as client:
            (first,) = client.submit(site.url("/a"), job="j", settings={"delay_seconds": 0})
            assert client.add([site.url("/a"), site.url("/b")], job="j") == 1
            client.change_settings("j", {"per_host": 3})
            trace = client.state(first)
            assert trace is not None
            assert trace.state == "queued"
            skitter.run("worker", "--frontier", url, "--job", "j")
            assert client.wait("j", timeout_seconds=HANG_SECONDS).state == "finished"
            assert client.counts("j").done == 2
            assert [item["title"] for item in client.items(first)] == ["a"]
            assert sorted(item["title"] for _, item in client.results("j")) == ["a", "b"]
            (job,) = client.jobs()
            assert (job.job, job.state, job.done) == ("j", "finished", 2)
            assert isinstance(client.workers("j"), list)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0


class Stream:
    """An open stream of server-sent events."""

    def __init__(self, port: int, query: str) -> None:
        self._answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/events?{query}", timeout=HANG_SECONDS)

    def next(self, wanted: str) -> Any:
        """The data of the next event of a kind."""
        event = ""
        while line := self._answer.readline().decode():
            if line.startswith("event: "):
                event = line.removeprefix("event: ").strip()
            elif line.startswith("data: ") and event == wanted:
                return json.loads(line.removeprefix("data: "))
        raise AssertionError(f"the stream has ended without {wanted}")

    def close(self) -> None:
        self._answer.close()


def test_streams_tell_changes_and_end_with_the_server(serve: Callable[..., Master], tmp_path: Path) -> None:
    fill_job(f"sqlite:{tmp_path / 'jobs.db'}", "news", failures=2, queued=3)
    master = serve()
    browser = Browser(master)
    assert browser.ask("GET", "/events").status == 400
    streams = [Stream(master.port, "job=news" if number else "jobs=true") for number in range(10)]
    assert streams[0].next("jobs")["rows"][0]["job"] == "news"
    for stream in streams[1:]:
        assert stream.next("job")["failed"] == 2
    assert streams[1].next("sample")["failed"] == 2
    browser.post("/jobs/news/pause")
    while streams[2].next("job")["state"] != "paused":
        pass
    missing = Stream(master.port, "job=nothing")
    assert missing.next("problem")["status"] == 404
    missing.close()
    os.kill(master.process.pid, signal.SIGTERM)
    assert master.process.wait(HANG_SECONDS) == 0
    for stream in streams:
        assert stream.next("end") == {}
        stream.close()


def test_a_server_that_was_killed_tells_the_same_figures(serve: Callable[..., Master], tmp_path: Path) -> None:
    fill_job(f"sqlite:{tmp_path / 'jobs.db'}", "news", failures=50, queued=7)
    master = serve()

    def figures() -> list[Any]:
        browser = Browser(master)
        detail = browser.get("/jobs/news")
        parts = (
            "failures",
            "failures/summary",
            "hosts",
            "sinks",
            "intakes",
            "settings",
            "sessions",
            "proxies",
            "items",
        )
        return [detail, browser.get("/jobs"), *(browser.get(f"/jobs/news/{part}") for part in parts)]

    before = figures()
    master.kill()
    master.start()
    assert figures() == before
