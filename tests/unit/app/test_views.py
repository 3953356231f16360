"""Views are values that can be sent, and the command line has words for all that they may say."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec
import pytest

from skitter.app.views import why
from skitter.app.views.failed import count_failed, find_failed
from skitter.app.views.jobs import jobs_of_frontier, jobs_of_frontiers
from skitter.app.views.status import StatusView, status_view
from skitter.app.views.why import UNSEEN, WhyView, why_url
from skitter.cli import why as words
from skitter.errors import FrontierError, UrlError
from skitter.frontier.contract import Frontier
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.job import Job, JobSpec, Report
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Politeness, Settings

SEED = "http://a.example/"
MISSING = {"ending": Ending.FAILED, "status": 404, "error_class": "http_4xx", "error": "HTTP 404"}


async def crawled(frontier: Frontier) -> Job:
    """A job with one failed page, and nobody at work."""
    settings = Settings(politeness=Politeness(delay_seconds=0)).job_wide()
    await frontier.begin(JobSpec(name="j", spider="", seeds=[SEED], settings=settings))
    job = await frontier.job()
    entry = Fingerprinter.of_job(job).entry(Request(SEED, seed=True))
    robots = HostNews(robots=RobotsRecord(b"User-agent: *\nDisallow: /private\n", version=1))
    while leases := (await frontier.lease("elsewhere:1:1", 10)).leases:
        for lease in leases:
            if lease.work is Work.SEED:
                outcome = Outcome(lease=lease, ending=Ending.DONE, links=[entry])
            elif lease.work is Work.ROBOTS:
                outcome = Outcome(lease=lease, ending=Ending.DONE, news=robots)
            else:
                outcome = Outcome(lease=lease, **MISSING)  # type: ignore[arg-type]
            await frontier.commit("elsewhere:1:1", [outcome])
    await frontier.tell("elsewhere:1:1", None)
    return job


@pytest.fixture
async def frontier(tmp_path: Path):
    frontier = sqlite_frontier(tmp_path / "j.db", "j")
    await crawled(frontier)
    yield frontier
    await frontier.close()


def sent(value: msgspec.Struct) -> object:
    """As a client gets it."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


async def test_a_status_can_be_sent_and_read_again(frontier: Frontier) -> None:
    report: Report = await frontier.report()
    view = status_view(report, "redis://:hunter2@crawl-db:6379/0")
    assert sent(view) == view
    assert (view.job, view.state, view.failed, view.seen, view.workers) == ("j", "finished", 1, 1, 0)
    assert "hunter2" not in view.frontier
    assert set(StatusView.__struct_fields__) >= set(type(report.counts).__struct_fields__)


async def test_the_jobs_of_a_frontier_are_listed_and_an_unreadable_one_hides_no_other(
    frontier: Frontier, tmp_path: Path
) -> None:
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    broken, good = f"sqlite:{tmp_path / 'broken.db'}", f"sqlite:{tmp_path / 'j.db'}"
    unreadable, listed = await jobs_of_frontiers([broken, good])
    assert (unreadable.job, unreadable.state, bool(unreadable.problem)) == ("broken", "unreadable", True)
    assert "run" not in msgspec.to_builtins(unreadable)
    assert (listed.job, listed.state, listed.failed, listed.workers) == ("j", "finished", 1, 0)
    assert "problem" not in msgspec.to_builtins(listed)
    assert await jobs_of_frontier(good) == [listed]
    with pytest.raises(FrontierError):
        await jobs_of_frontier(broken)


async def test_what_failed_is_found_by_class_and_by_url(frontier: Frontier) -> None:
    assert [failed.url async for failed in find_failed(frontier)] == [SEED]
    assert [failed.url async for failed in find_failed(frontier, "http_4xx", ["HTTP://A.example"])] == [SEED]
    assert [failed async for failed in find_failed(frontier, "dns")] == []
    assert [failed async for failed in find_failed(frontier, "", [SEED + "other"])] == []
    report = await frontier.report()
    assert (count_failed(report), count_failed(report, "http_4xx"), count_failed(report, "dns")) == (1, 1, 0)


@pytest.mark.parametrize(
    ("url", "state", "kinds"),
    [
        (SEED, "failed", ["failed", "spent", "origin"]),
        (SEED + "private", UNSEEN, ["robots_rule"]),
        ("http://b.example/", UNSEEN, ["outside_scope"]),
        ("mailto:a@b.example", UNSEEN, ["never_crawled"]),
        (SEED + "other", UNSEEN, ["not_found"]),
    ],
)
async def test_why_has_a_state_and_reasons_as_values(
    frontier: Frontier, url: str, state: str, kinds: list[str]
) -> None:
    view = await why_url(frontier, url)
    assert (view.state, [reason.kind for reason in view.reasons]) == (state, kinds)
    assert isinstance(sent(view), WhyView)


async def test_why_of_what_is_no_url_is_an_error(frontier: Frontier) -> None:
    with pytest.raises(UrlError):
        await why_url(frontier, "http://[")


def test_the_command_line_has_words_for_every_kind_of_reason_and_no_others() -> None:
    tree = ast.parse(Path(why.__file__).read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call.args[0] for call in calls if getattr(call.func, "id", "") == "_reason"]
    kinds = {kind.value for kind in made if isinstance(kind, ast.Constant)} | {"redirected", "fetched"}
    assert kinds == set(words._WORDS)
