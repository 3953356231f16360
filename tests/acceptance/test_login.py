"""A crawl behind a login: by several workers, killed in the middle and resumed, every page is answered 200."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from http.cookies import SimpleCookie

import pytest
from tests.acceptance.conftest import place_of

PAGES = 30
SECRET = "s3cr3t-of-the-session-"

SPIDER = """
from skitter import Request, Spider

class Members(Spider):
    name = "members"
    login_url = "LOGIN"

    def start(self):
        yield Request(self.login_url, self.fill_in)

    def fill_in(self, response):
        yield response.form().request({"user": "me"}, callback=self.logged_in)

    def logged_in(self, response):
        for number in range(PAGES):
            yield response.follow(f"/member/{number}", self.member)

    def member(self, response):
        yield {"url": response.url, "size": len(response.text)}
"""


def cookie_of(seen, name: str) -> str | None:
    found = SimpleCookie(seen.headers.get("cookie", "")).get(name)
    return found.value if found else None


def members_only(site, *, seconds: float = 0.05) -> list[int]:
    """A site whose form gives a cookie by way of a redirect; the statuses of its members' pages."""
    statuses: list[int] = []

    def login(seen, _):
        if seen.method == "GET":
            form = b"<form method=post action=/login><input name=user><input type=hidden name=csrf value=t1></form>"
            return 200, {"Content-Type": "text/html", "Set-Cookie": "csrf=t1; Path=/"}, form
        if cookie_of(seen, "csrf") != "t1" or b"csrf=t1" not in seen.body:
            return 403, {}, b""
        headers = {"Location": "/welcome", "Set-Cookie": f"sid={SECRET}1; Path=/; HttpOnly; Max-Age=3600"}
        return 302, headers, b""

    def welcome(seen, _):
        # Each answer pushes the expiry, as many sites do it.
        is_member = cookie_of(seen, "sid") == f"{SECRET}1"
        return (200 if is_member else 401), {"Content-Type": "text/html"}, b"welcome"

    def member(seen, _):
        is_member = cookie_of(seen, "sid") == f"{SECRET}1"
        statuses.append(200 if is_member else 401)
        time.sleep(seconds)  # a page that takes its time: both workers are at it when they are killed
        headers = {"Content-Type": "text/html", "Set-Cookie": f"sid={SECRET}1; Path=/; HttpOnly; Max-Age=3600"}
        return statuses[-1], headers if is_member else {}, b"<b>me</b>"

    site.on("/login", login)
    site.on("/welcome", welcome)
    for number in range(PAGES):
        site.on(f"/member/{number}", member)
    return statuses


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_a_login_is_kept_by_two_workers_a_kill_and_a_resume(skitter, site, services, until, tmp_path, frontier):
    statuses = members_only(site)
    skitter.write("members.py", SPIDER.replace("LOGIN", site.url("/login")).replace("PAGES", str(PAGES)))
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    place = ("--frontier", url, "--job", tmp_path.name)
    command = ("crawl", "members.py", "-o", "members.jsonl", "--workers", 2, "--set", "concurrency=2", *place)
    log = ("--log-format", "json", "--log", "log.jsonl")
    with skitter.start(*command, "--ignore-robots", *log, stdout=subprocess.DEVNULL) as crawl:
        until(lambda: len(statuses) > PAGES // 3, crawl)
        os.killpg(crawl.pid, signal.SIGKILL)
    skitter.run(*command, "--ignore-robots", "-v", *log)
    assert set(statuses) == {200}
    assert len({line["url"] for line in skitter.lines("members.jsonl")}) == PAGES
    assert Counter(seen.method for seen in site.seen if seen.path == "/login") == {"GET": 1, "POST": 1}
    if frontier == "sqlite":
        assert (skitter.folder / "jobs.db").stat().st_mode & 0o777 == 0o600
    told = (skitter.folder / "log.jsonl").read_text()
    told += skitter.run("status", *place, "--json").stdout + skitter.run("why", site.url("/welcome"), *place).stdout
    assert SECRET not in told
    assert re.search(r"\bsid=", told) is None


REPEATED = """
from skitter import Request, Spider

class Members(Spider):
    name = "members"

    def start(self):
        yield Request("MEMBER", session="me")

    def login(self, session):
        yield Request("LOGIN", self.logged_in)

    def logged_in(self, response):
        pass

    def parse(self, response):
        yield {"status": response.status}
"""


def test_a_login_that_fails_is_repeated(skitter, site):
    answers = iter([(403, {}, b""), (200, {"Set-Cookie": "sid=1; Path=/"}, b"")])
    site.on("/login", lambda *_: next(answers))
    site.on("/member", lambda seen, _: (200 if cookie_of(seen, "sid") == "1" else 401, {}, b""))
    urls = {"LOGIN": site.url("/login"), "MEMBER": site.url("/member")}
    skitter.write("members.py", REPEATED.replace("LOGIN", urls["LOGIN"]).replace("MEMBER", urls["MEMBER"]))
    skitter.run("crawl", "members.py", "-o", "members.jsonl", "--ignore-robots", "-q")
    assert skitter.lines("members.jsonl") == [{"status": 200}]
    assert [seen.path for seen in site.seen] == ["/login", "/login", "/member"]


def test_two_sessions_see_the_same_pages_as_two_users(skitter, site):
    seen_by: Counter[tuple[str, str | None]] = Counter()

    def login(seen, _):
        user = seen.path.partition("=")[2]
        return 200, {"Content-Type": "text/html", "Set-Cookie": f"user={user}; Path=/"}, b"<a href=/home>home</a>"

    def home(seen, _):
        seen_by["home", cookie_of(seen, "user")] += 1
        headers = {"Content-Type": "text/html", "Set-Cookie": "seen=1; Path=/"}
        return 200, headers, b"<a href=/home>home</a><a href=/deep>deep</a>"

    def deep(seen, _):
        seen_by["deep", cookie_of(seen, "user")] += 1
        return 200, {"Content-Type": "text/html", "Set-Cookie": "never=kept; Path=/"}, b"deep"

    def bare(seen, _):
        seen_by["bare", seen.headers.get("cookie")] += 1
        return 200, {"Content-Type": "text/html", "Set-Cookie": "bare=1; Path=/"}, b"bare"

    for path, answer in (("/login", login), ("/home", home), ("/deep", deep), ("/bare", bare)):
        site.on(path, answer)
    skitter.write(
        "users.py",
        f"""
from skitter import Request, Spider

class Users(Spider):
    name = "users"

    def start(self):
        for user in ("alice", "bob@example.com"):
            yield Request("{site.url("/login")}?user=" + user, session=user)
        yield Request("{site.url("/login")}?user=scrapy", meta={{"cookiejar": 7}})
        yield Request("{site.url("/bare")}", cookies={{"own": "1"}}, session=None)

    def parse(self, response):
        yield {{"session": response.request.session, "url": response.url}}
        yield response.links()
""",
    )
    skitter.run("crawl", "users.py", "-o", "out.jsonl", "--ignore-robots", "--set", "concurrency=1")
    users = ["alice", "bob@example.com", "scrapy"]
    assert seen_by == {(page, user): 1 for page in ("home", "deep") for user in users} | {("bare", "own=1"): 1}
    sessions = Counter(line["session"] for line in skitter.lines("out.jsonl"))
    assert sessions == {"alice": 3, "bob@example.com": 3, "7": 3, None: 1}
    listed = {one["name"]: one["cookies"] for one in skitter.json("sessions", "--job", "users")["sessions"]}
    assert listed == {"7": 3, "alice": 3, "bob@example.com": 3}
    for name in ("alice.txt", "alice.json"):
        skitter.run("sessions", "export", name, "--session", "alice", "--job", "users")
        assert (skitter.folder / name).stat().st_mode & 0o777 == 0o600
        assert "alice" in (skitter.folder / name).read_text()
        skitter.run("sessions", "import", name, "--session", f"from.{name}", "--job", "users")
        skitter.run("sessions", "export", name, "--session", "alice", "--job", "users", code=2)
    skitter.run("sessions", "export", "again.txt", "--session", "from.alice.json", "--job", "users")
    assert (skitter.folder / "again.txt").read_text() == (skitter.folder / "alice.txt").read_text()
    (skitter.folder / "broken.json").write_text('{"cookies": 7}')
    assert "no list of cookies" in skitter.run("sessions", "import", "broken.json", "--job", "users", code=2).stderr


MEMBERS = """
from skitter import Request, Spider

class Members(Spider):
    name = "members"
    custom_settings = SETTINGS

    def start(self):
        for number in range(PAGES):
            yield Request(f"SITE/member/{number}", session=SESSION, max_attempts=50)

    def login(self, session):
        yield Request("SITE/login", self.fill_in)

    def fill_in(self, response):
        yield response.form().request({"user": "me"}, callback=self.logged_in)

    def logged_in(self, response):
        pass

    def parse(self, response):
        yield {"url": response.url}
"""


class Accounts:
    """A site that counts what each login is used for, and forgets logins when it likes."""

    def __init__(self, site, pages: int, *, uses: int | None = None, rotates: bool = False) -> None:
        self.logins = 0
        self.uses: Counter[str] = Counter()
        self.denied = 0
        self.together = 0
        """Requests of one login that overlapped."""
        self.forgotten: set[str] = set()
        self._tokens: dict[str, str] = {}
        self._open: dict[str, list[object]] = {}
        self._lock = threading.Lock()
        self._rotates, self._most = rotates, uses
        site.on("/login", self._login)
        for number in range(pages):
            site.on(f"/member/{number}", self._member)

    def _login(self, seen, _):
        if seen.method == "GET":
            return 200, {"Content-Type": "text/html"}, b"<form method=post><input name=user></form>"
        with self._lock:
            self.logins += 1
            sid = f"login{self.logins}"
            self._tokens[sid] = "0"
        return 200, {"Content-Type": "text/html", "Set-Cookie": f"sid={sid}.0; Path=/"}, b"welcome"

    def _member(self, seen, connection):
        sid, _, token = (cookie_of(seen, "sid") or "").partition(".")
        with self._lock:
            if sid not in self._tokens or sid in self.forgotten or (self._rotates and token != self._tokens[sid]):
                self.denied += 1
                return 401, {}, b""
            self.uses[sid] += 1
            # A worker that was killed has hung up, and is not there any more.
            busy = [other for other in self._open.get(sid, []) if not other.is_left]
            self.together += len(busy)
            self._open[sid] = [*busy, connection]
        time.sleep(0.02)
        with self._lock:
            self._open[sid].remove(connection)
            headers = {"Content-Type": "text/html"}
            if self._rotates:
                self._tokens[sid] = str(int(token) + 1)
                headers["Set-Cookie"] = f"sid={sid}.{self._tokens[sid]}; Path=/"
        return 200, headers, b"page"


def write_members(skitter, site, *, pages: int, session: str, **settings: object) -> None:
    text = MEMBERS.replace("SITE", site.url().rstrip("/")).replace("PAGES", str(pages))
    skitter.write("members.py", text.replace("SETTINGS", repr(settings)).replace("SESSION", repr(session)))


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_a_rotating_token_and_a_session_that_expires(skitter, site, services, tmp_path, frontier):
    accounts = Accounts(site, 24, rotates=True)
    write_members(skitter, site, pages=24, session="alice", exclusive_sessions=True)
    original = accounts._member

    def forgetful(seen, connection):
        if sum(accounts.uses.values()) == 12:
            accounts.forgotten.add("login1")
        return original(seen, connection)

    for number in range(24):
        site.on(f"/member/{number}", forgetful)
    place = place_of(frontier, services, tmp_path.name)
    skitter.run("crawl", "members.py", "-o", "out.jsonl", "--workers", 2, "--ignore-robots", *place)
    assert len(skitter.lines("out.jsonl")) == 24
    assert accounts.logins == 2, "once at first, and once when it had expired"
    assert (accounts.denied, accounts.together) == (1, 0)
    assert sum(accounts.uses.values()) == 24
    listed = skitter.json("sessions", *place)["sessions"]
    assert [(one["name"], one["state"], one["logins"], one["cookies"]) for one in listed] == [("alice", "ready", 2, 1)]
    shown = skitter.run("sessions", *place).stdout
    assert "alice" in shown
    assert "login2" not in shown


@pytest.mark.parametrize(
    ("frontier", "kills"),
    [("redis", 1), *(pytest.param(frontier, 20, marks=pytest.mark.soak) for frontier in ("sqlite", "redis"))],
)
def test_uses_are_exact_and_exclusive_sessions_never_overlap_in_a_cluster_that_is_killed(
    skitter, site, services, until, tmp_path, frontier, kills
):
    pages, uses = 30 + 20 * kills, 5
    accounts = Accounts(site, pages, uses=uses)
    settings = {"session_pool": 3, "exclusive_sessions": True, "max_session_uses": uses}
    write_members(skitter, site, pages=pages, session="", **settings)
    place = place_of(frontier, services, tmp_path.name)
    command = ("crawl", "members.py", "-o", "out.jsonl", "--workers", 4, "--ignore-robots", *place)
    for number in range(kills):
        goal = pages * (number + 1) // (kills + 2)
        with skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as crawl:
            until(lambda goal=goal: sum(accounts.uses.values()) > goal, crawl)
            os.killpg(crawl.pid, signal.SIGKILL)
    skitter.run(*command)
    assert len({line["url"] for line in skitter.lines("out.jsonl")}) == pages
    assert accounts.together == 0
    assert max(accounts.uses.values()) == uses
    assert sum(accounts.uses.values()) <= pages + 3 * kills, "what was in flight is fetched again"
    assert skitter.run("fsck", *place).returncode == 0
