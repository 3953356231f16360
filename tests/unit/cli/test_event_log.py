"""Event lines: one line each, in the form that whoever reads it can use, with nothing in it that nobody may see."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skitter.cli import event_log as module
from skitter.cli.event_log import event_log_lines, terminal_line
from skitter.cli.progress import Silent
from skitter.errors import UsageError
from skitter.observe import events
from skitter.observe.events import Event, Level
from skitter.observe.log_lines import json_line, text_line
from skitter.settings import Logging

LEFT = events.WORKER_LEFT(worker="w1", reason="the job is finished")
EVIL = 'x\n{"event":"worker.died"}\r\x1b[2J\u2028\u202eevil\x85'


class Shown(Silent):
    """A terminal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, text: str) -> None:
        self.lines.append(text)


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stream]:
    """To be called in the test itself: before that, standard error is pytest's."""

    def replace(*, is_terminal: bool = False) -> Stream:
        stream = Stream(is_terminal=is_terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return replace


def names(stream: io.StringIO) -> list[str]:
    """Of text lines: time, level, name."""
    return [line.split()[2].removesuffix(":") for line in stream.getvalue().splitlines()]


def every_level(log: Any) -> None:
    for kind in (events.LEASES_GRANTED, events.WORKER_JOINED, events.SINK_CAUGHT_UP, events.WORKER_GONE):
        log.event(kind(**dict.fromkeys(kind.fields, "x")))


# ---- forms


def test_a_json_line_has_job_node_and_worker() -> None:
    line = json.loads(json_line(LEFT, "shop"))
    assert (line["event"], line["level"], line["job"], line["worker"]) == ("worker.left", "info", "shop", "w1")
    assert line["node"]
    assert line["message"] == "worker w1 left: the job is finished"
    assert line["reason"] == "the job is finished"
    assert line["time"].endswith("Z")


def test_a_text_line_has_each_fact_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "vm")

    def line(kind: Any, worker: str, job: str = "shop") -> str:
        return text_line(kind(**(dict.fromkeys(kind.fields, "x") | {"worker": worker})), job).partition("Z ")[2]

    # The worker is in the message, and its id begins with its node.
    assert line(events.WORKER_LEFT, "vm:1:2") == "info    worker.left: worker vm:1:2 left: x (job=shop)"
    assert line(events.WORKER_LEFT, "vm:1:2", "") == "info    worker.left: worker vm:1:2 left: x"
    assert line(events.WORKER_LEFT, "w1") == "info    worker.left: worker w1 left: x (job=shop node=vm)"
    read = "debug   robots.read: x/robots.txt was read: x bytes, crawl-delay x s"
    assert line(events.ROBOTS_READ, "vm:1:2") == f"{read} (job=shop worker=vm:1:2)"
    assert line(events.ROBOTS_READ, "w1") == f"{read} (job=shop node=vm worker=w1)"
    assert text_line(events.NODE_STOPPING(signal=2), "vm").endswith(" (job=vm node=vm)")


FAILED = events.CALLBACK_FAILED(
    worker="w1",
    url="http://a.example/1",
    failure="KeyError in parse, books.py line 3",
    traceback='Traceback (most recent call last):\n  File "books.py", line 3, in parse\n    x["x"]\nKeyError: \'x\'',
)


@pytest.mark.parametrize("form", [text_line, terminal_line])
def test_a_traceback_keeps_its_lines_in_text_and_none_of_them_passes_for_an_event(form: Any) -> None:
    first, *more = form(FAILED).splitlines()
    assert "http://a.example/1 failed in the spider's code" in first
    assert more == [
        "  | Traceback (most recent call last):",
        '  |   File "books.py", line 3, in parse',
        '  |     x["x"]',
        "  | KeyError: 'x'",
    ]
    said = form(events.log_line("first\n2026-01-01T00:00:00.000Z error   worker.died: forged", "books", logging.ERROR))
    assert [line[:4] for line in said.splitlines()[1:]] == ["  | "]


def test_a_traceback_is_one_field_in_json() -> None:
    line = json_line(FAILED, "shop")
    assert len(line.splitlines()) == 1
    fields = json.loads(line)
    assert fields["traceback"].splitlines()[-1] == "KeyError: 'x'"
    assert "Traceback" not in fields["message"]


def test_workers_that_meet_the_same_failure_have_it_told_once(stderr: Any) -> None:
    pipe = stderr()
    with event_log_lines(Logging(), Silent(), job="shop") as log:
        for worker in ("w1", "w2"):
            event = events.CALLBACK_FAILED(**(FAILED.fields | {"worker": worker}))
            log.event(event)
    assert pipe.getvalue().count("Traceback") == 1


def test_a_terminal_gets_the_time_and_the_words() -> None:
    assert terminal_line(LEFT).endswith(" worker w1 left: the job is finished")
    assert terminal_line(LEFT)[2] == ":"


@pytest.mark.parametrize("form", [json_line, text_line, lambda event, _: terminal_line(event)])
def test_nothing_forges_a_line(form: Any) -> None:
    event = events.HOST_GIVEN_UP(worker="w1", host=EVIL, error_class=EVIL, strikes=4)
    line = form(event, "shop")
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_json_keeps_what_a_terminal_must_not_see() -> None:
    event = events.HOST_GIVEN_UP(worker="w1", host=EVIL, error_class="dns", strikes=4)
    assert json.loads(json_line(event, "shop"))["host"] == EVIL


@pytest.mark.parametrize("form", [json_line, text_line, lambda event, _: terminal_line(event)])
@pytest.mark.parametrize("url", ["https://me:hunter2@a.example/x", "redis://:hunter2@db:6379/0", "http://hunter2@b/"])
def test_a_password_in_a_url_is_not_written(form: Any, url: str) -> None:
    line = form(events.log_line(f"lost the lease of {url}", "skitter.worker", logging.WARNING), "shop")
    assert "hunter2" not in line
    assert "***@" in line


@pytest.mark.parametrize("text", ["https://a.example/@me/x", "mail me@a.example", "http://a.example/?x=http://b/@c"])
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert json.loads(json_line(events.log_line(text, "books", logging.WARNING), "shop"))["message"].endswith(text)


def test_what_is_said_through_logging_names_its_logger() -> None:
    event = events.log_line("the feed is old", "books", logging.WARNING)
    assert terminal_line(event).endswith(" WARNING books: the feed is old")
    assert json.loads(json_line(event, "shop"))["logger"] == "books"


# ---- where they go


def test_elsewhere_than_on_a_terminal_lines_are_text_from_info_on(stderr: Any) -> None:
    pipe = stderr()
    with event_log_lines(Logging(), Silent(), job="shop") as log:
        every_level(log)
    assert names(pipe) == ["worker.joined", "sink.caught_up", "worker.gone"]
    assert log.level == Level.INFO


def test_verbose_adds_every_batch(stderr: Any) -> None:
    pipe = stderr()
    with event_log_lines(Logging(), Silent(), job="shop", verbose=1) as log:
        every_level(log)
    assert names(pipe)[0] == "leases.granted"


@pytest.mark.parametrize(("verbose", "shown"), [(0, 2), (1, 3), (2, 4)])
def test_a_terminal_shows_a_few(stderr: Any, verbose: int, shown: int) -> None:
    stderr(is_terminal=True)
    display = Shown()
    with event_log_lines(Logging(), display, job="shop", verbose=verbose) as log:
        every_level(log)
    assert len(display.lines) == shown
    assert not any(line.startswith("{") for line in display.lines)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_json_has_to_be_asked_for_and_is_the_same_on_a_terminal(stderr: Any, is_terminal: bool) -> None:
    stream = stderr(is_terminal=is_terminal)
    with event_log_lines(Logging(log_format="json"), Silent(), job="shop") as log:
        every_level(log)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == names_of_three()


def test_a_log_file_in_json_leaves_the_terminal_in_words(stderr: Any, tmp_path: Path) -> None:
    stderr(is_terminal=True)
    display, file = Shown(), tmp_path / "events.jsonl"
    with event_log_lines(Logging(log_format="json", log_file=str(file)), display, job="shop") as log:
        log.event(events.WORKER_GONE(worker="w", leases=3))
    assert display.lines[0].endswith("worker w is lost; 3 leases are returned")
    assert json.loads(file.read_text())["leases"] == 3


def test_a_file_is_appended_to_and_leaves_the_pipe_alone(stderr: Any, tmp_path: Path) -> None:
    pipe = stderr()
    file = tmp_path / "events.log"
    for _ in range(2):
        with event_log_lines(Logging(log_file=str(file), log_format="json"), Silent(), job="shop") as log:
            every_level(log)
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == names_of_three() * 2
    assert pipe.getvalue() == ""


def names_of_three() -> list[str]:
    return ["worker.joined", "sink.caught_up", "worker.gone"]


def test_quiet_silences_all_but_a_file(stderr: Any, tmp_path: Path) -> None:
    pipe = stderr()
    file = tmp_path / "events.log"
    with event_log_lines(Logging(log_file=str(file)), Silent(), job="shop", quiet=True) as log:
        every_level(log)
    with event_log_lines(Logging(), Silent(), job="shop", quiet=True) as silent:
        every_level(silent)
        assert silent.level > Level.ERROR, "workers need not even tell"
    assert pipe.getvalue() == ""
    assert len(file.read_text().splitlines()) == 3


def test_a_level_leaves_out_what_matters_less(stderr: Any) -> None:
    pipe = stderr()
    with event_log_lines(Logging(log_level="warning"), Silent(), job="shop") as log:
        every_level(log)
    assert names(pipe) == ["worker.gone"]


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"cannot be written: .*Is a directory") as caught,
        event_log_lines(Logging(log_file=str(tmp_path)), Silent(), job="shop"),
    ):
        pass
    assert caught.value.hint


def test_a_full_disk_does_not_end_a_crawl(monkeypatch: pytest.MonkeyPatch, stderr: Any) -> None:
    stderr()

    def full(stream: Any, line: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with event_log_lines(Logging(), Silent(), job="shop") as log:
        every_level(log)


# ---- what this process says itself


def test_records_of_logging_are_lines_and_logging_is_as_before_afterwards(stderr: Any) -> None:
    pipe = stderr()
    root = logging.getLogger()
    before = list(root.handlers), root.level, events.logger.level
    with event_log_lines(Logging(), Silent(), job="shop"):
        logging.getLogger("books").warning("the feed is %s", "old")
        logging.getLogger("books").debug("not this")
        events.emit(events.FRONTIER_AWAY(store="redis://db", reason="gone"))
        events.emit(events.LEASES_GRANTED(worker="w", leases=1, hosts=1))
    assert names(pipe) == ["books", "frontier.unavailable"]
    assert (list(root.handlers), root.level, events.logger.level) == before


@pytest.mark.parametrize(("level", "said"), [("debug", ["debug", "info"]), ("info", ["info"]), ("warning", [])])
def test_log_level_counts_for_loggers_of_the_users_code_and_not_for_libraries(
    stderr: Any, level: Any, said: list[str]
) -> None:
    pipe = stderr()
    with event_log_lines(Logging(log_level=level), Silent(), job="shop"):
        for name in ("skitter.spider.books", "own.module"):
            logging.getLogger(name).debug("x")
            logging.getLogger(name).info("x")
        # As a library would: the record names the file that it was made in.
        library = logging.makeLogRecord(
            {"name": "httpx", "levelno": logging.INFO, "pathname": "/venv/lib/site-packages/httpx/_client.py"}
        )
        logging.getLogger("httpx").handle(library)
    levels = [line.split()[1] for line in pipe.getvalue().splitlines()]
    assert levels == said * 2


def test_a_library_whose_level_was_set_is_heard(stderr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = stderr()
    monkeypatch.setattr(logging.getLogger("httpx"), "level", logging.INFO)
    with event_log_lines(Logging(), Silent(), job="shop"):
        for number in (logging.DEBUG, logging.INFO):
            place = {"pathname": "/venv/lib/site-packages/httpx/_client.py", "msg": "GET"}
            logging.getLogger("httpx.pool").handle(
                logging.makeLogRecord({"name": "httpx.pool", "levelno": number, **place})
            )
    assert [line.split()[1:3] for line in pipe.getvalue().splitlines()] == [["info", "httpx.pool:"]]


def test_a_terminal_shows_what_a_spider_says(stderr: Any) -> None:
    stderr(is_terminal=True)
    display = Shown()
    with event_log_lines(Logging(), display, job="shop") as log:
        logging.getLogger("skitter.spider.books").info("page 3")
        log.event(events.WORKER_JOINED(**dict.fromkeys(events.WORKER_JOINED.fields, "x")))
    assert [line[9:] for line in display.lines] == ["INFO skitter.spider.books: page 3"]


def test_an_event_of_another_version_is_not_lost() -> None:
    event = events.received("worker.slept", {"worker": "w1", "hours": 8}, 27, 5.0)
    assert isinstance(event, Event)
    assert event.text == "worker.slept: worker=w1, hours=8"
    assert events.received("worker.left", {"worker": "w1"}, 20, 5.0).text == "worker w1 left: ?"


def test_what_a_worker_of_a_script_said_is_said_by_its_own_logger(caplog: pytest.LogCaptureFixture) -> None:
    events.emit(events.log_line("the feed is old", "books", logging.WARNING))
    assert caplog.record_tuples == [("books", logging.WARNING, "the feed is old")]


# ---- outages


def test_an_outage_that_all_workers_report_is_told_once_for_each_store(stderr: Any) -> None:
    pipe = stderr()
    with event_log_lines(Logging(), Silent(), job="shop") as log:
        for store in ("redis://a", "redis://b"):
            for reason in ("gone", "silent", "gone"):
                log.event(events.FRONTIER_AWAY(store=store, reason=reason))
            for seconds in (1.0, 1.1, 1.2):
                log.event(events.FRONTIER_BACK(store=store, seconds=seconds))
    assert names(pipe) == ["frontier.unavailable", "frontier.back"] * 2
