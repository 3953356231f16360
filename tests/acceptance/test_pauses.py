"""A pause that a host asks for is the host's: for every worker, and for whoever comes after a kill."""

from __future__ import annotations

import os
import signal
import time
from email.utils import formatdate

import pytest

from rig.processes import children
from skitter.testing.web import WebSpec, served

PAUSE_SECONDS = 4
IN_FLIGHT = 4
"""So many requests, of two workers with two slots each, may be on their way when the host says stop."""


def asctime(at: float) -> str:
    return time.asctime(time.gmtime(at))


def rfc850(at: float) -> str:
    return time.strftime("%A, %d-%b-%y %H:%M:%S GMT", time.gmtime(at))


def headers_of(form: str) -> dict[str, str]:
    """A pause of four seconds, said in different ways; where nothing is said, the setting counts."""
    now = time.time()
    if form == "seconds":
        return {"Retry-After": str(PAUSE_SECONDS)}
    if form == "a date":
        # Of whole seconds, and up to one less than it says.
        return {"Retry-After": formatdate(now + PAUSE_SECONDS + 1, usegmt=True)}
    if form == "a date of a clock that is an hour late":
        return {"Retry-After": rfc850(now - 3600 + PAUSE_SECONDS), "Date": formatdate(now - 3600, usegmt=True)}
    if form == "a date of a clock that is an hour early":
        return {"Retry-After": asctime(now + 3600 + PAUSE_SECONDS), "Date": formatdate(now + 3600, usegmt=True)}
    return {"Retry-After": form} if form else {}


@pytest.mark.parametrize(
    ("frontier", "status", "form"),
    [
        ("sqlite", 429, "seconds"),
        ("sqlite", 503, "a date of a clock that is an hour late"),
        ("sqlite", 503, ""),
        ("redis", 429, "a date of a clock that is an hour early"),
    ],
)
def test_a_pause_outlives_a_worker_and_the_whole_crawl(skitter, site, until, services, frontier, status, form) -> None:
    asked: list[float] = []

    def busy(seen, _handler):
        asked.append(seen.at)
        return (200, {}, b"here") if len(asked) > 1 else (status, headers_of(form), b"")

    site.on("/busy", busy)
    for number in range(40):
        site.page(f"/{number}", "page")
    where = ("--frontier", services.need("redis")["url"]) if frontier == "redis" else ()
    job = (*where, "--job", f"pause-{os.getpid()}-{time.monotonic_ns()}" if where else "j")
    urls = [site.url("/0"), site.url("/busy"), *(site.url(f"/{number}") for number in range(1, 40))]
    settings = ("--set", f"host_backoff_seconds={PAUSE_SECONDS}", "--delay", "0.05", "--concurrency", 2)
    command = ("crawl", *urls, *job, *settings, "--workers", 2, "--ignore-robots")
    process = skitter.start(*command)
    until(lambda: asked, process)
    # It is in the store, and one of two workers dies; its supervisor starts another.
    until(lambda: any(host["blocked_seconds"] for host in skitter.json("status", *job)["hosts"]), process)
    victim = children(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in children(process.pid) and len(children(process.pid)) == 2, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    summary = skitter.json(*command)
    assert (summary["pages"], summary["failed"]) == (41, 0)
    said, later = asked[0], sorted(seen.at for seen in site.seen if seen.at > asked[0])
    too_early = [at - said for at in later if at - said < PAUSE_SECONDS - 0.05]
    assert len(too_early) < IN_FLIGHT, "the pause has room for eighty pages"
    assert any(at - said >= PAUSE_SECONDS - 0.05 for at in later)


def test_the_delay_of_a_host_follows_its_latency(skitter, tmp_path) -> None:
    """Whatever worker asks. Half a request in flight on average is one every two latencies."""
    latency = 0.2
    with served(WebSpec.plain(hosts=1, pages_per_host=8, latency_seconds=latency), tmp_path / "web.log") as web:
        summary = skitter.json("crawl", *web.urls, "--job", "j", "--workers", 2, "--set", "target_concurrency=0.5")
        times = [hit.at for hit in web.log() if hit.path != "/robots.txt"]
    assert summary["pages"] == 8
    # The second page follows the first at once: until then nothing was known. Which of two requests was held up on
    # its way is chance; all of them together were not.
    assert times[-1] - times[1] >= (len(times) - 3) * 2 * latency


def test_a_retry_after_that_names_no_pause_leaves_it_to_the_setting(skitter, make_site) -> None:
    asked: dict[tuple[int, str], list[float]] = {}
    urls = []
    for status in (429, 503):
        for form in ("0", "-7", "soon", "1.5", "Sun, 06 Nov 1994 08:49:37 GMT"):
            site, times = make_site(), asked.setdefault((status, form), [])

            def busy(seen, _handler, status=status, form=form, times=times):
                times.append(seen.at)
                return (200, {}, b"here") if len(times) > 1 else (status, headers_of(form), b"")

            site.on("/busy", busy)
            urls.append(site.url("/busy"))
    settings = ("--set", "host_backoff_seconds=1", "--set", "max_attempts=1", "--ignore-robots")
    summary = skitter.json("crawl", *urls, "--job", "j", *settings)
    assert (summary["pages"], summary["failed"]) == (len(urls), 0), "a block is no failed attempt"
    assert [key for key, (first, second) in asked.items() if second - first < 0.95] == []
