"""The checker of the fault suite can fail: each thing that must not be is shown to it, and it says so."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skitter.frontier.memory import memory_frontier
from skitter.model.lease import Work
from skitter.testing.contract import Client
from skitter.testing.history import Event, Evidence, Fault, Recorded, Recorder, check, read_histories
from skitter.testing.history.events import What
from skitter.testing.web import Expected, Hit

ROOT = "http://127.0.0.1:7001/"
ONE, TWO = ROOT + "1", ROOT + "2"


def leased(request_id: int, epoch: int, at: float, url: str = ONE) -> Event:
    return Event(what=What.LEASED, at=at, since=at - 0.01, id=request_id, epoch=epoch, url=url)


def told(what: What, request_id: int, epoch: int, at: float, ending: str = "done") -> Event:
    return Event(what=what, at=at, since=at - 0.01, id=request_id, epoch=epoch, ending=ending)


def sent(at: float, url: str = ONE) -> Event:
    return Event(what=What.SENT, at=at, url=url)


def hit(path: str, at: float = 1.0, in_flight: int = 1) -> Hit:
    return Hit(at, 0, path, 200, in_flight)


def two_pages(**changes: Any) -> Evidence:
    """A crawl of two pages by one worker, with nothing wrong."""
    history = [
        leased(1, 10, 1.0, ONE),
        leased(2, 11, 1.0, TWO),
        sent(1.1, ONE),
        sent(1.4, TWO),
        told(What.ACCEPTED, 1, 10, 2.0),
        told(What.ACCEPTED, 2, 11, 2.0),
    ]
    fine = Evidence(
        expected=Expected(done={ONE, TWO}),
        histories={"a": history},
        states={ONE: "done", TWO: "ended"},
        output=[ONE, TWO],
        hits=[hit("/robots.txt", 0.5), hit("/1", 1.2), hit("/2", 1.5, in_flight=2)],
        urls=[ROOT],
    )
    return replace(fine, **changes)


def test_a_crawl_with_nothing_wrong_is_found_so() -> None:
    findings = check(two_pages())
    assert (findings.lost, findings.doubled, findings.stale_accepted, findings.unexpected) == ([], [], [], [])
    assert (findings.pages, findings.fetches, findings.amplification, findings.refetches) == (2, 2, 1.0, 0)
    assert findings.smallest_gap_seconds == pytest.approx(0.3)
    assert findings.smallest_gap_at_server_seconds == pytest.approx(0.3)
    assert findings.most_in_flight == 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"output": [ONE]}, f"{TWO}: not in the results"),
        ({"states": {ONE: "done"}}, f"{TWO}: never seen instead of done"),
        ({"states": {ONE: "done", TWO: "failed"}}, f"{TWO}: failed instead of done"),
        ({"states": {ONE: "done", TWO: "queued"}}, f"{TWO}: queued instead of done"),
        ({"unended": 1}, "1 requests have not ended"),
    ],
)
def test_a_lost_page_is_found(changes: dict[str, Any], problem: str) -> None:
    assert check(two_pages(**changes)).lost == [problem]


@pytest.mark.parametrize("state", ["done", "ended"])
def test_a_page_that_should_be_dead_is_found(state: str) -> None:
    expected = Expected(done={ONE}, failed={TWO: "http_4xx"})
    findings = check(two_pages(expected=expected, output=[ONE], states={ONE: "done", TWO: state}))
    assert findings.lost == [f"{TWO}: {state} instead of failed"]


def test_a_record_that_is_twice_in_the_results_is_found() -> None:
    assert check(two_pages(output=[ONE, TWO, ONE])).doubled == [f"{ONE}: 2 times in the results"]


def test_a_record_of_no_page_of_the_web_is_found() -> None:
    assert check(two_pages(output=[ONE, TWO, ROOT + "3"])).unexpected == [ROOT + "3"]


def test_two_accepted_ends_of_one_request_are_found() -> None:
    history = [*two_pages().histories["a"], told(What.ACCEPTED, 1, 10, 3.0)]
    assert check(two_pages(histories={"a": history})).doubled == ["request 1: ended by 2 commits"]


def test_an_older_lease_that_ends_a_page_is_found() -> None:
    """Whatever the clocks say: a page that was ended by epoch 10 is never granted again as 12."""
    histories = {**two_pages().histories, "b": [leased(1, 12, 2.5)]}
    findings = check(two_pages(histories=histories))
    assert findings.stale_accepted == ["request 1: epoch 10 accepted, though 12 was granted"]


@pytest.mark.parametrize(
    ("what", "granted_at", "stale"),
    [(What.ACCEPTED, 1.9, 1), (What.PART, 1.9, 1), (What.ACCEPTED, 2.5, 0), (What.REFUSED, 1.9, 0)],
)
def test_a_retry_of_an_older_lease_is_stale_only_if_the_newer_was_granted_before(
    what: What, granted_at: float, stale: int
) -> None:
    histories = {"a": [leased(1, 10, 1.0), told(what, 1, 10, 2.0, "retry")], "b": [leased(1, 12, granted_at)]}
    assert len(check(two_pages(histories=histories)).stale_accepted) == stale


def test_refetches_are_fetches_that_no_commit_accounts_for() -> None:
    history = [
        *(leased(1, 10, 1.0), told(What.ACCEPTED, 1, 10, 2.0, "retry")),
        *(leased(1, 11, 3.0), told(What.ACCEPTED, 1, 11, 4.0)),
    ]
    hits = [hit("/1")] * 3 + [hit("/2")] * 2
    # Of page 2 no commit is known. It has ended, so one fetch of it led to a commit whose answer was lost.
    assert check(two_pages(histories={"a": history}, hits=hits)).refetches == 2


def test_what_a_victim_held_and_when_it_was_granted_again() -> None:
    histories = {
        "a": [leased(1, 10, 1.0, ONE), leased(2, 11, 1.0, TWO), told(What.ACCEPTED, 2, 11, 1.5)],
        "b": [leased(1, 12, 5.0, ONE), told(What.ACCEPTED, 1, 12, 6.0)],
    }
    kill = Fault(what="kill", at=2.0, until=2.0, processes=("a",), ends=True)
    findings = check(two_pages(histories=histories, faults=[kill]))
    assert (findings.faults, findings.held_at_faults) == ([kill], 1)
    assert findings.released_seconds == pytest.approx(3.0)
    assert findings.resumed_seconds == pytest.approx(4.0)
    # When it comes earlier, and only stops the process, both leases are held; one of them the victim ends itself.
    stop = Fault(what="stop", at=1.2, until=1.4, processes=("a",))
    findings = check(two_pages(histories=histories, faults=[stop]))
    assert findings.held_at_faults == 2
    assert findings.released_seconds == pytest.approx(3.8)
    assert findings.resumed_seconds == pytest.approx(0.1)


def test_a_lease_that_outlives_a_fault_is_lost_to_the_next() -> None:
    histories = {"a": [leased(1, 10, 1.0)], "b": [leased(1, 12, 9.0)]}
    faults = [Fault(what="cut", at=at, until=at, processes=("a",)) for at in (2.0, 6.0, 9.5)]
    findings = check(two_pages(histories=histories, faults=faults))
    assert (findings.held_at_faults, findings.released_seconds) == (1, pytest.approx(3.0))


def test_what_goes_on_after_two_faults_in_a_row_went_on_after_the_second() -> None:
    histories = {"a": [told(What.ACCEPTED, number, number, at) for number, at in enumerate([1.0, 5.0, 9.0, 11.0])]}
    faults = [Fault(what="kill", at=at, until=at) for at in (2.0, 4.5, 9.5, 12.0)]
    assert check(two_pages(histories=histories, faults=faults)).resumed_seconds == pytest.approx(1.5)


def test_the_smallest_gap_is_per_host_and_across_processes() -> None:
    histories = {"a": [sent(1.0), sent(1.5)], "b": [sent(1.45), sent(1.0, "http://127.0.0.1:7002/")]}
    findings = check(two_pages(histories=histories))
    assert findings.smallest_gap_seconds == pytest.approx(0.05)
    assert list(findings.gaps) == ["http://127.0.0.1:7001"]


def test_a_request_starts_with_the_connection_that_is_made_for_it() -> None:
    def opened(at: float, url: str = ONE) -> Event:
        return Event(what=What.OPENED, at=at, url=url)

    def answered(at: float, url: str = ONE) -> Event:
        return Event(what=What.ANSWERED, at=at, url=url)

    first = [opened(1.0), sent(1.3), answered(1.4), sent(1.5), answered(1.6), opened(1.7), answered(1.8), sent(2.0)]
    findings = check(two_pages(histories={"a": first}))
    # 1.0, 1.5 and 2.0: the connection at 1.7 came to nothing.
    assert findings.smallest_gap_seconds == pytest.approx(0.5)
    assert findings.smallest_gap_of_sends_seconds == pytest.approx(0.2)


def test_the_report_is_written_for_people_and_for_programs(tmp_path: Path) -> None:
    findings = check(two_pages(output=[ONE]))
    findings.write(tmp_path, "name")
    assert f"lost 1\n  {TWO}: not in the results\n" in (tmp_path / "name.txt").read_text()
    assert '"amplification": 1.0' in (tmp_path / "name.json").read_text()


async def test_a_recorded_frontier_tells_what_its_worker_was_told(tmp_path: Path) -> None:
    recorder, since = Recorder(tmp_path), time.monotonic()
    client = Client(Recorded(memory_frontier("job"), recorder), "job", set())
    await client.seeded("a/1", "a/2")
    first, second = await client.lease()
    await client.end(first)
    await client.frontier.release([second])
    assert await client.frontier.renew("w", [second]) == [False]
    recorder.close()
    (process, history), *others = read_histories(tmp_path).items()
    assert (process, others) == (f"{os.getpgid(0)}-{os.getpid()}", [])
    pages = [event for event in history if event.work == Work.PAGE]
    assert [(event.what, event.epoch) for event in pages if event.what != "asked"] == [
        ("leased", first.epoch),
        ("leased", second.epoch),
        ("accepted", first.epoch),
        ("released", second.epoch),
        ("lost", second.epoch),
    ]
    assert next(event for event in pages if event.what == "leased").url == first.request.url
    assert all(since < event.since <= event.at for event in history if event.what != "asked")
    # The seeding, and the two pages: whoever is killed between a question and its answer may hold what it never saw.
    assert [event.what for event in history][:2] == ["asked", "leased"]


def test_the_torn_last_line_of_a_killed_process_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.add(What.SENT, url=ONE)
    recorder.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + b'{"what":"sen')
    assert [event.url for event in read_histories(tmp_path)[path.stem]] == [ONE]
