"""Damaged files, full disks and servers that misbehave: a clear error with a hint, and nothing is lost."""

from __future__ import annotations

import gzip
import json
import subprocess
import time
from collections import Counter
from email.utils import formatdate
from pathlib import Path

import pytest

from rig.processes import wait_until
from rig.web_faults import endless, stalled
from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.1")
URL = "http://127.0.0.1:9/"
"""Nobody listens there; a command with a mistake does not get that far."""


def complaint(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """The last error and its hint: the two lines every failure ends with."""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    assert errors, done.stderr
    error, hint = lines[errors[-1]], lines[errors[-1] + 1]
    assert hint.startswith("hint: "), done.stderr
    return error, hint


# ---- files


def test_a_damaged_page_in_the_middle_of_a_frontier_is_said(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=400)) as web:
        skitter.run("crawl", web.urls[0], "--job", "j", "--max-pages", 200)
        file = skitter.folder / ".skitter" / "j.db"
        whole = file.read_bytes()
        file.write_bytes(whole[:8192] + b"\x5a" * (len(whole) - 8192))
        done = skitter.run("crawl", web.urls[0], "--job", "j", code=3)
    assert "damaged" in complaint(done)[0]


# ---- full disks


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system that soon is full, and how to make it larger."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mount(options: str) -> subprocess.CompletedProcess[str]:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    mounted = mount("size=768k")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield lambda: mount("remount,size=64m")
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    ("frontier", "target"),
    [
        ("small/j.db", "out.jsonl"),
        ("j.db", "small/out.jsonl"),
        ("small/j.db", "small/o.json"),
    ],
)
def test_a_full_disk_loses_nothing(skitter, small_disk, frontier, target) -> None:
    """More pages than the disk holds; and titles that make their records long."""
    skitter.write(
        "long.py",
        """
        from skitter import Spider

        class Long(Spider):
            name = "long"
            def __init__(self, base):
                self.start_urls = [base]
            def parse(self, response):
                yield {"url": response.url, "text": response.text[:1000]}
                yield from response.follow_all(css="a")
        """,
    )
    with served(WebSpec.plain(hosts=1, pages_per_host=1000)) as web:
        command = ("crawl", "long.py", "-a", f"base={web.urls[0]}", "-o", target, "--frontier", f"sqlite:{frontier}")
        full = skitter.run(*command, "--per-host", 32, code=3)
        error, hint = complaint(full)
        assert "the disk is full" in error
        assert "small/" in error
        assert "nothing is lost" in hint
        again = skitter.run(*command, code=3)
        assert "the disk is full" in complaint(again)[0]
        assert small_disk().returncode == 0
        summary = skitter.json(*command, "--per-host", 32)
    assert (summary["state"], summary["pages"], summary["items"]) == ("finished", 1000, 1000)
    text = (skitter.folder / target).read_text()
    records = json.loads(text) if target.endswith(".json") else skitter.lines(target)
    assert set(Counter(record["url"] for record in records).values()) == {1}
    assert len(records) == 1000


# ---- servers


def test_a_server_that_is_away_is_named_and_can_be_tried_again(skitter, make_site) -> None:
    site = make_site()
    site.close()
    told = skitter.run("crawl", site.url("/x"), "--job", "j", "-o", "out.jsonl", *QUICK, code=1)
    unreachable = f"{site.url('/x')} could not be reached: connection refused"
    assert complaint(told)[0] == f"error: no page was done: {unreachable}"
    assert "skitter failed" in complaint(told)[1]
    (failed,) = skitter.records("failed", "--job", "j")
    assert (failed["url"], failed["error_class"]) == (site.url("/x"), "connect")
    why = skitter.run("why", site.url("/x"), "--job", "j").stdout
    assert "connect" in why
    assert "skitter retry" in why


def test_robots_txt_that_cannot_be_read_holds_the_host_back(skitter, site) -> None:
    site.page("/", "home")
    site.page("/robots.txt", status=500)
    summary = skitter.json("crawl", site.url(), "--job", "j", "-o", "out.jsonl", *QUICK, code=1)
    assert (summary["failed"], summary["errors"]) == (1, {"http_5xx": 1})
    assert site.paths() == [], "without robots.txt nothing is fetched"
    assert "robots.txt" in skitter.records("failed", "--job", "j")[0]["error"]
    site.page("/robots.txt", "User-agent: *\nDisallow: /secret\n", content_type="text/plain")
    assert "1 request queued again" in skitter.run("retry", "--job", "j").stdout
    again = skitter.json("crawl", site.url(), "--job", "j", "-o", "out.jsonl", *QUICK)
    assert (again["pages"], again["failed"]) == (1, 0)
    assert len(skitter.lines("out.jsonl")) == 1


def test_robots_txt_is_obeyed_unless_told_otherwise(skitter, site) -> None:
    site.page("/robots.txt", "User-agent: skitter\nDisallow: /secret\n", content_type="text/plain")
    site.page("/", '<a href="/secret/x">s</a><a href="/open">o</a>')
    site.page("/secret/x", "secret")
    site.page("/open", "open")
    summary = skitter.json("crawl", site.url(), "--job", "j")
    assert (summary["pages"], summary["excluded"]) == (2, 1)
    assert "/secret/x" not in site.paths()
    why = skitter.json("why", site.url("/secret/x"), "--job", "j")
    assert (why["state"], why["error_class"]) == ("excluded", "robots")
    assert "by robots.txt line 2: Disallow: /secret (group: skitter)" in why["reasons"][0]
    unseen = skitter.json("why", site.url("/secret/other"), "--job", "j")
    assert unseen["state"] == "unseen"
    assert "excluded by robots.txt line 2: Disallow: /secret (group: skitter)" in unseen["reasons"][0]
    assert skitter.json("crawl", site.url(), "--job", "j", "--ignore-robots")["pages"] == 3
    assert "/secret/x" in site.paths()


FOLLOWER = """
    from skitter import Spider

    class Follower(Spider):
        name = "follower"
        def __init__(self, base):
            self.start_urls = [base]
        def parse(self, response):
            yield {"url": response.url}
            yield from response.follow_all(css="a")
    """


def test_a_found_link_does_not_lead_into_the_private_network(skitter, make_site) -> None:
    home, canary = make_site(), make_site()
    canary.page("/", "canary")
    home.page("/", f'<a href="{canary.url()}">c</a><a href="/hop">h</a>')
    home.page("/hop", status=302, location=canary.url("/?hop"))
    skitter.write("follower.py", FOLLOWER)
    command = ("crawl", "follower.py", "-a", f"base={home.url()}", "--job", "j")
    summary = skitter.json(*command)
    assert (summary["pages"], summary["excluded"], summary["failed"]) == (1, 2, 0)
    assert canary.seen == [], "not even its robots.txt"
    why = skitter.json("why", canary.url(), "--job", "j")
    assert (why["state"], why["error_class"]) == ("excluded", "guard")
    assert "--allow-private" in why["reasons"][0]
    # The built-in spider does not leave its seeds' hosts, whatever is allowed.
    assert skitter.json("crawl", home.url(), "--allow-private")["pages"] == 1
    assert canary.seen == []
    assert skitter.json(*command, "--allow-private")["pages"] == 3
    assert sorted(canary.paths()) == ["/", "/?hop"]


def test_redirects_end_where_they_should(skitter, make_site) -> None:
    site, other = make_site(), make_site()
    site.page("/", "".join(f'<a href="/{name}">x</a>' for name in ("loop1", "long0", "bad", "nowhere", "other", "one")))
    site.page("/loop1", status=302, location="/loop2")
    site.page("/loop2", status=302, location="/loop1")
    for hop in range(20):
        site.page(f"/long{hop}", status=301, location=f"/long{hop + 1}")
    site.page("/bad", status=302, location="ftp://example.com/")
    site.page("/nowhere", status=302)
    site.page("/other", status=307, location=other.url("/x"))
    site.page("/one", status=308, location="/target")
    site.page("/target", "<title>target</title>")
    summary = skitter.json("crawl", site.url(), "-o", "out.jsonl", "--job", "j")
    assert sorted(record["url"] for record in skitter.lines("out.jsonl")) == [site.url(), site.url("/target")]
    failed = {
        record["url"]: record["error"] for record in skitter.records("failed", "--job", "j", "--class", "redirect")
    }
    assert summary["errors"] == {"redirect": len(failed)}
    assert "ftp://example.com/" in failed[site.url("/bad")]
    assert "more than 10 redirects" in failed[site.url("/long10")]
    assert any("redirect loop" in error for url, error in failed.items() if "loop" in url)
    assert site.url("/nowhere") in failed
    assert "/long11" not in site.paths()
    assert other.seen == [], "the seeds' hosts are the scope"


def test_a_seed_that_redirects_takes_its_scope_along(skitter, make_site) -> None:
    old, new = make_site(), make_site()
    old.page("/", status=301, location=new.url("/home"))
    new.page("/home", '<a href="/more">more</a>')
    new.page("/more", "more")
    summary = skitter.json("crawl", old.url(), "-o", "out.jsonl")
    assert (summary["pages"], summary["redirected"]) == (2, 1)


def test_a_redirected_post_becomes_a_get_as_browsers_have_it(skitter, site) -> None:
    for status in (302, 303, 307):
        site.page(f"/{status}", status=status, location=f"/after{status}")
        site.page(f"/after{status}", "after")
    skitter.write(
        "poster.py",
        """
        from skitter import Request, Spider

        class Poster(Spider):
            name = "poster"
            def start(self):
                for status in (302, 303, 307):
                    yield Request(f"{self.base}/{status}", method="POST", body=b"q=1", meta={"status": status})
            def parse(self, response):
                yield {"status": response.meta["status"], "chain": response.request.chain}
        """,
    )
    skitter.run("crawl", "poster.py", "-a", f"base={site.base}", "-o", "out.jsonl")
    seen = {each.path: (each.method, each.body) for each in site.seen if each.path != "/robots.txt"}
    assert seen["/302"] == ("POST", b"q=1")
    assert seen["/after302"] == seen["/after303"] == ("GET", b"")
    assert seen["/after307"] == ("POST", b"q=1")
    chains = {record["status"]: record["chain"] for record in skitter.lines("out.jsonl")}
    assert chains == {status: [site.url(f"/{status}")] for status in (302, 303, 307)}


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_obeyed_by_the_whole_host(skitter, site, form) -> None:
    ends_at: list[float] = []
    asked: dict[str, float] = {}

    def busy(_seen, _connection):
        if ends_at:
            asked["/busy"] = time.time()
            return 200, {}, b"here"
        # A date has whole seconds.
        ends_at.append(time.time() + 2.0 if form == "seconds" else int(time.time()) + 3.0)
        value = "2" if form == "seconds" else formatdate(ends_at[0], usegmt=True)
        return 503 if form == "seconds" else 429, {"Retry-After": value}, b""

    def other(_seen, _connection):
        asked["/other"] = time.time()
        return 200, {}, b"other"

    def links(_seen, _connection):
        # Answered when the pause is in the store: the other worker finds the next page in the middle of it, or later.
        log = skitter.folder / "log"
        wait_until(lambda: log.exists() and "host.backoff" in log.read_text(), what="the pause of the host")
        return 200, {"Content-Type": "text/html"}, b'<a href="/other">o</a>'

    site.on("/busy", busy)
    site.on("/", links)
    site.on("/other", other)
    command = ("crawl", site.url("/busy"), site.url("/"), "--job", "j", "--concurrency", 1, "--workers", 2)
    summary = skitter.json(*command, "--set", "max_attempts=1", "--log", "log")
    assert (summary["pages"], summary["failed"]) == (3, 0), "a pause that was asked for is no failed attempt"
    # The clocks of two processes are read.
    assert asked.keys() == {"/busy", "/other"}
    assert min(asked.values()) >= ends_at[0] - 0.05, "the pause is the host's"


def test_bodies_without_end_bombs_and_slow_servers_are_given_up(skitter, site) -> None:
    bomb = gzip.compress(b"\0" * 100_000_000, 6)
    site.page("/bomb", bomb, content_encoding="gzip")
    site.on("/endless", endless(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"<p>more</p>"))
    site.on("/slow", stalled(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"))
    site.page("/huge", b"x" * 3_000_000)
    site.page("/good", "good")
    skitter.write(
        "brave.py",
        """
        import resource
        from skitter import Request, Spider

        class Brave(Spider):
            name = "brave"
            def start(self):
                for path in ("bomb", "endless", "huge", "slow"):
                    yield Request(f"{self.base}/{path}")
                yield Request(f"{self.base}/good", priority=-1)
            def parse(self, response):
                yield {"peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
        """,
    )
    limits = ("--set", "max_body_bytes=2000000", "--set", "timeout_seconds=1", "--set", "max_attempts=1")
    summary = skitter.json(
        *("crawl", "brave.py", "-a", f"base={site.base}", "-o", "out.jsonl", "--concurrency", 1), *limits
    )
    assert summary["pages"] == 1
    classes = {
        record["url"].rpartition("/")[2]: record["error_class"]
        for record in skitter.records("failed", "--job", "brave")
    }
    assert classes == {"bomb": "too_large", "endless": "too_large", "huge": "too_large", "slow": "timeout"}
    assert skitter.lines("out.jsonl")[0]["peak_kb"] < 120_000


def test_a_certificate_that_nobody_vouches_for_is_refused(skitter, make_site) -> None:
    site = make_site(tls=True)
    site.page("/", "home")
    summary = skitter.json("crawl", site.url(), "--job", "j", "--set", "max_attempts=1", *QUICK, code=1)
    assert summary["errors"] == {"tls": 1}
    assert "certificate" in skitter.records("failed", "--job", "j")[0]["error"]
    assert skitter.json("crawl", site.url(), "--job", "j", "--set", "verify_tls=false")["pages"] == 1


def test_links_that_are_not_pages_are_skipped_and_counted(skitter, site) -> None:
    hrefs = ["javascript:void(0)", "mailto:a@b.c", "tel:123", "data:text/html,x", "http://[", "x" * 5000, "#top", "/a"]
    site.page("/", "".join(f'<a href="{href}">x</a>' for href in hrefs))
    site.page("/a", "a")
    summary = skitter.json("crawl", site.url(), "--job", "j")
    assert (summary["pages"], summary["failed"], summary["excluded"]) == (2, 0, 0)
    tally = skitter.json("status", "--job", "j")["tally"]
    skipped = {name.partition(":")[2]: count for name, count in tally.items() if name.startswith("skipped:")}
    assert skipped == {"scheme": 4, "unparsable": 1, "too_long": 1}
