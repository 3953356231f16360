"""The client of a program: requests get ids, and what became of them can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skitter
from skitter.app.audit import TrailFilter, Trails
from skitter.app.client import BATCH, AsyncClient
from skitter.delivery.stream_runner import CLIENT
from skitter.errors import JobError, MissingJobError, RequestError, SinkError, UsageError
from skitter.extract.items import encode_item
from skitter.frontier.contract import Frontier
from skitter.model.audit import AuditRow
from skitter.model.item import NewItem
from skitter.model.job import JobSpec, State
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import decode

URL = "https://a.example/1"
NO_ROBOTS = {"obey_robots": False, "delay_seconds": 0}
SPIDER = "def scrape(url, meta):\n    return {'url': url}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SPIDER)
    return tmp_path


@pytest.fixture
def client() -> Iterator[skitter.Client]:
    with skitter.connect("sqlite:jobs.db") as client:
        yield client


async def leased(frontier: Frontier, limit: int) -> list[Lease]:
    """Leases of pages, with the seeding out of the way."""
    leases = (await frontier.lease("w", limit)).leases
    pages = [lease for lease in leases if lease.work is Work.PAGE]
    seeding = [Outcome(lease=lease, ending=Ending.DONE) for lease in leases if lease.work is Work.SEED]
    if seeding:
        await frontier.commit("w", seeding)
        pages += (await frontier.lease("w", limit - len(pages))).leases
    return pages


def work(job: str, *, do: int = 10, error_class: str = "") -> list[Any]:
    """Do so many requests of a job as a worker would, each with an item or with an error; the requests."""

    async def working() -> list[Any]:
        from skitter.app.frontiers import open_frontier

        frontier = open_frontier("sqlite:jobs.db", job, create=False)
        try:
            leases = await leased(frontier, do)
            requests = [decode(lease.payload) for lease in leases]
            items = [[NewItem(encode_item({"of": request.url}))] for request in requests]
            await frontier.commit(
                "w",
                [
                    Outcome(lease=lease, ending=Ending.FAILED, error_class=error_class)
                    if error_class
                    else Outcome(lease=lease, ending=Ending.DONE, items=made)
                    for lease, made in zip(leases, items, strict=True)
                ],
            )
            return requests
        finally:
            await frontier.close()

    return asyncio.run(working())


def test_a_job_is_begun_with_the_first_url_and_found_again_with_the_next(client: skitter.Client) -> None:
    (one,) = client.submit(URL, spider="shop.py:scrape", meta={"shop": 7}, settings=NO_ROBOTS)
    assert one.startswith("scrape/")
    again, other = client.submit([URL, "https://a.example/2"], job="scrape")
    assert again == one
    assert client.counts("scrape").queued == 2
    assert [view.job for view in client.jobs()] == ["scrape"]
    (first, _) = work("scrape")
    assert (first.meta, first.seed) == ({"shop": 7}, True)
    for each in (one, other):
        trace = client.state(each)
        assert trace is not None
        assert trace.state == "done"
    assert client.items(other) == [{"of": "https://a.example/2"}]
    assert client.workers("scrape")[0].id == "w"


def test_another_client_asks_by_the_same_id(client: skitter.Client) -> None:
    (one,) = client.submit(URL, job="j")
    with skitter.connect("sqlite:jobs.db") as other:
        trace = other.state(one)
        assert trace is not None
        assert (trace.url, trace.state) == (URL, "queued")
        assert other.state("j/0123456789abcdef") is None


def test_requests_of_ones_own_have_priority_callback_and_arguments(client: skitter.Client) -> None:
    request = skitter.Request(URL, priority=9, callback="detail", cb_kwargs={"page": 2}, meta={"a": 1})
    client.submit(
        [skitter.Request("https://a.example/low", priority=-1), request], job="j", priority=5, settings=NO_ROBOTS
    )
    first, second = work("j")
    assert (first.url, first.priority, first.callback, first.cb_kwargs) == (URL, 9, "detail", {"page": 2})
    assert second.priority == -1


def test_a_request_that_is_not_filtered_is_another_one_each_time(client: skitter.Client) -> None:
    request = skitter.Request(URL, dont_filter=True)
    ids = client.submit([request, request], job="j") + client.submit(request, job="j")
    assert len(set(ids)) == 3
    assert client.counts("j").queued == 3


def test_a_generator_is_read_in_batches(client: skitter.Client) -> None:
    client.submit(URL, job="j")
    queued: list[int] = []

    def urls() -> Iterator[str]:
        for number in range(2 * BATCH + 1):
            if number % BATCH == 0:
                # A generator may use the client that reads it.
                queued.append(client.counts("j").queued)
            yield f"https://b.example/{number}"

    assert client.add(urls(), job="j") == 2 * BATCH + 1
    assert queued == [1, BATCH + 1, 2 * BATCH + 1]
    assert client.add([URL, "https://b.example/1"], job="j") == 0


def test_results_are_given_out_once_and_the_job_is_complete_then(client: skitter.Client) -> None:
    ids = client.submit([f"https://a.example/{number}" for number in range(5)], job="j", settings=NO_ROBOTS)
    work("j", do=3)
    stream = client.results("j")
    first = [next(stream) for _ in range(3)]
    stream.close()
    work("j")
    # The first batch was never acknowledged: nobody knows what became of it.
    assert client.wait("j", timeout_seconds=60).state is State.FINISHED
    results = dict(client.results("j"))
    assert [request_id for request_id, _ in first] == list(results)[:3]
    assert set(results) == set(ids)
    assert list(client.results("j")) == []
    assert client.items(ids[0]) == [], "what was given out is forgotten"


def test_results_are_for_one_program_at_a_time_and_for_jobs_that_keep_them(client: skitter.Client) -> None:
    client.submit(URL, job="j", settings=NO_ROBOTS)
    client.submit(URL, job="db", output="postgresql://db.example/x#y")
    work("j")
    with skitter.connect("sqlite:jobs.db") as other:
        stream, theirs = client.results("j"), other.results("j")
        next(stream)
        with pytest.raises(SinkError, match="another program is reading the results: j"):
            next(theirs)
        stream.close()
    with pytest.raises(JobError, match="keeps no items for a program: db"):
        next(client.results("db"))


def test_waiting_ends_with_a_command_or_in_time(client: skitter.Client) -> None:
    client.submit(URL, job="j")
    with pytest.raises(TimeoutError):
        client.wait("j", timeout_seconds=0.01)

    client.stop("j")
    assert client.wait("j").state is State.STOPPED


def test_a_job_is_paused_resumed_and_stopped_by_a_program_and_that_is_recorded(client: skitter.Client) -> None:
    client.submit(URL, job="j", settings=NO_ROBOTS)
    assert client.pause("j").state is State.PAUSED
    assert work("j") == []
    assert client.resume("j").state is State.RUNNING
    assert client.stop("j").state is State.STOPPED
    assert client.resume("j").state is State.RUNNING
    assert len(work("j")) == 1

    async def recorded() -> list[AuditRow]:
        async with Trails("sqlite:jobs.db") as trails:
            return await trails.rows(TrailFilter(job="j", actor="program:"))

    newest_first = [row.action for row in asyncio.run(recorded())]
    assert newest_first[:4] == ["resume", "stop", "resume", "pause"]
    with pytest.raises(MissingJobError):
        client.pause("nothing")


def test_what_failed_is_listed_and_queued_again_by_url_class_or_all(client: skitter.Client) -> None:
    urls = [f"https://a.example/{number}" for number in range(3)]
    client.submit(urls, job="j", settings=NO_ROBOTS)
    work("j", error_class="timeout")
    assert [failed.url for failed in client.failures("j")] == urls
    assert list(client.failures("j", error_class="dns")) == []
    assert client.retry("j", error_class="dns") == 0
    assert client.retry("j", "https://a.example/other") == 0, "no URL found does not mean all"
    assert client.retry("j", []) == 0, "an empty list does not mean all"
    assert client.retry("j", urls[1]) == 1
    assert [failed.url for failed in client.failures("j", error_class="timeout")] == [urls[0], urls[2]]
    assert client.retry("j") == 2
    assert client.counts("j").queued == 3
    for call in (client.retry, lambda job, error_class: next(client.failures(job, error_class=error_class))):
        with pytest.raises(UsageError, match="no such error class: timeuot"):
            call("j", error_class="timeuot")


def test_hosts_are_listed_paused_resumed_and_given_up(client: skitter.Client) -> None:
    client.submit(["https://b.example/", URL], job="j", settings=NO_ROBOTS)
    client.pause_host("j", "https://b.example/some/page")
    assert [(host.key, host.paused) for host in client.hosts("j")] == [
        ("https://a.example", False),
        ("https://b.example", True),
    ]
    assert [host.key for host in client.hosts("j", "paused")] == ["https://b.example"]
    assert [request.url for request in work("j")] == [URL]
    client.give_up_host("j", "https://b.example")
    work("j")
    assert [failed.error_class for failed in client.failures("j")] == ["given_up"]
    client.resume_host("j", "https://b.example")
    assert client.hosts("j", "given_up") == []
    with pytest.raises(UsageError, match=r"no such host in j: https://c\.example"):
        client.pause_host("j", "https://c.example")
    with pytest.raises(UsageError, match="no such state of hosts: slow"):
        client.hosts("j", "slow")


def test_settings_of_a_job_are_changed_while_it_runs(client: skitter.Client) -> None:
    client.submit(URL, job="j", settings={"delay_seconds": 1.0})
    client.change_settings("j", {"delay_seconds": 2, "max_in_flight": 9})

    async def spec() -> JobSpec:
        async with AsyncClient("sqlite:jobs.db") as other:
            return (await other._frontier("j").job()).spec

    found = asyncio.run(spec())
    assert (found.settings["delay_seconds"], found.settings["max_in_flight"]) == (2.0, 9)
    assert found.changed_from == {"delay_seconds": 1.0, "max_in_flight": None}
    with pytest.raises(UsageError, match="cannot be changed while a job runs: cookies"):
        client.change_settings("j", {"cookies": False})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"urls": "nonsense"}, UsageError, "nonsense"),
        ({"urls": [URL], "spider": "shop.py:other"}, UsageError, "no such spider class"),
        ({"urls": [URL], "spider": lambda url: None}, UsageError, "a spider without a file"),
        ({"urls": [URL], "output": "x.jsonl"}, UsageError, "no node given to write this"),
        ({"urls": [URL], "job": "not a name"}, UsageError, "invalid job name"),
        ({"urls": [URL], "settings": {"no_such": 1}}, UsageError, "no_such"),
        ({"urls": [7]}, RequestError, "url must be text"),
    ],
)
def test_what_cannot_be_submitted_is_said_and_begins_nothing(
    client: skitter.Client, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        client.submit(**given)
    with skitter.connect("sqlite:jobs.db") as other:
        assert [view for view in other.jobs() if view.state != "unknown"] == []


def test_a_job_keeps_its_spider(client: skitter.Client) -> None:
    client.submit(URL, job="j")
    with pytest.raises(JobError, match="job j has another spider: the built-in one"):
        client.submit(URL, job="j", spider="shop.py:scrape")


@pytest.mark.parametrize("request_id", ["", "j", "j/xyz", "/0123456789abcdef", "j/10123456789abcdef0"])
def test_what_is_no_id_is_said(client: skitter.Client, request_id: str) -> None:
    with pytest.raises(UsageError, match="invalid request id"):
        client.state(request_id)


def test_a_frontier_of_one_process_cannot_be_connected_to() -> None:
    with pytest.raises(UsageError, match="cannot be shared"):
        skitter.connect("memory:")


async def test_the_same_with_await() -> None:
    async with AsyncClient("sqlite:jobs.db") as client:
        (one,) = await client.submit(URL, job="j")
        assert (await client.counts("j")).queued == 1
        assert [sink.target for sink in await client._frontier("j").sinks()] == [CLIENT]
        assert await client.items(one) == []
        assert await client.submit([]) == []
