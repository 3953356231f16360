"""Every command on running, stopped and finished jobs: what it says, what it does, and its exit code."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.web import ServedWeb, WebSpec, served

SUMMARY = set("job state pages items redirected failed excluded duplicates bytes seconds pages_per_second".split())
STATUS = set(
    "job state run queued delayed leased done redirected failed excluded seen undelivered exact workers".split()
)
JOB = ("--frontier", "sqlite:.skitter/j.db", "--job", "j")


PAGES = 150


@pytest.fixture
def slow(request, tmp_path) -> Iterator[ServedWeb]:
    """Slow enough to be met while it is crawled: two pages at a time take 40 ms."""
    spec = WebSpec.plain(hosts=1, pages_per_host=getattr(request, "param", PAGES), latency_seconds=0.04)
    with served(spec, log_path=tmp_path / "hits.jsonl") as web:
        yield web


# For tests that must not see the end of it, however slow the machine is.
endless = pytest.mark.parametrize("slow", [3000], indirect=True)


@pytest.fixture
def running(skitter, slow, until):
    """A crawl of it, at work."""
    process = skitter.start("crawl", slow.urls[0], "-o", "out.jsonl", "--job", "j", "--per-host", 2)
    until(lambda: count_lines(skitter) > 4, process)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def paused(skitter, running):
    """The same, so that nothing ends while a test looks elsewhere."""
    skitter.run("pause", *JOB)
    return running


def count_lines(skitter, name: str = "out.jsonl") -> int:
    path = skitter.folder / name
    return path.read_text().count("\n") if path.exists() else 0


def assert_complete(skitter, pages: int = PAGES, name: str = "out.jsonl") -> None:
    urls = Counter(record["url"] for record in skitter.lines(name))
    assert (len(urls), set(urls.values())) == (pages, {1})


def finish(process) -> str:
    _, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, error
    return error


# ---- a running job


@endless
def test_looking_at_a_running_job(skitter, slow, running) -> None:
    home = slow.urls[0]
    status = skitter.json("status", *JOB)
    assert status.keys() >= STATUS
    assert (status["job"], status["state"], status["run"], status["workers"]) == ("j", "running", 1, 1)
    parts = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
    assert sum(status[part] for part in parts) == status["seen"]
    text = skitter.run("status", *JOB).stdout
    assert "running" in text
    assert skitter.json("why", home, *JOB)["state"] == "done"
    unseen = skitter.json("why", home + "nowhere", *JOB)
    assert unseen["state"] == "unseen"
    assert "may still be found" in " ".join(unseen["reasons"])
    assert "outside the scope" in skitter.run("why", "http://elsewhere.example/", *JOB).stdout
    nothing = skitter.run("failed", *JOB)
    assert (nothing.stdout, nothing.stderr) == ("", "nothing failed\n")
    assert skitter.run("failed", *JOB, "--json").stdout == ""
    # Only one may write a file.
    busy = skitter.run("drain", "-o", "out.jsonl", *JOB, code=3)
    assert "in use by another process: out.jsonl" in busy.stderr


@pytest.mark.parametrize("slow", [600], indirect=True)
def test_pause_resume_stop_and_going_on(skitter, slow, running, until) -> None:
    assert skitter.run("pause", *JOB).stdout == "j: paused\n"
    assert skitter.json("pause", *JOB)["state"] == "paused", "telling it twice changes nothing"
    until(lambda: skitter.json("status", *JOB)["leased"] == 0)
    paused_at = skitter.json("status", *JOB)["done"]
    assert running.poll() is None, "a paused crawl waits"
    # A crawl of a paused job waits with it.
    second = skitter.start("crawl", slow.urls[0], "-o", "out.jsonl", "--job", "j")
    until(lambda: skitter.json("status", *JOB)["workers"] == 2, second)
    status = skitter.json("status", *JOB)
    assert (status["state"], status["done"]) == ("paused", paused_at)
    assert skitter.run("resume", *JOB).stdout == "j: running\n"
    until(lambda: count_lines(skitter) > paused_at, running)
    stopped = skitter.json("stop", *JOB)
    assert stopped["state"] in ("draining", "stopped")
    assert "to resume: skitter crawl" in finish(running)
    finish(second)
    status = skitter.json("status", *JOB)
    assert (status["state"], status["reason"], status["leased"]) == ("stopped", "command", 0)
    assert status["workers"] == status["undelivered"] == 0
    assert count_lines(skitter) == status["done"] < 600
    # What is queued waits; `crawl` goes on from there.
    assert skitter.run("resume", *JOB).stdout == "j: running\n"
    assert skitter.json("stop", *JOB)["state"] == "stopped", "nothing is in flight"
    summary = skitter.json("crawl", slow.urls[0], "-o", "out.jsonl", "--job", "j", "--per-host", 64)
    assert summary.keys() >= SUMMARY
    assert (summary["state"], summary["pages"], summary["run"], summary["begun"]) == ("finished", 600, 1, "resumed")
    assert_complete(skitter, 600)
    assert set(Counter(hit.path for hit in slow.log()).values()) == {1}, "nothing was fetched twice"


def test_a_second_crawl_joins_and_leaves_the_settings_alone(skitter, slow, paused, until) -> None:
    other = skitter.run("crawl", slow.urls[0] + "p/1", "--job", "j", code=2)
    assert "error: job j is unfinished and has another spider, other seeds or other arguments" in other.stderr
    assert "hint: fresh=True (--fresh)" in other.stderr
    fresh = skitter.run("crawl", slow.urls[0], "--job", "j", "--fresh", code=2)
    assert "workers are running" in fresh.stderr
    assert "hint: stop them first" in fresh.stderr
    # Its own -o would be a second writer of the same file, and its own --per-host another politeness.
    second = skitter.start("crawl", slow.urls[0], "-o", "out.jsonl", "--job", "j", "--per-host", 50, "--json")
    until(lambda: skitter.json("status", *JOB)["workers"] == 2, second)
    skitter.run("resume", *JOB)
    out, error = second.communicate(timeout=HANG_SECONDS)
    assert second.returncode == 0, error
    assert "per_host=50" in error
    assert json.loads(out)["begun"] == "joined"
    assert finish(paused).startswith("job j, frontier sqlite:.skitter/j.db")
    assert_complete(skitter)
    assert max(hit.in_flight for hit in slow.log()) == 2


def test_add_from_arguments_a_file_and_a_pipe(skitter, slow, paused) -> None:
    home = slow.urls[0]
    added = skitter.json("add", home + "x1", home, "example.com", *JOB)
    assert added == {"job": "j", "added": 1, "duplicates": 1, "known": 1, "bad": 1}
    skitter.write("urls.txt", f"# a comment\n{home}x2\n\nnot a url\n  {home}x3  \nmailto:a@b.c\n{home}x2\n")
    told = skitter.run("add", "--file", "urls.txt", *JOB)
    assert told.stdout == "j: 2 requests added, 1 duplicate\n"
    assert "bad URL: line 4: not an absolute URL: not a url" in told.stderr
    assert "bad URL: line 6" in told.stderr
    (skitter.folder / "pipe").write_bytes(f"{home}x4\n\xff\xfe bad bytes\n".encode("latin-1"))
    with (skitter.folder / "pipe").open() as pipe:
        assert skitter.run("add", "--file", "-", *JOB, stdin=pipe).stdout == "j: 1 request added, 0 duplicates\n"
    hopeless = skitter.run("add", "nonsense", *JOB, code=2)
    assert "error: no valid URL to add" in hopeless.stderr
    missing = skitter.run("add", "--file", "no.txt", *JOB, code=2)
    assert "error: cannot be read: no.txt" in missing.stderr
    skitter.run("resume", *JOB)
    finish(paused)
    assert len(skitter.records("failed", *JOB)) == 4, "all that was added was fetched, and is a 404"


def test_a_worker_of_another_process_finishes_what_a_killed_crawl_began(skitter, slow, paused, until) -> None:
    worker = skitter.start("worker", *JOB, "--json")
    until(lambda: skitter.json("status", *JOB)["workers"] == 2, worker)
    before = count_lines(skitter)
    skitter.run("resume", *JOB)
    until(lambda: count_lines(skitter) > before, paused)
    os.killpg(paused.pid, signal.SIGKILL)
    paused.wait()
    out, error = worker.communicate(timeout=HANG_SECONDS)
    assert worker.returncode == 0, error
    summary = json.loads(out)
    assert summary.keys() >= SUMMARY
    assert (summary["state"], summary["pages"]) == ("finished", PAGES)
    status = skitter.json("status", *JOB)
    assert status["undelivered"] > 0
    # What was written and not yet recorded when it was killed is taken back, and comes again.
    assert status["undelivered"] >= PAGES - count_lines(skitter)
    drained = skitter.json("drain", "-o", "out.jsonl", *JOB)
    assert drained["delivered"] == status["undelivered"]
    assert_complete(skitter)
    assert skitter.json("drain", "-o", "out.jsonl", *JOB)["delivered"] == 0
    # All is delivered and finished: the next crawl is a new run.
    assert skitter.json("crawl", slow.urls[0], "-O", "out.jsonl", "--job", "j", "--per-host", 64)["run"] == 2
    assert_complete(skitter)


# ---- workers and jobs that are not there yet


def test_a_worker_that_stays_waits_for_its_job_and_for_more_work(skitter, site, until) -> None:
    site.page("/", "home")
    waiting = skitter.start("worker", *JOB, "--stay")
    until((skitter.folder / ".skitter" / "j.db").exists, waiting)
    skitter.run("status", *JOB, code=2)
    crawl = skitter.json("crawl", site.url(), "-o", "out.jsonl", "--job", "j")
    assert (crawl["state"], crawl["pages"]) == ("finished", 1)
    # It stays for more.
    until(lambda: skitter.json("status", *JOB)["workers"] == 1, waiting)
    site.page("/more", "more")
    skitter.run("add", site.url("/more"), *JOB)
    until(lambda: "/more" in site.paths(), waiting)
    until(lambda: skitter.json("status", *JOB)["state"] == "finished", waiting)
    waiting.send_signal(signal.SIGTERM)
    waiting.communicate(timeout=HANG_SECONDS)
    assert waiting.returncode == 143
    assert skitter.json("drain", "-o", "out.jsonl", *JOB)["delivered"] == 1
    assert len(skitter.lines("out.jsonl")) == 2


def test_a_worker_with_a_spider_of_its_own(skitter, site, until) -> None:
    site.page("/", "home")
    for number in range(40):
        site.page(f"/{number}", "page")
    text = """
        from skitter import Request, Spider

        class Pages(Spider):
            name = "pages"
            def start(self):
                return [Request(f"{self.base}/{number}") for number in range(40)]
            def parse(self, response):
                yield {"url": response.url}
        """
    skitter.write("pages.py", text)
    skitter.write("elsewhere/pages.py", text)
    skitter.write("other.py", text.replace("Pages", "Others"))
    command = ("crawl", "pages.py", "-a", f"base={site.base}", "-o", "out.jsonl", "--job", "j", "--delay", 0.03)
    crawl = skitter.start(*command)
    until(lambda: count_lines(skitter) > 0, crawl)
    wrong = skitter.run("worker", "other.py", *JOB, code=2)
    assert "error: job j has another spider: pages.py:Pages" in wrong.stderr
    refused = skitter.run("worker", *JOB, "--set", "delay_seconds=0", code=2)
    assert "applies to the whole job" in refused.stderr
    summary = skitter.json("worker", "elsewhere/pages.py", *JOB, "--concurrency", 2)
    assert summary["state"] == "finished"
    finish(crawl)
    assert_complete(skitter, 40)


# ---- a finished job


def test_commands_on_a_finished_job(skitter, site) -> None:
    site.page("/", '<a href="/a">a</a><a href="/gone">g</a><a href="/broken">b</a>')
    site.page("/a", "<title>A</title>")
    site.page("/broken", status=500)
    quick = ("--set", "max_attempts=1")
    crawl = ("crawl", site.url(), "-o", "out.jsonl", "--job", "j", *quick)
    first = skitter.run(*crawl)
    assert first.stdout == "", "words go to stderr"
    assert "to see what failed and why: skitter failed\n" in first.stderr
    told = skitter.run("pause", *JOB)
    assert told.stdout == "j: finished\n"
    assert "nothing to pause, resume or stop" in told.stderr
    # failed, why
    failed = {record["url"]: (record["error_class"], record["status"]) for record in skitter.records("failed", *JOB)}
    assert failed == {site.url("/gone"): ("http_4xx", 404), site.url("/broken"): ("http_5xx", 500)}
    listed = skitter.run("failed", *JOB)
    assert "http_4xx 404" in listed.stdout
    assert f"found on {site.url()}" in listed.stdout
    assert "skitter retry" in listed.stderr
    assert site.url("/gone") not in skitter.run("failed", *JOB, "--class", "http_5xx").stdout
    assert "1 more" in skitter.run("failed", *JOB, "--limit", 1).stderr
    why = skitter.run("why", site.url("/gone"), *JOB).stdout
    assert "failed" in why.splitlines()[0]
    assert "skitter retry" in why
    # retry: one, a class, all
    nothing = skitter.run("retry", site.url("/a"), *JOB, code=2)
    assert "error: no failed request with this URL" in nothing.stderr
    site.page("/gone", "back again")
    assert skitter.json("retry", site.url("/gone"), *JOB) == {"job": "j", "state": "running", "retried": 1}
    assert skitter.json("status", *JOB)["queued"] == 1
    # A worker takes it up; who delivers is another matter.
    assert skitter.json("worker", *JOB)["pages"] == 3
    assert skitter.json("status", *JOB)["undelivered"] == 1
    site.page("/broken", "mended")
    assert skitter.json("retry", *JOB)["retried"] == 1
    again = skitter.json(*crawl)
    assert (again["run"], again["pages"], again["failed"], again["undelivered"]) == (1, 4, 0, 0)
    assert_complete(skitter, 4)
    # add reopens it too.
    site.page("/new", "new")
    added = skitter.run("add", site.url("/new"), *JOB)
    assert "no worker is running" in added.stderr
    assert skitter.json(*crawl)["run"] == 1
    assert_complete(skitter, 5)


@endless
def test_fresh_forgets_an_unfinished_run(skitter, slow, running) -> None:
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert count_lines(skitter) > 0
    fresh = ("crawl", slow.urls[0] + "p/7", "-O", "out.jsonl", "--job", "j", "--fresh", "--max-depth", 0)
    summary = skitter.json(*fresh)
    assert (summary["pages"], summary["run"], summary["begun"]) == (1, 2, "rerun")
    assert [record["url"] for record in skitter.lines("out.jsonl")] == [slow.urls[0] + "p/7"]


def test_stdout_carries_data_and_nothing_else(skitter, site) -> None:
    site.page("/", '<a href="/a">a</a>')
    site.page("/a", "a")
    items = skitter.run("crawl", site.url(), "-o", "-", "--job", "j", "-v")
    assert {json.loads(line)["url"] for line in items.stdout.splitlines()} == {site.url(), site.url("/a")}
    assert skitter.run("crawl", site.url(), "--job", "j", "-q").stderr == ""
    for command in (["status"], ["why", site.url()], ["retry"], ["crawl", site.url()], ["worker"]):
        answer = skitter.run(*command, "--job", "j", "--json")
        assert isinstance(json.loads(answer.stdout), dict)
        assert answer.stdout.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error(skitter) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=300)) as web:
        process = skitter.start("crawl", web.urls[0], "-o", "-", "--job", "j", "-q")
        assert process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        process.wait(HANG_SECONDS)
        process.stderr.close()
        assert "Traceback" not in error
        # Nothing of the job is lost: it goes on into a file.
        summary = skitter.json("crawl", web.urls[0], "-o", "out.jsonl", "--job", "j")
        assert (summary["state"], summary["pages"]) == ("finished", 300)


def test_several_outputs_and_the_only_job_by_default(skitter, site) -> None:
    site.page("/", "<title>t</title>")
    skitter.run("crawl", site.url(), "-o", "a.jsonl", "-o", "b.json", "-o", "c.csv", "-q")
    assert len(skitter.lines("a.jsonl")) == len(json.loads((skitter.folder / "b.json").read_text())) == 1
    assert (skitter.folder / "c.csv").read_text().count("\n") == 2
    status = skitter.json("status")
    assert status["job"] == site.base.partition("//")[2].replace(":", "-")
    skitter.run("crawl", site.url(), "--job", "two", "-q")
    assert "hint: name it: skitter status JOB; here: " in skitter.run("status", code=2).stderr
