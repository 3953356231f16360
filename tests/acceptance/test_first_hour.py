"""What a newcomer meets in the first hour: it says what happened, why, and what to do, in one form."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]

SPIDER = """
    import logging

    from skitter import Spider

    log = logging.getLogger(__name__)
    print("printed at import")


    class Shop(Spider):
        name = "shop"

        def __init__(self, **arguments):
            super().__init__(**arguments)
            self.start_urls = [self.base + "/"]
            print("printed in __init__")

        def parse(self, response):
            self.logger.info("saw %s", response.url)
            log.debug("looked at %s", response.url)
            logging.getLogger("chatty").debug("bytes: %d", len(response.body))
            if "price" in response.url:
                {}["price"]
            if "value" in response.url:
                raise ValueError("no value")
            yield {"url": response.url}
            yield from response.follow_all(css="a")
"""


@pytest.fixture
def shop(skitter: Any, site: Any) -> tuple[str, ...]:
    """A spider that fails on three pages in two ways, and the words that crawl with it."""
    paths = ["/price1", "/price2", "/value", "/fine"]
    site.page("/", "".join(f"<a href='{path}'>" for path in paths))
    for path in paths:
        site.page(path, "page")
    skitter.write("shop.py", SPIDER)
    return ("crawl", "shop.py", "-a", f"base={site.base}")


# ---- one form


def test_everything_on_a_pipe_is_text_unless_json_is_asked_for(skitter: Any, shop: Any) -> None:
    text = skitter.run(*shop).stderr
    assert not [line for line in text.splitlines() if line.startswith("{")]
    assert "job.begun: run 1 is new" in text
    assert "finished: 2 pages" in text


def test_with_json_every_line_is_json_from_the_first_note_to_the_summary(skitter: Any, site: Any) -> None:
    site.page("/", "page")
    told = skitter.run("crawl", site.url(), "--log-format", "json").stderr
    records = [json.loads(line) for line in told.splitlines()]
    assert [record["event"] for record in records] == [
        *("command.note", "job.begun", "job.no_output", "worker.joined", "worker.left", "job.state"),
        *("job.summary", "command.note"),
    ]
    (summary,) = [record["summary"] for record in records if record["event"] == "job.summary"]
    assert (summary["pages"], summary["outputs"]) == (1, [])


def test_with_json_what_a_spider_prints_is_json_too(skitter: Any, site: Any) -> None:
    site.page("/", "page")
    skitter.write(
        "chatty.py",
        """
        import sys

        from skitter import Request, Spider

        class Chatty(Spider):
            name = "chatty"

            def start(self):
                yield Request(self.base)

            def parse(self, response):
                print("one\\ntwo")
                sys.stderr.write("unfinished")
        """,
    )
    told = skitter.run("crawl", "chatty.py", "-a", f"base={site.url()}", "--log-format", "json").stderr
    records = [json.loads(line) for line in told.splitlines()]
    printed = [(record["level"], record["text"]) for record in records if record.get("logger") == "print"]
    assert printed == [("info", "one"), ("info", "two"), ("info", "unfinished")]


def test_with_json_an_error_is_json_too(skitter: Any, site: Any) -> None:
    site.page("/", "page", status=404)
    told = skitter.run("crawl", site.url(), "--log-format", "json", code=1).stderr
    last = json.loads(told.splitlines()[-1])
    assert (last["event"], last["exit_code"]) == ("command.failed", 1)
    assert "no page was done" in last["error"]
    # One that is raised, and not told by the command itself.
    unavailable = ("--frontier", "redis://127.0.0.1:1", "--job", "unavailable", "--log-format", "json")
    other = skitter.run("crawl", site.url(), *unavailable, code=3).stderr
    (*_, failed) = [json.loads(line) for line in other.splitlines()]
    assert (failed["event"], failed["exit_code"]) == ("command.failed", 3)
    assert failed["hint"]


# ---- what a spider says, and how it fails


def test_what_a_spider_logs_is_shown_and_log_level_counts_for_its_modules(skitter: Any, shop: Any) -> None:
    usual = skitter.run(*shop).stderr
    assert "info    skitter.spider.shop: saw http://" in usual
    assert "looked at" not in usual
    debug = skitter.run(*shop, "--set", "log_level=debug").stderr
    assert re.search(r"debug   _skitter_spider_shop_\w+: looked at http://", debug)
    assert "debug   chatty: bytes: 4" in debug
    assert "saw http://" not in skitter.run(*shop, "--set", "log_level=warning").stderr


def test_the_first_traceback_of_each_kind_is_printed_with_its_url_and_the_rest_are_counted(
    skitter: Any, shop: Any
) -> None:
    told = skitter.run(*shop).stderr
    assert re.search(
        r"/price\d failed in the spider's code.*\n"
        r"  \| Traceback \(most recent call last\):\n"
        r'  \|   File ".*shop\.py", line \d+, in parse\n'
        r'  \|     \{\}\["price"\]\n'
        r"(?:  \| .*\n)?"
        r"  \| KeyError: 'price'\n",
        told,
    ), told
    assert told.count("KeyError: 'price'") == 1
    assert told.count("| ValueError: no value") == 1
    assert re.search(r"KeyError in parse, shop\.py line \d+: 2 pages failed in this way", told)


def test_what_a_spider_prints_is_not_among_the_results(skitter: Any, shop: Any) -> None:
    done = skitter.run(*shop, "-o", "-")
    assert {json.loads(line)["url"][-5:] for line in done.stdout.splitlines()} >= {"/fine"}
    assert "printed in __init__" in done.stderr
    summary = skitter.run(*shop, "--json")
    assert json.loads(summary.stdout)["job"] == "shop"
    assert "printed at import" in summary.stderr
    joined = skitter.run("worker", "shop.py", "--job", "shop", "--json")
    assert json.loads(joined.stdout)["job"] == "shop"


# ---- at the start and at the end


def test_a_seed_that_cannot_be_resolved_says_so_at_once(skitter: Any) -> None:
    told = skitter.run("crawl", "http://nosuch.invalid/", "--set", "max_attempts=1", code=1).stderr
    unreachable = "http://nosuch.invalid/ could not be reached: the host name cannot be resolved"
    assert re.search(rf"^error: no page was done: {re.escape(unreachable)} \([^:]*\)$", told, re.MULTILINE)


def test_a_seed_that_robots_txt_forbids_says_so_at_once(skitter: Any, site: Any) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /", content_type="text/plain")
    told = skitter.run("crawl", site.url(), code=1).stderr
    excluded = f"{site.url()} is excluded by robots.txt line 2: Disallow: / (group: *)"
    assert f"error: no page was done: {excluded}\n" in told
    assert json.loads(skitter.run("crawl", site.url(), "--json", code=1).stdout)["no_seed_class"] == "robots"


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"/": 404}, "{site}/ answered HTTP 404"),
        ({"/": 500}, "{site}/ answered HTTP 500"),
        ({"/robots.txt": 500}, "{site}/robots.txt answered HTTP 500"),
    ],
)
def test_a_status_is_a_sentence(skitter: Any, site: Any, answers: dict[str, int], sentence: str) -> None:
    site.page("/", "home")
    for path, status in answers.items():
        site.page(path, "failed", status=status)
    told = skitter.run("crawl", site.url(), "--set", "max_attempts=1", code=1).stderr
    assert f"error: no page was done: {sentence.format(site=site.base)}\n" in told


def test_a_refused_certificate_is_a_sentence(skitter: Any, make_site: Any) -> None:
    url = make_site(tls=True).url()
    told = skitter.run("crawl", url, "--set", "max_attempts=1", code=1).stderr
    refused = rf"{re.escape(url)} could not be reached: its certificate is refused \([^:]*\)"
    assert re.search(rf"^error: no page was done: {refused}$", told, re.MULTILINE), told


def test_items_without_an_output_are_spoken_of_at_the_start_and_at_the_end(skitter: Any, shop: Any) -> None:
    told = skitter.run(*shop).stderr
    begun, _, ended = told.partition("worker.joined")
    assert "items are counted but not kept; use output=FILE (-o FILE)" in begun
    assert "2 items, " in ended
    assert "not kept" not in ended, "the log has said it, and the next step does"
    again = re.search(r"to keep the items, crawl again: skitter (crawl .* -o items\.jsonl)\n", ended)
    assert again, ended
    told = skitter.run(*again[1].split()).stderr
    assert len(skitter.lines("items.jsonl")) == 2
    assert "not kept" not in told


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A make that has an environment already: this one."""
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    environment = folder / ".venv"
    (environment / "bin").mkdir(parents=True)
    for name in ("requirements.lock", "requirements-build.lock"):
        (folder / name).touch()
    (environment / "bin" / "python").symlink_to(sys.executable)
    script = environment / "bin" / "skitter"
    script.write_text(Path(sys.executable).with_name("skitter").read_text())
    script.chmod(0o755)
    (environment / ".runtime").touch()
    return subprocess.run(
        ["make", *words], cwd=folder, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


def test_make_crawl_of_a_url_stops_keeps_its_pages_and_prints_commands_that_work(site: Any, tmp_path: Path) -> None:
    site.page("/", "".join(f"<a href='/{n}'>" for n in range(20)))
    for n in range(20):
        site.page(f"/{n}", "page")
    done = make(tmp_path, "crawl", f"URL={site.url()}", "PAGES=5")
    assert done.returncode == 0, done.stderr
    assert "stopped by max_pages" in done.stderr
    (written,) = (tmp_path / "build").glob("[!.]*.jsonl")
    assert 5 <= len(written.read_text().splitlines()) < 21
    command = re.search(r"to resume: (\.venv/bin/skitter crawl .*)", done.stderr)
    assert command, done.stderr
    on = subprocess.run(command[1], shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert on.returncode == 0, on.stderr


# ---- jobs that nobody works at


def test_an_interrupted_job_is_called_so_and_its_stored_state_stays(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "".join(f"<a href='/{n}'>" for n in range(50)))
    crawl = skitter.start("crawl", site.url(), "--job", "j", "--delay", 1, "-o", "out.jsonl")
    until(lambda: (skitter.folder / "out.jsonl").exists() and skitter.lines("out.jsonl"), crawl)
    assert re.search(r"^state +running, ", skitter.run("status", "--job", "j").stdout, re.MULTILINE)
    os.killpg(crawl.pid, signal.SIGKILL)
    crawl.communicate()
    status = skitter.run("status", "--job", "j")
    assert re.search(r"^state +interrupted, no live workers, ", status.stdout, re.MULTILINE)
    assert "to resume, run the same crawl again" in status.stderr
    assert re.search(r"^j +interrupted, no live workers ", skitter.run("jobs").stdout, re.MULTILINE)
    assert skitter.json("status", "--job", "j")["state"] == "running"
    assert skitter.json("jobs")["state"] == "running"


def test_add_to_a_stopped_or_paused_job_says_when_it_is_fetched(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "".join(f"<a href='/{n}'>" for n in range(50)))
    crawl = skitter.start("crawl", site.url(), "--job", "j", "--delay", 1, "-o", "out.jsonl")
    until(lambda: (skitter.folder / "out.jsonl").exists() and skitter.lines("out.jsonl"), crawl)
    skitter.run("pause", "--job", "j")
    paused = skitter.run("add", site.url("/x"), "--job", "j").stderr
    assert "the job is paused; the added requests wait until skitter resume" in paused
    skitter.run("stop", "--job", "j")
    crawl.communicate(timeout=HANG_SECONDS)
    stopped = skitter.run("add", site.url("/y"), "--job", "j").stderr
    assert "the job is stopped; the added requests wait until the same crawl is run again" in stopped


def test_drop_beside_a_worker_that_stays_says_how_to_end_it(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "page")
    skitter.run("crawl", site.url(), "--job", "j", "-q", "-o", "out.jsonl")
    worker = skitter.start("worker", "--job", "j", "--stay", "-q")
    (one,) = until(lambda: skitter.json("status", "--job", "j")["worker_list"], worker)
    refused = skitter.run("drop", "--job", "j", code=2).stderr
    assert f"error: workers are running: j: process {one['pid']} on {socket.gethostname()}" in refused
    assert "hint: they wait for more work (--stay): end each with Ctrl-C or kill" in refused
    worker.terminate()
    worker.communicate(timeout=HANG_SECONDS)
    assert skitter.run("drop", "--job", "j").stdout == "j: dropped\n"


def test_worker_takes_a_number_of_processes(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "page")
    skitter.run("crawl", site.url(), "--job", "j", "-q", "-o", "out.jsonl")
    worker = skitter.start("worker", "--job", "j", "--stay", "-q", "--workers", 3)
    until(lambda: skitter.json("status", "--job", "j")["workers"] == 3, worker)
    worker.terminate()
    worker.communicate(timeout=HANG_SECONDS)
    assert worker.returncode == 143


# ---- mistakes


def test_a_proxy_that_refuses_connections_is_told_before_the_crawl_begins(skitter: Any, site: Any) -> None:
    site.page("/", "page")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for command in (["crawl", site.url(), "--job", "j"], ["worker", "--job", "k"]):
        if command[0] == "worker":
            skitter.run("crawl", site.url(), "--job", "k", "-q")
        asked = len(site.seen)
        told = skitter.run(*command, "--set", f"proxy=http://me:hunter2@127.0.0.1:{port}", code=3).stderr
        assert f"error: the proxy cannot be reached: 127.0.0.1:{port}: " in told
        assert "hint: start it, or correct the setting proxy; if it is only briefly unavailable, try again" in told
        assert "hunter2" not in told
        assert len(site.seen) == asked
    assert not (skitter.folder / ".skitter" / "j.db").exists(), "nothing was begun"


@pytest.mark.parametrize("frontier", ["sqlite:p.db", "memory:"])
@pytest.mark.parametrize(
    ("pipeline", "error"),
    [
        ("def __init__(self, dsn): pass", "cannot be created: Store: TypeError: "),
        ("def __init__(self): {}['DSN']", "cannot be created: Store: KeyError: 'DSN' (own.py line 5)"),
        ("def open_spider(self, spider): {}['DSN']", "cannot be opened: Store: KeyError: 'DSN' (own.py line 5)"),
    ],
)
def test_a_pipeline_that_cannot_be_built_is_told_before_the_first_page(
    skitter: Any, site: Any, pipeline: str, error: str, frontier: str
) -> None:
    site.page("/", "page")
    skitter.write(
        "own.py",
        f"""
        from skitter import Spider

        class Store:
            {pipeline}
            def process_item(self, item, spider): return item

        class Own(Spider):
            name = "own"
            start_urls = ["{site.url()}"]
            item_functions = [Store]
            def parse(self, response): yield {{"url": response.url}}
        """,
    )
    told = skitter.run("crawl", "own.py", "--frontier", frontier, code=2).stderr
    assert f"error: an item pipeline {error}" in told
    assert "hint: each worker creates one without arguments" in told
    assert site.paths() == []
