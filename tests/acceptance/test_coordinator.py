"""``--coordinator`` on the command line: what is refused, and before what."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--coordinator", "redlock://a,b,c"], 2, "this coordinator does not support groups of nodes"),
        (["--coordinator", "foo"], 2, "not the URL of a coordinator: foo"),
        (
            ["--coordinator", "sqlite:c.db", "--frontier", "memory:"],
            2,
            "--coordinator needs worker processes",
        ),
        (["--set", "coordinator_seconds=0.1"], 2, "coordinator_seconds"),
        (["--coordinator", "redis://:secret@127.0.0.1:1"], 3, "the Redis cannot be reached: redis://127.0.0.1:1/0"),
    ],
    ids=["redlock", "no URL", "memory", "too short", "unavailable"],
)
def test_a_coordinator_that_cannot_be_one_is_refused_before_a_run_begins(skitter, words, code, told) -> None:
    ended = skitter.run("crawl", "http://127.0.0.1:1/", "--job", "j", *words, code=code)
    assert told in ended.stderr
    assert "hint: " in ended.stderr
    assert "secret" not in ended.stderr
    assert "job.begun" not in ended.stderr


def test_a_fleet_refuses_it_at_its_start(skitter) -> None:
    words = ("worker", "--every-job", "--frontier", "sqlite:jobs.db", "--coordinator", "redlock://a,b,c")
    assert "this coordinator does not support groups of nodes" in skitter.run(*words, code=2).stderr
