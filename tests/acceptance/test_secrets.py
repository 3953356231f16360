"""Secrets go in at every door and come out at none: every byte that any command writes is searched for them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

CANARIES = {
    "password": "canary-in-the-seed",
    "header": "canary-in-authorization",
    "cookie": "canary-in-cookie",
    "set_cookie": "canary-in-set-cookie",
    "argument": "canary-in-an-argument",
    "linked": "canary-in-a-link",
    "frontier": "canary-of-the-store",
    "proxy": "canary-of-the-proxy",
    "token": "canary-in-place-of-a-user",
}

SPIDER = """
    import logging

    from skitter import Request, Spider

    WHO = "canary-in-place-of-a-user"


    class Canary(Spider):
        name = "canary"
        handle_statuses = [418]

        def start(self):
            headers = {"Authorization": "Bearer " + self.authorization}
            for path in ("/", "/raises", "/prints", "/gone", "/closed", "/loop", "/teapot"):
                url = self.base.replace("://", "://user:" + self.password + "@") + path
                yield Request(url, headers=headers, cookies={"sid": self.cookie}, errback=self.failed)
            yield Request(self.base.replace("://", "://" + WHO + "@") + "/raises?as=token")

        def failed(self, failure):
            request = failure.request
            raise RuntimeError(f"{request} {request.headers} {request.cookies} {self.api_token}")

        def parse(self, response):
            logging.getLogger("own").warning("at %s with %s", response.request.url, response.request.headers)
            if "/raises" in response.url:
                request = response.request
                user = request.url.partition("@")[0]
                raise RuntimeError(f"{user} {request.url} {response.headers} {self.api_token}", request.headers)
            if response.url.endswith("/prints"):
                request = response.request
                raise ValueError(list(request.cookies.values()), request, response, list(request.headers.items()))
            yield {"url": response.url, "referrer": response.request.referrer, "status": response.status}
            yield response.links()
"""


def _site(site: Any) -> None:
    link = site.url("/deeper").replace("://", f"://u:{CANARIES['linked']}@")
    cookie = f"server={CANARIES['set_cookie']}; Path=/"
    site.page("/", f"<title>t</title><a href='/relative'>x</a><a href='{link}'>y</a>", set_cookie=cookie)
    for path in ("/raises", "/prints", "/relative", "/deeper"):
        site.page(path, "<title>t</title>", set_cookie=cookie)
    site.page("/gone", "", status=410, set_cookie=cookie)
    site.page("/teapot", "", status=418, set_cookie=cookie)
    site.on("/closed", lambda _seen, handler: handler.close())
    site.page("/loop", "", status=302, location="/loop")


def _searched(skitter: Any, outputs: list[str]) -> None:
    """Everything that was written, the store aside: it has to keep what is to be sent."""
    written = {f"command {place}": text for place, text in enumerate(outputs)}
    for file in skitter.folder.iterdir():
        if file.is_file() and file.suffix != ".py":
            written[file.name] = file.read_text()
    assert {"out.jsonl", "out.csv", "log.jsonl", "log.txt"} <= written.keys()
    for name, canary in CANARIES.items():
        forms = [
            canary,
            base64.b64encode(f"user:{canary}".encode()).decode(),
            base64.b64encode(canary.encode()).decode(),
        ]
        for place, text in written.items():
            for form in forms:
                assert form not in text, f"{name} in {place}:\n{text[max(0, text.find(form) - 300) :][:500]}"


def _drive(skitter: Any, site: Any, frontier: list[str]) -> None:
    _site(site)
    skitter.write("canary.py", SPIDER)
    arguments = [f"base={site.base}", f"password={CANARIES['password']}", f"authorization={CANARIES['header']}"]
    arguments += [f"cookie={CANARIES['cookie']}", f"api_token={CANARIES['argument']}"]
    job = [*frontier, "--job", "j"]
    crawl = ["crawl", "canary.py", *(word for argument in arguments for word in ("-a", argument)), *job]
    quick = ["--set", "max_attempts=2", "--set", "retry_delay_seconds=0.01"]
    outputs = []

    def run(*words: str) -> str:
        done = skitter.run(*words, code=None)
        outputs.extend((done.stdout, done.stderr))
        return str(done.stdout + done.stderr)

    run(
        *crawl,
        *quick,
        "-o",
        "out.jsonl",
        "-o",
        "out.csv",
        "-vv",
        "--log",
        "log.jsonl",
        "--log-format",
        "json",
        "--max-pages",
        "2",
    )
    run(*crawl, *quick, "-o", "out.jsonl", "-o", "out.csv", "-vv", "--log", "log.txt", "--log-format", "text")
    run("worker", *job, "-vv")
    assert site.url("/deeper") in (skitter.folder / "out.jsonl").read_text()
    assert "Traceback" in run("failed", *job, "-v")
    assert "***" in run("failed", *job, "--json")
    for command in ("failed", "status", "jobs"):
        words = frontier if command == "jobs" else job
        for form in ([], ["-v"], ["--json"]):
            run(command, *words, *form)
    secret = site.url("/raises").replace("://", f"://user:{CANARIES['password']}@")
    for form in ([], ["-v"], ["--json"]):
        run("why", secret, *job, *form)
        run("failed", "--url", secret, *job, *form)
        run("why", secret + "/never", *job, *form)
    # What was listed can be pasted, although it is masked.
    shown = site.url("/raises").replace("://", "://***@")
    assert "1 request queued again" in run("retry", shown, *job)
    run("retry", secret, *job, "--json")
    run("retry", secret + "/never", *job)
    run("add", secret + "/more", *job)
    run("add", "http://user:" + CANARIES["password"] + "@[", *job, "-v")
    # Mistyped: a slash or a colon is missing.
    run("status", "--frontier", f"redis:/:{CANARIES['frontier']}@h", "--job", "j", "-v")
    run("crawl", "http://h/", "-o", f"postgres:u:{CANARIES['password']}@h/db#t", "-v")
    run("crawl", "http://h/", "--set", f"proxy=http//u:{CANARIES['proxy']}@h", "-v")
    run("crawl", f"http:/u:{CANARIES['password']}@h/", "-v")
    # The command that is told to go on with holds arguments.
    run(*crawl, "--fresh", "--max-pages", "1")
    # The site as its own proxy: it knows no page by a whole URL, so all of them fail.
    proxy = site.base.replace("://", f"://user:{CANARIES['proxy']}@")
    through = ["--fresh", "--set", f"proxy={proxy}", "-vv", "--log", "log.jsonl", "--log-format", "json"]
    run(*crawl, *quick, *through)
    run(*crawl, *through[:2], f"proxy=ftp://user:{CANARIES['proxy']}@h/", "-v")
    run("failed", *job, "-v")
    run(*crawl, "--set", f"user_agent=http://x:{CANARIES['password']}@y", "--set", "nosuch=1", "-v")
    basic = base64.b64encode(f"user:{CANARIES['proxy']}".encode()).decode()
    assert any(seen.headers.get("proxy-authorization") == f"Basic {basic}" for seen in site.seen)
    sent = {seen.headers.get("authorization") for seen in site.seen}
    assert f"Bearer {CANARIES['header']}" in sent, "it never went out: nothing was tested"
    assert any(CANARIES["cookie"] in seen.headers.get("cookie", "") for seen in site.seen)
    _searched(skitter, outputs)


def test_secrets_are_nowhere_to_be_seen(skitter: Any, site: Any) -> None:
    _drive(skitter, site, [])


@pytest.mark.soak
def test_nor_those_of_the_store(skitter: Any, site: Any, own_redis: Any) -> None:
    server = own_redis("--requirepass", CANARIES["frontier"])
    _drive(skitter, site, ["--frontier", server.url.replace("://", f"://:{CANARIES['frontier']}@")])


def test_the_built_in_spider_stores_urls_without_passwords(skitter: Any, site: Any) -> None:
    site.page("/", "<title>t</title><a href='/x'>x</a>")
    site.page("/x", "<title>x</title>")
    seed = site.url("/").replace("://", f"://user:{CANARIES['password']}@")
    done = skitter.run("crawl", seed, "-o", "out.jsonl", "--job", "j", "-vv")
    assert [(record["url"], record["referrer"]) for record in skitter.lines("out.jsonl")] == [
        (site.url("/"), None),
        (site.url("/x"), site.url("/")),
    ]
    basic = "Basic " + base64.b64encode(f"user:{CANARIES['password']}".encode()).decode()
    assert [seen.headers.get("authorization") for seen in site.seen if seen.path == "/x"] == [basic]
    everything = done.stdout + done.stderr + (skitter.folder / "out.jsonl").read_text()
    assert CANARIES["password"] not in everything
    assert basic not in everything


REDIRECTED = """
    from skitter import Request, Spider

    class Redirected(Spider):
        name = "redirected"

        def start(self):
            names = ["Authorization", "X-Api-Key", "X-Auth-Token", "X-Goog-Api-Key", "Private-Token", "X-Session-Id"]
            headers = dict.fromkeys(names, "canary-in-a-header") | {"X-Mine": "yes", "Referer": self.base + "/canary"}
            url = self.base.replace("://", "://canary-user:canary-word@")
            for path in ("/here", "/there"):
                form = {"method": "POST", "body": b"q=1", "cookies": {"sid": "canary-in-a-cookie"}}
                yield Request(url + path, headers=headers, meta={"own": "canary-in-meta"}, **form)

        def parse(self, response):
            yield {"url": response.url}
"""


def test_credentials_follow_a_redirect_on_their_own_host_only(skitter: Any, make_site: Any) -> None:
    ours, theirs = make_site(), make_site()
    # Cookies know hosts and no ports.
    theirs.base = theirs.base.replace("127.0.0.1", "localhost")
    ours.page("/here", status=307, location="/landed")
    ours.page("/there", status=307, location=theirs.url("/landed"), set_cookie="server=canary-of-the-server")
    # A robots.txt may be elsewhere too.
    ours.page("/robots.txt", status=302, location=theirs.url("/robots.txt"))
    for site in (ours, theirs):
        site.page("/landed", "<title>t</title>")
    skitter.write("redirected.py", REDIRECTED)
    skitter.run("crawl", "redirected.py", "-a", f"base={ours.base}", "-o", "out.jsonl", "--allow-private")
    assert {record["url"] for record in skitter.lines("out.jsonl")} == {ours.url("/landed"), theirs.url("/landed")}
    (kept,) = [seen for seen in ours.seen if seen.path == "/landed"]
    assert [kept.headers.get(name) for name in ("x-api-key", "private-token")] == ["canary-in-a-header"] * 2
    assert "canary-in-a-cookie" in kept.headers["cookie"]
    (landed,) = [seen for seen in theirs.seen if seen.path == "/landed"]
    assert (landed.method, landed.body, landed.headers["x-mine"]) == ("POST", b"q=1", "yes")
    assert landed.headers["referer"] == ours.url("/")
    basic = base64.b64encode(b"canary-user:canary-word").decode()
    assert [seen.path for seen in theirs.seen if "canary" in str(seen) or basic in str(seen)] == []
    assert any(seen.path == "/robots.txt" for seen in theirs.seen)
