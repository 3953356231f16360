"""``skitter status`` in words and in JSON: workers, rates, hosts, on a terminal of any width."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from skitter.app.views.jobs import job_view
from skitter.app.views.status import status_view
from skitter.app.views.why import WhyView, seen_reasons
from skitter.cli.job_ref import JobRef
from skitter.cli.status import MAX_WORKERS, as_json, as_text
from skitter.cli.why import in_words
from skitter.model.job import Counts, HostSeen, NeedSeen, State, Trace
from skitter.model.worker import WaitsFor, WorkerHeartbeat, WorkerSeen

PLACE = JobRef("redis://:hunter2@crawl-db:6379/0", "a.example")
TRACE = Trace(
    state="queued",
    url="https://one.example/",
    depth=1,
    priority=0,
    attempts=0,
    losses=0,
    referrer=None,
    added_at=0.0,
    ended_at=0.0,
    status=0,
    error_class="",
    error="",
    ready_in_seconds=0.0,
    worker="",
    host=None,
)


def worker(number: int, *, silent_seconds: float = 0.2, **heartbeat: Any) -> WorkerSeen:
    fields = {"host_name": f"crawl-{number}", "pid": number, "version": "1.2", "doing": "fetching", "started_at": 10.0}
    return WorkerSeen(f"crawl-{number}:{number}:1", 8, silent_seconds, WorkerHeartbeat(**fields | heartbeat))


def host(key: str, queued: int, due_seconds: float = 0.0) -> HostSeen:
    return HostSeen(
        key=key,
        queued=queued,
        in_flight=0,
        due_seconds=due_seconds,
        blocked_seconds=0.0,
        latency_seconds=0.0,
        strikes=0,
        error_class="",
    )


def text(report: Any, **options: Any) -> str:
    return "\n".join(as_text(status_view(report, PLACE.frontier), 130.0, **options))


def sentences(trace: Trace, report: Any) -> list[str]:
    view = WhyView(url=trace.url, state=trace.state, reasons=seen_reasons(trace, report), trace=trace)
    return in_words(view, PLACE)


def lines_with(word: str, report: Any, **options: Any) -> list[str]:
    return [line for line in text(report, **options).splitlines() if word in line]


def test_a_worker_is_told_by_machine_process_and_what_it_is_at(make_report) -> None:
    (line,) = lines_with("crawl-7", make_report(workers=[worker(7, doing="blocked by sink", waits_for="sink")]))
    assert line.split() == ["crawl-7", "7", "blocked", "by", "sink", "sink", "8", "-", "-", "-", "-", "now", "0:02:00"]


def test_a_worker_is_told_with_its_slots_share_rate_and_latency(make_report) -> None:
    first = worker(1, slots=64, pages_per_second=30.0, latency_seconds=0.25, waits_for=WaitsFor.DELAY)
    gone = worker(3, slots=64, pages_per_second=900.0, silent_seconds=99.0)
    listed = lines_with("crawl-", make_report(workers=[first, worker(2, slots=8, pages_per_second=10.0), gone]))[1:]
    shown = {line.split()[0]: line for line in listed}
    assert shown["crawl-1"].split()[2:10] == ["fetching", "host", "delay", "8/64", "75%", "30.0", "250", "ms"]
    assert shown["crawl-2"].split()[2:8] == ["fetching", "-", "8/8", "25%", "10.0", "-"]
    assert "%" not in shown["crawl-3"], "whoever is gone has no share"


@pytest.mark.parametrize(
    ("counts", "hosts", "reason"),
    [
        (Counts(leased=8), [], "new links"),
        (Counts(leased=8, queued=3), [host("http://a.example", 3, 4.0)], "host delay"),
        (Counts(leased=8, queued=3), [host("http://a.example", 3)], "ready host"),
        (Counts(leased=8, delayed=3), [], "ready host"),
    ],
)
def test_why_no_host_is_ready_is_told_by_the_queues(make_report, counts, hosts, reason) -> None:
    report = make_report(workers=[worker(1, waits_for=WaitsFor.READY_HOST)], counts=counts, hosts=hosts)
    assert status_view(report, PLACE.frontier).worker_list[0].waits_for == reason


def test_paused_hosts_are_told_and_whether_nothing_else_is_left(make_report) -> None:
    assert "paused" not in text(make_report())
    assert "paused    2 hosts, by an operator (skitter hosts --state paused)\n" in text(make_report(paused_hosts=2))
    idle = make_report(paused_hosts=1, workers=[worker(1, waits_for=WaitsFor.PAUSED_HOSTS)])
    assert "paused    1 host, by an operator (skitter hosts --state paused); nothing else is left to do" in text(idle)
    assert status_view(idle, PLACE.frontier).blocked_by == "paused hosts"


def test_callbacks_are_told_by_how_often_and_how_long_they_ran(make_report) -> None:
    tally = {"calls:parse": 2000, "call_us:parse": 500_000, "calls:parse_book": 10, "call_us:parse_book": 30_000_000}
    heartbeats = [
        worker(1, longest_calls={"parse": 0.004}),
        worker(2, longest_calls={"parse": 0.002, "parse_book": 9.0}),
    ]
    report = make_report(tally=tally, workers=heartbeats)
    assert [line.split() for line in lines_with("parse", report)] == [
        ["parse_book", "10", "30.0", "3.0", "s", "9.0", "s"],
        ["parse", "2,000", "0.5", "0.25", "ms", "4.00", "ms"],
    ]
    assert as_json(status_view(report, PLACE.frontier))["callbacks"][1] == {
        "name": "parse",
        "calls": 2000,
        "seconds": 0.5,
        "longest_seconds": 0.004,
    }


def test_workers_fit_on_a_hundred_columns(make_report) -> None:
    heartbeat = {
        "host_name": "crawler-7.region.example.net",
        "pid": 1234567,
        "doing": "fetching",
        "slots": 256,
        "pages_per_second": 1234.5,
        "latency_seconds": 0.123,
        "waits_for": "ready host",
        "memory_bytes": 123_456_789,
    }
    listed = lines_with("1234567 ", make_report(workers=[worker(1, **heartbeat)]), width=100)
    assert len(listed) == 1
    assert listed[0].rstrip().endswith("0:02:00"), "the name gives way"
    assert "123.5 MB" in listed[0]


def test_whoever_is_silent_comes_first_and_is_counted(make_report) -> None:
    report = make_report(workers=[worker(1), worker(2, silent_seconds=99.0), worker(3)])
    listed = lines_with("crawl-", report)[1:]
    assert [line.split()[0] for line in listed] == ["crawl-2", "crawl-1", "crawl-3"]
    assert "not responding" in listed[0]
    assert "workers   2, 1 not responding" in text(report)


def test_a_worker_that_told_nothing_is_listed_by_its_id(make_report) -> None:
    (line,) = lines_with("elsewhere:5:1", make_report(workers=[WorkerSeen("elsewhere:5:1", 3, 2.0)]))
    assert line.split()[1:] == ["-", "-", "-", "3", "-", "-", "-", "-", "2.0", "s", "ago", "-"]


def test_versions_are_told_when_they_differ(make_report) -> None:
    assert not any("1.2" in line for line in lines_with("fetching", make_report(workers=[worker(1), worker(2)])))
    mixed = text(make_report(workers=[worker(1), worker(2, version="1.3")]))
    assert "skitter" in mixed
    assert "1.3" in mixed


def test_many_workers_are_cut_short_unless_all_are_asked_for(make_report) -> None:
    report = make_report(workers=[worker(number) for number in range(100, 150)])
    assert len(lines_with("fetching", report)) == MAX_WORKERS
    assert "and 30 more; -v lists all" in text(report)
    assert len(lines_with("fetching", report, verbose=True)) == 50


@pytest.mark.parametrize(
    ("age_seconds", "queued", "shown"), [(0.3, 0, "starting, begun"), (60, 0, "interrupted,"), (0.3, 1, "interrupted,")]
)
def test_a_job_that_has_just_begun_is_starting_and_not_interrupted(make_report, age_seconds, queued, shown) -> None:
    report = make_report(workers=[], counts=Counts(queued=queued))
    job = msgspec.structs.replace(report.job, state=State.RUNNING, started_at=130.0 - age_seconds, ended_at=0.0)
    (line,) = lines_with("state ", msgspec.structs.replace(report, job=job))
    assert line.startswith(f"state     {shown}")


def test_the_rate_of_now_stands_beside_the_average(make_report) -> None:
    report = make_report(pages_per_second=145.23)
    assert "state     running, 0:02:10, 145.2 pages/s now, 95.0 on average" in text(report)
    ended = msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, ended_at=60.0))
    assert "state     running, 0:01:00, 205.8 pages/s\n" in text(ended)


def test_a_lease_that_nobody_returns_is_told(make_report) -> None:
    assert "overdue" not in text(make_report())
    assert "a lease is 0:02:05 overdue" in text(make_report(overdue_seconds=125.0))


def test_long_queues_have_a_table_unless_it_is_the_same_hosts(make_report) -> None:
    report = make_report()
    assert "long queues" not in text(msgspec.structs.replace(report, crowded=report.hosts[:2]))
    told = text(msgspec.structs.replace(report, crowded=[host("https://big.example", 70_000)]))
    assert "long queues" in told
    assert "70,000" in told


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(make_report, width) -> None:
    report = make_report(workers=[worker(1, host_name="a-rather-long-name.of.a.machine.example")])
    lines = as_text(status_view(report, PLACE.frontier), 130.0, width=width)
    assert max(map(len, lines)) <= width
    if width >= 80:
        assert any("in a row)" in line for line in lines), "the name of a host gives way, not its trouble"


def test_nodes_with_a_coordinator_are_counted_and_those_that_cannot_reach_it(make_report) -> None:
    at = {"coordinator": "zookeeper://h1,h2/crawls"}
    workers = [
        worker(1, member="a", **at),
        worker(2, member="a", **at),
        worker(3, member="b", waits_for="coordinator", **at),
        worker(4),
        worker(5, member="c", silent_seconds=1e6, **at),
    ]
    assert "nodes     2, coordinator zookeeper://h1,h2/crawls; 1 worker cannot reach it\n" in text(
        make_report(workers=workers)
    )
    assert "nodes " not in text(make_report(workers=[worker(4)]))


def test_nothing_of_a_worker_moves_the_terminal(make_report) -> None:
    evil = worker(1, host_name="\x1b[2Jx\ny", doing="\x07", version="1\u202e")
    told = text(make_report(workers=[evil, worker(2)]))
    assert all(line.isprintable() for line in told.splitlines())


def test_json_has_a_flat_object_for_each_worker(make_report) -> None:
    told = as_json(status_view(make_report(workers=[worker(7), WorkerSeen("elsewhere:5:1", 3, 99.0)]), PLACE.frontier))
    first, second = told["worker_list"]
    assert first == {
        "id": "crawl-7:7:1",
        "leased": 8,
        "silent_seconds": 0.2,
        "alive": True,
        "host_name": "crawl-7",
        "pid": 7,
        "version": "1.2",
        "spider": "",
        "started_at": 10.0,
        "doing": "fetching",
        "in_flight": 0,
        "slots": 0,
        "waits_for": "",
        "pages_per_second": 0.0,
        "latency_seconds": 0.0,
        "needs": [],
        "share": 0.0,
        "problem": "",
        "member": "",
        "coordinator": "",
        "memory_bytes": 0,
    }
    assert (second["alive"], second["host_name"]) == (False, "")
    assert first.keys() == second.keys()
    assert told["workers"] == 1
    assert "hunter2" not in str(told)


def test_a_node_that_skips_the_job_is_no_worker_and_says_why(make_report) -> None:
    skips = worker(8, doing="skipped", problem="books.py:Books is missing on this node")
    report = make_report(workers=[worker(7), skips])
    shown = text(report)
    assert "workers   1, skipped by crawl-8" in shown
    assert "skipped: books.py:Books is missing on this node" in shown
    view = job_view(report, PLACE.frontier)
    assert (view.workers, view.skipped_by) == (1, {"crawl-8": "books.py:Books is missing on this node"})


def test_a_host_that_has_had_its_pages_is_shown_with_the_setting(make_report) -> None:
    stopped = msgspec.structs.replace(host("http://a.example", 5), pages=1500, stopped_by="trap_pages")
    assert lines_with("stopped after 1,500 pages (trap_pages)", make_report(hosts=[stopped]))


def test_a_host_that_waits_for_its_address_says_so(make_report) -> None:
    waits = msgspec.structs.replace(host("https://one.example", 5), address="192.0.2.1", address_full=True)
    (line,) = lines_with("one.example", msgspec.structs.replace(make_report(), crowded=[waits]))
    assert line.split() == ["https://one.example", "-", "0", "5", "address", "-"]
    trace = msgspec.structs.replace(TRACE, host=waits)
    reasons = sentences(trace, make_report())
    assert "it waits for its IP address: 192.0.2.1 has as many requests in flight as per_ip allows" in reasons
    assert not [reason for reason in reasons if "fetched now" in reason]
    free = msgspec.structs.replace(trace, host=msgspec.structs.replace(waits, address_full=False))
    assert [reason for reason in sentences(free, make_report()) if "fetched now" in reason]


def test_a_need_that_no_live_worker_serves_is_named(make_report) -> None:
    gone = worker(3, silent_seconds=99.0, needs=("browser",))
    needs = [NeedSeen("browser", 12), NeedSeen("session", 1)]
    report = msgspec.structs.replace(make_report(workers=[worker(1, needs=("session",)), gone]), needs=needs)
    assert lines_with("blocked", report) == ["blocked   need browser: 12 requests, no worker serves it"]
    assert lines_with("session", report) == ["need      session: 1 request, served by 1 worker"]
    told = as_json(status_view(report, PLACE.frontier))
    assert told["needs"] == [
        {"name": "browser", "queued": 12, "workers": 0},
        {"name": "session", "queued": 1, "workers": 1},
    ]
    assert told["worker_list"][0]["needs"] == ["session"]


@pytest.mark.parametrize(
    ("needs", "sentence", "is_ready"),
    [
        ((), "no worker can serve its need browser", False),
        (("browser",), "it needs browser, which 1 worker can serve now", True),
    ],
)
def test_why_says_what_a_request_with_a_need_waits_for(make_report, needs, sentence: str, is_ready: bool) -> None:
    reasons = sentences(msgspec.structs.replace(TRACE, need="browser"), make_report(workers=[worker(1, needs=needs)]))
    assert sentence in reasons
    assert bool([reason for reason in reasons if "fetched now" in reason]) is is_ready


def test_status_says_when_its_counts_are_not_from_one_instant(make_report) -> None:
    for exact in (True, False):
        status = status_view(make_report(exact=exact), "redis+cluster://…")
        assert as_json(status)["exact"] is exact
        assert ("not exact" in "\n".join(as_text(status, 0.0))) is not exact
