"""``submit`` and the options of a fleet: what is refused, and what a job keeps of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from skitter.app.frontiers import open_frontier

URL = "http://127.0.0.1:9/"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("worker", "--every-job", "--job", "x"), "not with --every-job: --job"),
        (("worker", "--every-job", "spider.py"), "not with --every-job: spider.py"),
        (("worker", "--every-job", "--frontier", "memory:"), "cannot be shared"),
        (("worker", "--name", "x"), "--name without --every-job"),
        (
            ("submit", "spider.py:scrape", "http://127.0.0.1:9/", "-o", "x.jsonl"),
            "no node given to write this: x.jsonl",
        ),
        (("submit", "spider.py:scrape", "http://127.0.0.1:9/", "-o", "-"), "a submitted job cannot write to: -"),
        (("submit", "spider.py:scrape", "http://127.0.0.1:9/", "-o", "x.warc.gz"), "a submitted job cannot write to"),
        (("submit", "http://127.0.0.1:9/", "--frontier", "memory:"), "exists inside one process only"),
        (("submit", "http://127.0.0.1:9/", "--set", "stay=true", "--recrawl"), "--stay cannot be submitted"),
        (("submit", "http://127.0.0.1:9/", "--priority", "soon"), "not a priority: soon"),
    ],
)
def test_what_a_fleet_cannot_do_is_said(skitter: Any, folder: Path, words: tuple[str, ...], message: str) -> None:
    (folder / "spider.py").write_text("def scrape(url): return {}")
    code, _, err = skitter(*words)
    assert code == 2
    assert message in err
    assert "hint: " in err


def test_a_job_is_submitted_and_nothing_is_worked_on(skitter: Any) -> None:
    code, out, err = skitter("submit", URL, "--priority", "high", "--deliver", "disk", "-o", "x.jsonl", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["job"], told["begun"], told["state"], told["workers"]) == ("127.0.0.1-9", "new", "running", 0)
    assert told["outputs"] == ["x.jsonl"]
    assert "skitter worker --every-job" in err
    status = json.loads(skitter("status", "--json").out)
    assert (status["seeds"], status["seen"], status["seeding"]) == ([URL], 0, True)


def test_submitting_again_resumes_it_with_the_new_settings(skitter: Any) -> None:
    skitter("submit", URL, "--priority", "-5")
    assert "run 1 is resumed" in skitter("submit", URL, "--priority", "7", "-q").out

    async def priority() -> object:
        frontier = open_frontier("sqlite:.skitter/127.0.0.1-9.db", "127.0.0.1-9", create=False)
        try:
            return (await frontier.job()).spec.settings["job_priority"]
        finally:
            await frontier.close()

    assert asyncio.run(priority()) == 7


def test_a_password_that_the_fleet_will_not_know_is_spoken_of(skitter: Any) -> None:
    _, out, err = skitter("submit", URL, "-o", "postgresql://ann:geheim@db.example/shop#pages")
    assert "run 1 is new" in out
    assert "the password is not kept: postgresql://" in err
    assert "geheim" not in err
