"""What a worker process says to its supervisor: whole lines, without ever waiting, until nobody listens."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rig.processes import HANG_SECONDS
from skitter.app import worker_main as child_module
from skitter.app.worker_config import WorkerConfig
from skitter.node.memory_watch import MemoryWatch
from skitter.node.supervisor_pipe import PipeLogHandler, SupervisorPipe
from skitter.observe import events
from skitter.worker.loop_status import new_status

MEMORY = MemoryWatch(warning_bytes=None, limit_bytes=None, on_warning=print, on_limit=print)


class Pipe:
    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def lines(self) -> list[dict[str, Any]]:
        """Everything said so far."""
        os.set_blocking(self.reading, False)
        data = b""
        while True:
            try:
                chunk = os.read(self.reading, 1 << 16)
            except BlockingIOError:
                break
            if not chunk:
                break
            data += chunk
        return [json.loads(line) for line in data.splitlines()]

    def close(self, *ends: int) -> None:
        for end in ends or (self.reading, self.writing):
            if end in (self.reading, self.writing):
                os.close(end)
            self.reading = -1 if end == self.reading else self.reading
            self.writing = -1 if end == self.writing else self.writing


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close(*(end for end in (pipe.reading, pipe.writing) if end >= 0))


def test_what_is_said_arrives(pipe: Pipe) -> None:
    speaker = SupervisorPipe(pipe.writing)
    speaker.say(hello="w1")
    speaker.say(beat=0.5, lease=[0, -5, 7])
    assert pipe.lines() == [{"hello": "w1"}, {"beat": 0.5, "lease": [0, -5, 7]}]


def test_a_full_pipe_does_not_make_it_wait(pipe: Pipe) -> None:
    speaker = SupervisorPipe(pipe.writing)
    for number in range(100_000):
        speaker.say(beat=float(number), lease=None)
    assert not speaker.is_broken
    assert pipe.lines()[0] == {"beat": 0.0, "lease": None}
    speaker.say(hello="again")
    assert pipe.lines() == [{"hello": "again"}]


def test_there_is_time_for_the_last_words(pipe: Pipe) -> None:
    speaker = SupervisorPipe(pipe.writing)
    for _ in range(100_000):
        speaker.say(log="x" * 100)
    speaking = threading.Thread(target=lambda: speaker.say_last(end=False))
    speaking.start()
    heard: list[dict[str, Any]] = []
    while {"end": False} not in heard:
        heard += pipe.lines()
    speaking.join()


def test_nobody_listens(pipe: Pipe) -> None:
    speaker = SupervisorPipe(pipe.writing)
    pipe.close(pipe.reading)
    speaker.say(beat=0.0, lease=None)
    assert speaker.is_broken


@pytest.mark.parametrize("text", ["x" * 100_000, "ü" * 100_000, "😀" * 100_000, '"\n' * 50_000])
def test_a_long_line_loses_its_middle_so_that_it_is_written_in_one_piece(pipe: Pipe, text: str) -> None:
    SupervisorPipe(pipe.writing).say(error="what happened: " + text + " the end", hint="do this", code=2)
    (line,) = pipe.lines()
    assert line["error"].startswith("what happened: ")
    assert line["error"].endswith(" the end")
    assert (line["hint"], line["code"]) == ("do this", 2)
    assert len(json.dumps(line)) < select.PIPE_BUF


def test_what_a_spider_starts_does_not_inherit_it(pipe: Pipe) -> None:
    os.set_inheritable(pipe.writing, True)
    SupervisorPipe(pipe.writing)
    assert not os.get_inheritable(pipe.writing)


def test_log_lines_are_told(pipe: Pipe) -> None:
    handler = PipeLogHandler(SupervisorPipe(pipe.writing))
    handler.emit(logging.makeLogRecord({"name": "skitter.test", "levelno": logging.WARNING, "msg": "the disk is full"}))
    assert pipe.lines() == [{"log": "the disk is full", "logger": "skitter.test", "level": 30}]


def test_what_libraries_say_below_a_warning_is_not_told(pipe: Pipe) -> None:
    handler = PipeLogHandler(SupervisorPipe(pipe.writing))
    library = {"name": "httpx", "pathname": "/venv/lib/python3/site-packages/httpx/_client.py"}
    for level in (logging.INFO, logging.WARNING):
        handler.handle(logging.makeLogRecord(library | {"levelno": level, "msg": "GET"}))
    handler.handle(logging.makeLogRecord({"name": "own", "pathname": "/home/me/own.py", "levelno": 20, "msg": "mine"}))
    assert [(line["logger"], line["level"]) for line in pipe.lines()] == [("httpx", 30), ("own", 20)]


def test_events_are_told_with_their_fields(pipe: Pipe) -> None:
    handler = PipeLogHandler(SupervisorPipe(pipe.writing))
    event = events.WORKER_LEFT(worker="w1", reason="the job is finished")
    handler.emit(logging.makeLogRecord({"name": "skitter.events", "levelno": 20, "event": event}))
    (line,) = pipe.lines()
    assert events.received(line["event"], line["fields"], line["level"], line["at"]) == event


def test_a_long_field_loses_its_middle_too(pipe: Pipe) -> None:
    handler = PipeLogHandler(SupervisorPipe(pipe.writing))
    event = events.FRONTIER_AWAY(store="redis://db", reason="no answer: " + "x" * 10_000 + " the end")
    handler.emit(logging.makeLogRecord({"name": "skitter.events", "levelno": 30, "event": event}))
    (line,) = pipe.lines()
    assert line["fields"]["reason"].startswith("no answer: ")
    assert line["fields"]["reason"].endswith(" the end")


class Stand:
    """Of a worker, what the heartbeat needs."""

    def __init__(self) -> None:
        self.stopped = 0
        self.committed = 0

    def stop(self) -> None:
        self.stopped += 1


async def test_the_heartbeat_says_that_the_process_is_alive(pipe: Pipe) -> None:
    worker = Stand()
    heartbeat = child_module._Heartbeat(worker, SupervisorPipe(pipe.writing), 10.0, MEMORY)  # type: ignore[arg-type]
    heartbeat.beat()
    worker.committed = 4
    heartbeat.beat()
    heartbeat.beat()
    lines = pipe.lines()
    assert [line for line in lines if "beat" in line] == [{"beat": True}] * 3
    assert [line for line in lines if "committed" in line] == [{"committed": 4}]
    assert worker.stopped == 0


async def test_a_worker_whose_supervisor_is_gone_stops_and_if_it_cannot_it_ends(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, ended = Stand(), []
    now = 100.0
    monkeypatch.setattr(child_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(child_module.os, "_exit", ended.append)
    heartbeat = child_module._Heartbeat(worker, SupervisorPipe(pipe.writing), 10.0, MEMORY)  # type: ignore[arg-type]
    pipe.close(pipe.reading)
    heartbeat.beat()
    await asyncio.sleep(0)
    assert worker.stopped == 1
    now += 14.0
    heartbeat.beat()
    assert ended == []
    now += 2.0
    heartbeat.beat()
    assert ended == [1]


def test_a_worker_that_waits_for_its_store_does_not_outlive_its_supervisor() -> None:
    # Nobody listens there, and nobody else is given the port meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        config = WorkerConfig(frontier=f"redis://127.0.0.1:{taken.getsockname()[1]}/0", job="j", run={})
        pipe, status = Pipe(), new_status()
        child = subprocess.Popen(
            [sys.executable, "-m", "skitter.app", str(pipe.writing), str(status)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[pipe.writing, status],
        )
        os.close(pipe.writing)
        os.close(status)
        assert child.stdin is not None
        assert child.stderr is not None
        try:
            child.stdin.write(msgspec.json.encode(config))
            child.stdin.close()
            # It waits, and says that it lives.
            with os.fdopen(pipe.reading) as heard:
                while "beat" not in json.loads(heard.readline()):
                    pass
            assert child.wait(HANG_SECONDS) == 1
            assert child.stderr.read() == b""
        finally:
            child.kill()
            child.wait()
            child.stderr.close()
