"""At the end a person knows what came out of it, and what to type next."""

from __future__ import annotations

import shlex
import signal

import pytest

from skitter.cli import exit_codes
from skitter.cli import summary as ending
from skitter.cli.arguments import Parser
from skitter.cli.crawl import configure
from skitter.cli.job_ref import JobRef

PLACE = JobRef("sqlite:.skitter/my shop.db", "shop")
AGAIN = ["skitter", "crawl", "https://a.example/?a=1&b=2", "-o", "x.jsonl", "--fresh", "--max-pages", "10"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "finished: 10 pages in 2.0 s (5.0 pages/s), 4.1 kB"),
        ({"begun": "resumed"}, "finished: 10 pages, 4.1 kB in all; this time 2.0 s (5.0 pages/s)"),
        ({"state": "stopped", "reason": "max_pages"}, "stopped by max_pages: 10 pages"),
        ({"state": "running", "signal": signal.SIGINT}, "interrupted: 10 pages"),
        ({"state": "running", "signal": signal.SIGTERM}, "terminated: 10 pages"),
        ({"failed": 3, "errors": {"dns": 1, "timeout": 2, "tls": 0}}, "failed by class: timeout 2, dns 1"),
        ({"undelivered": 5}, "5 items undelivered"),
        ({"empty_sitemaps": {"http://a/s": 1}}, "  1 empty sitemap: http://a/s"),
        ({"empty_sitemaps": {"4": 1, "3": 1, "2": 1, "1": 2}}, "  5 empty sitemaps: 1, 2, 3, …"),
        ({}, "  10 items in out.jsonl, "),
        ({"outputs": ["out.jsonl", "out.csv"]}, "  10 items in out.jsonl and 1 more, "),
        ({"outputs": ["-"]}, "  10 items, "),
        ({"outputs": []}, "  10 items (not kept: no output), "),
        ({"outputs": ["redis://me:hunter2@db/0"]}, "  10 items in redis://***@db/0, "),
    ],
)
def test_the_summary_in_words(make_summary, changes, words) -> None:
    assert words in "\n".join(ending.as_text(make_summary(**changes)))


def test_a_clean_end_needs_no_next_step(make_summary) -> None:
    assert ending.next_steps(make_summary(), PLACE, AGAIN) == []


def test_items_without_an_output_are_kept_by_another_crawl(make_summary) -> None:
    (step,) = ending.next_steps(make_summary(outputs=[]), PLACE, AGAIN)
    assert step.startswith("to keep the items, crawl again: skitter crawl ")
    assert step.endswith(" -o items.jsonl")
    # An unfinished run would only go on.
    *_, step = ending.next_steps(make_summary(outputs=[], state="stopped", reason="command"), PLACE, AGAIN)
    assert step.endswith(" -o items.jsonl --fresh")
    assert ending.next_steps(make_summary(outputs=[], items=0), PLACE, AGAIN) == []


def test_what_failed_can_be_looked_into(make_summary) -> None:
    (step,) = ending.next_steps(make_summary(failed=2), PLACE, AGAIN)
    assert step == "to see what failed and why: skitter failed shop --frontier 'sqlite:.skitter/my shop.db'"


def test_after_ctrl_c_the_same_command_goes_on_without_fresh(make_summary) -> None:
    (step,) = ending.next_steps(make_summary(state="running", signal=signal.SIGINT), PLACE, AGAIN)
    assert shlex.split(step.removeprefix("to resume: ")) == [word for word in AGAIN if word != "--fresh"]


@pytest.mark.parametrize("limit", [["--max-pages", "10"], ["--max-pages=10"], []])
def test_after_the_limit_a_larger_one_goes_on(make_summary, limit) -> None:
    stopped = make_summary(state="stopped", reason="max_pages", pages=10)
    (step,) = ending.next_steps(stopped, PLACE, ["skitter", "crawl", "https://a.example/", *limit, "-q"])
    words = shlex.split(step.removeprefix("to resume: "))
    assert words == ["skitter", "crawl", "https://a.example/", "-q", "--max-pages", "20"]
    parser = Parser(prog="skitter crawl", description="")
    configure(parser)
    assert parser.parse(words[2:]).overrides[-1].value == "20"


@pytest.mark.parametrize(
    ("reason", "step"), [("command", "skitter resume"), ("max_pages", "skitter crawl as it was started")]
)
def test_a_worker_cannot_go_on_with_a_stopped_job(make_summary, reason, step) -> None:
    stopped = make_summary(state="stopped", reason=reason)
    assert step in ending.next_steps(stopped, PLACE, ["skitter", "worker"])[0]


def test_items_that_no_sink_took_can_be_drained(make_summary) -> None:
    (step,) = ending.next_steps(make_summary(undelivered=3), PLACE, AGAIN)
    assert step.startswith("to write the undelivered items: skitter deliver shop -o FILE --frontier")


def test_nothing_is_suggested_that_memory_cannot_do(make_summary) -> None:
    (step,) = ending.next_steps(make_summary(failed=2), JobRef("memory:", "x"), AGAIN)
    assert "skitter failed" not in step
    assert "skitter" not in ending.reason_hint(make_summary(failed=2), JobRef("memory:", "x"))


def test_no_seed_done_without_a_failure_leads_to_why(make_summary) -> None:
    assert ending.reason_hint(make_summary(seeds_done=False, excluded=1), PLACE).startswith("skitter why shop URL")


@pytest.mark.parametrize(
    ("reason", "line", "code"),
    [
        ("max_pages", "", 0),
        ("command", "", 0),
        (
            "start() failed:\nTraceback (most recent call last):\n  …\nOSError: unavailable",
            "start() failed: OSError: unavailable",
            1,
        ),
        ("start() lost its worker every time", "start() lost its worker every time", 1),
        ("the words of another version", "the words of another version", 1),
    ],
)
def test_a_seeding_that_failed_is_told_by_what_the_reason_is_and_not_by_how_it_begins(
    make_summary, reason, line, code
) -> None:
    summary = make_summary(reason=reason)
    assert ending.seeding_line(summary.seeding_problem) == line
    assert exit_codes.of_summary(summary) == code


def test_links_that_a_server_lost_end_a_finished_crawl_with_the_code_of_backends(make_summary) -> None:
    assert exit_codes.of_summary(make_summary(lost_links=2)) == 3
    assert exit_codes.of_summary(make_summary()) == 0
