"""What a running crawl shows, at any size of the terminal, and where there is none."""

from __future__ import annotations

import errno
import io
import json
import sys
from typing import Any

import msgspec
import pytest
from rich.console import Console

from skitter.app.report_polling import Detail
from skitter.cli.live_display import LiveDisplay, detail_for, frame
from skitter.cli.progress import PlainLines, Silent, choose_progress, plain_line
from skitter.cli.run_messages import JsonProgress, RunOutput
from skitter.cli.throughput import ASCII_BLOCKS, Throughput
from skitter.model.job import Counts, FailedRequest, HostSeen, SinkSeen, State
from skitter.settings import Logging


def paced(*pages: int, step: float = 0.5) -> Throughput:
    throughput = Throughput()
    for place, value in enumerate(pages):
        throughput.sample(place * step, value)
    return throughput


# ---- pace


def test_pages_per_second_are_those_of_the_last_ten_seconds() -> None:
    assert paced(*range(0, 2_000, 50)).pages_per_second == 100
    assert paced(*[0] * 10, *range(0, 2_000, 50)).pages_per_second == 100
    assert paced(*range(0, 1_000, 50), *[1_000] * 40).pages_per_second == 0


def test_a_new_run_is_not_a_negative_speed() -> None:
    throughput = paced(100, 200, 0, 50)
    assert throughput.pages_per_second == 100
    assert "█" in throughput.spark(10)


@pytest.mark.parametrize("pages", [[], [5], [5, 5]])
def test_no_speed_yet(pages) -> None:
    assert paced(*pages).pages_per_second == 0
    assert paced(*pages).spark(10).strip() == ""


def test_the_spark_line_shows_the_last_samples() -> None:
    throughput = paced(0, 0, 1, 3, 7, 15)
    assert throughput.spark(10) == " ▂▃▅█"
    assert throughput.spark(2) == "▅█"
    assert throughput.spark(0) == ""
    assert throughput.spark(10, ASCII_BLOCKS).isascii()


# ---- the display


@pytest.mark.parametrize("width", [20, 40, 79, 119, 129, 130, 199, 300])
@pytest.mark.parametrize("height", [1, 2, 4, 8, 23, 60])
def test_a_frame_fits_any_terminal(make_report, width, height) -> None:
    lines = frame(make_report(), paced(*range(0, 40_000, 100)), 3_725, width, height)
    assert 1 <= len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    assert lines[0].plain.startswith("a.example  running"[:width])


@pytest.mark.parametrize("width", [79, 199])
def test_a_frame_says_everything(make_report, width) -> None:
    shown = "\n".join(line.plain for line in frame(make_report(), paced(0, 50), 83, width, 23))
    words = "a.example|running|0:01:23|1 worker|pages/s|100.0|done|12,345|queued|51,234|in flight|64|delayed|failed|12"
    words += (
        "|excluded|redirects|30|duplicates|1.235 M|items|undelivered|37|fetched|93.8 MB|http_4xx 8  timeout 3  dns 1"
    )
    words += "|slow hosts|latency|waits|1.2 s|http_5xx|3.4 s"
    for word in words.split("|"):
        assert word in shown
    assert "tls" not in shown


def test_eighty_columns_lose_no_figure(make_report) -> None:
    huge = Counts(**dict.fromkeys(Counts.__struct_fields__, 999_999))
    lines = frame(make_report(counts=huge), paced(0, 50), 83, 79, 23)
    assert sum(line.plain.count("999,999") for line in lines) == len(Counts.__struct_fields__)


def test_wide_terminals_have_the_hosts_beside_the_figures(make_report) -> None:
    lines = [line.plain for line in frame(make_report(), paced(0, 50), 83, 199, 23)]
    assert "done" in lines[3]
    assert "slow hosts" in lines[3]
    assert len(lines) == 9


def failure(number: int, error: str = "HTTP 404") -> FailedRequest:
    url = f"https://a.example/{number}\x1b[2J"
    more = {"status": 404, "attempts": 1, "losses": 0, "referrer": None, "ended_at": float(number)}
    return FailedRequest(id=number, url=url, error_class="http_4xx", error=error, **more)


def hosts(number: int) -> list[HostSeen]:
    fields = {"queued": 3, "in_flight": 1, "due_seconds": 0.0, "blocked_seconds": 0.0, "latency_seconds": 0.1}
    rest = {"strikes": 0, "error_class": "", "pages": 7}
    return [HostSeen(key=f"https://{n}.example", **fields, **rest) for n in range(number)]


@pytest.mark.parametrize("width", [79, 199])
def test_a_large_terminal_shows_more_and_a_small_one_stays_compact(make_report, width) -> None:
    report, failures = make_report(hosts=hosts(16)), [failure(n) for n in range(10)]

    def shown(height: int) -> str:
        lines = frame(report, paced(0, 50), 83, width, height, failures=failures)
        assert len(lines) <= height
        return "\n".join(line.plain for line in lines)

    large, small = shown(49), shown(23)
    assert (large.count(".example  ") - 1, small.count(".example  ") - 1) == (16, 5)
    assert "fetching" in small
    assert (large.count("http_4xx  https://a.example/"), small.count("http_4xx  https")) == (10, 0)
    assert "\x1b" not in large
    assert (detail_for(24), detail_for(50)) == (Detail(5, 0), Detail(16, 10))


@pytest.mark.parametrize(
    ("settings", "key", "is_shown"),
    [
        ({}, "https://a.example", True),
        ({}, "http://127.0.0.1:8600", False),
        ({"delay_seconds": 0.0}, "https://a.example", False),
        ({"per_host": 4}, "https://a.example", False),
        ({"target_concurrency": 1.0}, "https://a.example", False),
    ],
)
def test_the_pace_of_public_hosts_is_shown_where_it_applies(make_report, settings, key, is_shown) -> None:
    report = make_report(hosts=[msgspec.structs.replace(hosts(1)[0], key=key)])
    unset = dict.fromkeys(("delay_seconds", "per_host", "target_concurrency"))
    spec = msgspec.structs.replace(report.job.spec, settings=unset | settings)
    report = msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, spec=spec))
    shown = [line.plain for line in frame(report, paced(0, 50), 83, 79, 23)]
    assert ("pace      public hosts: 2 requests at a time, 0.5 s apart" in shown) == is_shown


def test_progress_towards_the_limit_and_the_rest(make_report) -> None:
    def line(limit: int | None, *pages: int, **changes: Any) -> str:
        report = make_report(counts=Counts(done=500, queued=80, leased=20), **changes)
        spec = msgspec.structs.replace(report.job.spec, settings={"max_pages": limit, "delay_seconds": 0.0})
        report = msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, spec=spec))
        return frame(report, paced(*pages), 83, 79, 23)[2].plain

    assert line(2000, 0, 50).startswith("progress       25% of 2,000 pages, about 0:00:15 left  ")
    assert "left" not in line(2000)
    assert line(None, 0, 50) == "to do     100 pages found so far, about 0:00:01 left, plus new links"
    assert line(None, 0, 50, state=State.FINISHED).startswith("done")


def test_a_blocked_sink_is_seen_first(make_report) -> None:
    sinks = [SinkSeen(target="pages\x1b[1m.jsonl", undelivered=1, owner="x", blocking=True)]
    report = make_report(sinks=sinks)
    assert "running, blocked by output pages[1m.jsonl" in frame(report, Throughput(), 0, 79, 5)[0].plain
    assert plain_line(report, 0, 0).endswith("blocked by output: pages[1m.jsonl")


@pytest.mark.parametrize("state", State)
def test_every_state_can_be_drawn(make_report, state) -> None:
    assert str(state) in frame(make_report(state=state, hosts=[], errors={}), Throughput(), 0, 79, 23)[0].plain


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def display(**options: Any) -> tuple[LiveDisplay, io.StringIO, Clock]:
    stream, clock = io.StringIO(), Clock()
    console = Console(file=stream, force_terminal=True, width=80, height=24, **options)
    return LiveDisplay(console, clock), stream, clock


def test_the_display_is_drawn_at_most_four_times_a_second(make_report) -> None:
    live, stream, clock = display()
    with live:
        for _ in range(100):
            clock.now += 0.05
            live.report(make_report())
        drawn = stream.getvalue().count("pages/s")
    assert 10 < drawn <= 20


def test_events_stand_above_and_the_terminal_is_given_back(make_report) -> None:
    live, stream, _ = display()
    with pytest.raises(KeyboardInterrupt), live:  # noqa: PT012  the display is left by an interrupt
        live.report(make_report())
        live.event("worker 7 is gone\x1b[2J [bold]as it is[/bold]")
        raise KeyboardInterrupt
    written = stream.getvalue()
    assert "worker 7 is gone[2J [bold]as it is[/bold]" in written
    assert "\x1b[2J" not in written
    # The cursor was hidden, and is back.
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")


def test_no_color_is_obeyed(make_report, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    live, stream, _ = display()
    with live:
        live.report(make_report())
    assert "\x1b[31m" not in stream.getvalue()
    assert "\x1b[36m" not in stream.getvalue()


# ---- elsewhere


def test_a_plain_line_every_ten_seconds(make_report) -> None:
    stream, clock = io.StringIO(), Clock()
    lines = PlainLines(stream, clock)
    for _ in range(70):
        clock.now += 0.5
        lines.report(make_report())
    lines.event("worker 7 is gone\n\x1b[2J")
    written = stream.getvalue().splitlines()
    assert len(written) == 5
    assert "running: 12,345 pages, 0.0 pages/s, 51,237 queued, 64 in flight, 12 failed" in written[0]
    assert written[3:] == ["worker 7 is gone", "[2J"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_where_the_log_is_json_on_stderr_progress_is_a_line_of_it(
    make_report, capsys, monkeypatch, is_terminal
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    said = RunOutput(Logging(log_format="json"), job="j", quiet=False)
    progress = said.progress(prints_items=False)
    assert isinstance(progress, JsonProgress)
    progress.show(make_report(), 12.34)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["pages"], line["pages_per_second"]) == ("job.progress", 12_345, 12.3)
    # A log file in JSON leaves standard error to people.
    assert not RunOutput(Logging(log_format="json", log_file="x.jsonl"), job="j", quiet=False).is_json


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("quiet", "terminal", "term", "prints_items", "kind"),
    [
        (True, True, "xterm", False, Silent),
        (False, False, "xterm", False, PlainLines),
        (False, True, "dumb", False, PlainLines),
        (False, True, "xterm", True, PlainLines),
        (False, True, "xterm", False, LiveDisplay),
    ],
)
def test_who_is_looking_decides(monkeypatch, quiet, terminal, term, prints_items, kind) -> None:
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", term)
    assert type(choose_progress(quiet=quiet, prints_items=prints_items)) is kind


class Gone(io.StringIO):
    """A terminal that was closed, as the kernel tells it."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def flush(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_a_crawl_outlives_whoever_watched_it(make_report) -> None:
    clock = Clock()
    lines = PlainLines(Gone(), clock)
    live = LiveDisplay(Console(file=Gone(), force_terminal=True, width=80, height=24), clock)
    for progress in (lines, live):
        clock.now += 10
        progress.report(make_report())
        progress.event("worker 7 is gone")
