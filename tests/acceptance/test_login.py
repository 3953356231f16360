"""A crawl behind a login: by several workers, killed in the middle and resumed, every page is answered 200."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from http.cookies import SimpleCookie

import pytest

PAGES = 60
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


@pytest.mark.parametrize("frontier", ["sqlite", "redis"])
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
