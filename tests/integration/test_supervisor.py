"""The supervisor with real child processes: small scripts that crash, fall silent, stop, complain and end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvloop

from skitter.errors import BackendError, FrontierError, UsageError
from skitter.frontier.memory import memory_frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Lease
from skitter.model.request import Fingerprinter, Request
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.worker import supervisor as module
from skitter.worker.process import Child
from skitter.worker.supervisor import Supervisor

PRELUDE = """
import json, os, signal, sys, time
pipe = int(sys.argv[1])

def say(**message):
    os.write(pipe, json.dumps(message).encode() + b"\\n")

def live():
    while True:
        time.sleep(60)
"""
HELLO = "say(hello='w1')\n"
END = "say(end=False)\n"
LIVE = HELLO + "say(log='ready')\nlive()\n"
WILLING = "signal.signal(signal.SIGTERM, lambda *_: (say(log='drained'), say(end=False), os._exit(0)))\n" + LIVE


class House:
    """A supervisor whose n-th child runs the n-th script; the last one is for all that follow."""

    def __init__(self) -> None:
        self.frontier = memory_frontier("job")
        self.events: list[str] = []
        self._heard = asyncio.Event()

    async def leased(self, *names: str, worker: str = "w1") -> dict[str, Lease]:
        """These pages are leased by a worker."""
        settings = Settings.from_layers([("test", {"obey_robots": False, "per_host": 64})])
        await self.frontier.begin(JobSpec(name="job", spider="", settings=settings.job_wide()))
        job = await self.frontier.job()
        entry = Fingerprinter(job.secret).entry
        await self.frontier.add([entry(Request(f"http://a.example/{name}")) for name in names])
        grant = await self.frontier.lease(worker, 100)
        return {lease.request.url.rpartition("/")[2]: lease for lease in grant.leases if lease.payload}

    def supervisor(self, *scripts: str, count: int = 1, **options: Any) -> Supervisor:
        started = iter(scripts)
        last = ""

        def command(pipe: int) -> Sequence[str]:
            nonlocal last
            last = next(started, last)
            return [sys.executable, "-E", "-S", "-c", PRELUDE + last, str(pipe)]

        return self.of_command(command, count, **options)

    def of_command(self, command: Callable[[int], Sequence[str]], count: int = 1, **options: Any) -> Supervisor:
        options = {"callback_seconds": 60.0, "shutdown_seconds": 10.0} | options
        return Supervisor(command, count, frontier=self.frontier, on_event=self._hear, **options)

    def _hear(self, event: Event) -> None:
        self.events.append(event.text)
        self._heard.set()

    async def heard(self, text: str, times: int = 1) -> None:
        """Wait for an event."""
        async with asyncio.timeout(30):
            while sum(text in event for event in self.events) < times:
                self._heard.clear()
                await self._heard.wait()

    async def run(self, supervisor: Supervisor) -> None:
        async with asyncio.timeout(30):
            await supervisor.run()


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(module, "_MAX_PAUSE_SECONDS", 0.01)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# ---- ends


async def test_a_worker_that_ends_by_itself_is_not_replaced(house: House) -> None:
    await house.leased()
    await house.run(house.supervisor(HELLO + END, "say(log='again')\n" + END))
    assert house.events == []
    assert await house.frontier.workers() == [], "nobody takes it for alive any more"


async def test_all_workers_have_to_end(house: House) -> None:
    await house.leased()
    await house.run(house.supervisor("say(log='one')\n" + END, count=3))
    assert house.events == ["one"] * 3


@pytest.mark.parametrize(
    ("death", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os.abort()", "SIGABRT"),
        ("os._exit(7)", "exit code 7"),
        ("os._exit(0)", "exit code 0"),
        ("os.kill(os.getpid(), 40)", "signal 40"),
    ],
)
async def test_a_worker_that_dies_is_replaced_and_its_leases_go_back_at_once(
    house: House, death: str, how: str
) -> None:
    leases = await house.leased("a", "b")
    await house.run(house.supervisor(HELLO + death, "say(hello='w2')\n" + END))
    assert f"worker w1 died ({how}); 3 leases go back, and another one takes its place" in house.events
    assert (await house.frontier.counts()).queued == 2
    trace = await house.frontier.trace(leases["a"].id)
    assert trace is not None
    assert (trace.losses, trace.attempts) == (1, 0)


async def test_a_worker_that_wants_to_start_over_may(house: House) -> None:
    await house.leased("a")
    await house.run(house.supervisor(HELLO + "say(end=True)\n", "say(log='anew')\n" + END))
    assert house.events == ["anew"]
    assert (await house.frontier.counts()).queued == 1


async def test_last_words_are_heard(house: House) -> None:
    await house.leased()
    await house.run(house.supervisor("for n in range(500): say(log=str(n))\n" + END))
    assert house.events == [str(n) for n in range(500)]


async def test_garbage_is_not_heard(house: House) -> None:
    await house.leased()
    garbage = """
os.write(pipe, b'{"log": "half\\n\\xff\\xfe\\n[1, 2]\\n7\\n' + b'x' * 200_000 + b'\\n')
say(beat=0, lease=[9, 9, 9])
say(unknown=1)
say(log='and yet')
"""
    await house.run(house.supervisor(garbage + END))
    assert house.events == ["and yet"]


async def test_a_process_that_a_worker_left_behind_does_not_keep_its_place(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skitter.worker.process.LAST_WORDS_SECONDS", 0.1)
    await house.leased("a")
    script = HELLO + "child = os.fork()\nif child: say(log=str(child)); os._exit(7)\nlive()\n"
    try:
        await house.run(house.supervisor(script, END))
        assert any("3 leases go back" in event or "2 leases go back" in event for event in house.events)
    finally:
        os.kill(int(house.events[0]), signal.SIGKILL)


async def test_what_a_worker_prints_is_not_a_result(house: House, capfd: pytest.CaptureFixture[str]) -> None:
    await house.leased()
    await house.run(house.supervisor("print('debug', flush=True)\n" + END))
    out, error = capfd.readouterr()
    assert (out, error) == ("", "debug\n")


# ---- errors


@pytest.mark.parametrize(("code", "kind"), [(2, UsageError), (3, BackendError)])
async def test_an_error_of_a_worker_is_raised_after_the_others_have_stopped(
    house: House, tmp_path: Path, code: int, kind: type[Exception]
) -> None:
    await house.leased("a", worker="w9")
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    error = f"say(hello='w9')\n{wait}say(error='no spider', hint='write one', code={code})\n"
    running = asyncio.create_task(house.run(house.supervisor(WILLING, error, count=2)))
    await house.heard("ready")
    go.touch()
    with pytest.raises(kind, match="no spider") as caught:
        await running
    assert caught.value.hint == "write one"  # type: ignore[attr-defined]
    assert "drained" in house.events
    assert (await house.frontier.counts()).leased == 0


async def test_workers_that_die_before_they_have_started_are_given_up(house: House) -> None:
    await house.leased()
    with pytest.raises(BackendError, match="before they have started: exit code 7"):
        await house.run(house.supervisor("os._exit(7)"))


async def test_workers_that_fail_again_and_again_are_given_up_with_their_last_words(house: House) -> None:
    await house.leased("a")
    with pytest.raises(BackendError, match=r"20 workers have failed .*: KeyError: 'host'") as caught:
        await house.run(house.supervisor(HELLO + "say(failed='KeyError: \\'host\\'')\nos._exit(1)"))
    assert caught.value.exit_code == 3
    assert len(house.events) == module.FAILURES


@pytest.mark.parametrize(
    "death",
    ["say(committed=1)\nsay(failed='KeyError')\nos._exit(1)", "os.abort()", "os.kill(os.getpid(), signal.SIGKILL)"],
)
async def test_workers_that_get_on_or_are_taken_down_are_replaced_however_often(house: House, death: str) -> None:
    await house.leased("a")
    deaths = module.FAILURES + 5
    await house.run(house.supervisor(*[HELLO + death] * deaths, HELLO + END))
    assert len(house.events) == deaths


async def test_a_worker_that_fails_beside_one_that_gets_on_is_replaced(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits something between any two failures."""
    monkeypatch.setattr(module, "FAILURES", 5)
    await house.leased("a")
    beside = "n = 0\nwhile n < 150:\n    n += 1\n    say(committed=n)\n    time.sleep(0.02)\n"
    fails = HELLO + "time.sleep(0.1)\nsay(failed='KeyError')\nos._exit(1)"
    deaths = 9
    await house.run(house.supervisor(HELLO + beside + END, *[fails] * deaths, HELLO + END, count=2))
    assert sum("KeyError" in event for event in house.events) == deaths


async def test_a_command_that_cannot_be_run_is_an_error_in_words(house: House) -> None:
    await house.leased()
    with pytest.raises(BackendError, match="cannot be started"):
        await house.run(house.of_command(lambda pipe: ["no/such/program"], 2))


async def test_a_store_that_fails_while_leases_are_handed_back_is_told(house: House) -> None:
    await house.leased("a")

    async def fail(worker: str) -> int:
        raise FrontierError("the disk is full")

    house.frontier.release_worker = fail  # type: ignore[method-assign]
    with pytest.raises(FrontierError, match="disk is full"):
        await house.run(house.supervisor(HELLO + "os.abort()", WILLING, count=2))


# ---- workers that do not work


async def test_a_silent_worker_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_MARGIN_SECONDS", 0.5)
    leases = await house.leased("a", "b")
    beat = f"say(beat=0.1, lease=[0, {leases['a'].id}, {leases['a'].epoch}])\n"
    await house.run(house.supervisor(HELLO + beat + "live()\n", END, callback_seconds=1.0))
    assert any("died (silent for" in event for event in house.events)
    # Which page it was nobody knows: the last one that was named may have been done long ago.
    assert (await house.frontier.counts()).dead == 0
    assert (await house.frontier.counts()).queued == 2


async def test_a_worker_that_speaks_is_not_silent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_MARGIN_SECONDS", 0.5)
    await house.leased()
    beats = "for _ in range(35): say(beat=0.0, lease=None); time.sleep(0.05)\n"
    await house.run(house.supervisor(HELLO + beats + END, callback_seconds=1.0))
    assert house.events == []


async def test_a_stopped_worker_is_replaced_soon(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOPPED_SECONDS", 0.2)
    leases = await house.leased("a")
    blocked = f"say(beat=3.0, lease=[0, {leases['a'].id}, {leases['a'].epoch}])\n"
    await house.run(house.supervisor(HELLO + blocked + "os.kill(os.getpid(), signal.SIGSTOP)\n", END))
    assert any("died (stopped for" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1, "the page is not to blame"


async def test_a_page_that_holds_its_worker_for_too_long_is_dead_and_its_neighbours_live(house: House) -> None:
    leases = await house.leased("stuck", "b", "c")
    stuck = leases["stuck"]
    beats = f"for n in range(100): say(beat=float(n), lease=[0, {stuck.id}, {stuck.epoch}]); time.sleep(0.05)\n"
    await house.run(house.supervisor(HELLO + beats, END, callback_seconds=3.0))
    (dead,) = await house.frontier.dead()
    assert (dead.url, dead.error_class) == ("http://a.example/stuck", "callback")
    assert "more than 3 s" in dead.error
    assert (await house.frontier.counts()).queued == 2


async def test_a_page_that_moved_on_meanwhile_is_not_dead(house: House) -> None:
    leases = await house.leased("a")
    old = leases["a"]
    await house.frontier.release([old])
    await house.frontier.lease("w1", 10)
    await house.run(
        house.supervisor(
            HELLO + f"say(beat=9.0, lease=[0, {old.id}, {old.epoch}])\nlive()\n", END, callback_seconds=3.0
        )
    )
    assert (await house.frontier.counts()).dead == 0
    assert (await house.frontier.counts()).queued == 1


@pytest.mark.parametrize("lease", ["None", "[2, 0, 1]"], ids=["nobody", "start()"])
async def test_a_loop_that_is_blocked_by_no_page_costs_no_page(house: House, lease: str) -> None:
    await house.leased("a")
    await house.run(house.supervisor(HELLO + f"say(beat=9.0, lease={lease})\nlive()\n", END, callback_seconds=3.0))
    assert any("held by a callback" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1


async def test_a_supervisor_that_was_stopped_itself_blames_nobody(house: House) -> None:
    child = Child.__new__(Child)
    child.silent_seconds, child.blocked_seconds = 0.0, 0.0
    supervisor = house.supervisor(END)
    supervisor._children.add(child)
    killed: list[str] = []
    child.kill = killed.append  # type: ignore[method-assign]
    watching = asyncio.create_task(supervisor._watch())
    await asyncio.sleep(0)
    # As after Ctrl-Z and fg: much time has passed, and the loop comes round once.
    time.sleep(0.3)  # noqa: ASYNC251  the loop is meant to stand still
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert child.silent_seconds <= 2 * module._CHECK_SECONDS
    watching.cancel()
    assert killed == []


# ---- the way out


async def test_stop_asks_and_waits(house: House) -> None:
    await house.leased("a")
    supervisor = house.supervisor(WILLING, count=2)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("ready", 2)
    supervisor.stop()
    await running
    assert house.events.count("drained") == 2
    assert not any("died" in event for event in house.events)


async def test_stop_before_run_starts_nobody(house: House) -> None:
    supervisor = house.supervisor("say(log='started')\n" + END)
    supervisor.stop()
    await house.run(supervisor)
    assert house.events == []


async def test_a_worker_that_crashes_on_its_way_out_has_its_leases_handed_back(house: House) -> None:
    await house.leased("a")
    crash = "signal.signal(signal.SIGTERM, lambda *_: os.abort())\n" + LIVE
    supervisor = house.supervisor(crash)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("ready")
    supervisor.stop()
    await running
    assert any("died (SIGABRT); 2 leases go back" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1


async def test_a_worker_that_does_not_stop_is_ended(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_MARGIN_SECONDS", 0.1)
    await house.leased("a")
    supervisor = house.supervisor("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LIVE, shutdown_seconds=0.2)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("ready")
    supervisor.stop()
    await running
    assert any("did not stop when asked" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1


async def test_kill_does_not_wait(house: House) -> None:
    await house.leased("a")
    supervisor = house.supervisor("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LIVE, count=2)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("ready", 2)
    supervisor.stop()
    supervisor.kill()
    await running
    assert (await house.frontier.counts()).queued == 1


async def test_a_supervisor_that_is_cancelled_leaves_no_process_behind(house: House) -> None:
    await house.leased("a")
    supervisor = house.supervisor("say(log=f'pid {os.getpid()}')\n" + LIVE, count=2)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("ready", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pids = [int(event.split()[1]) for event in house.events if event.startswith("pid")]
    assert len(pids) == 2
    assert all(map(is_gone, pids))
    assert (await house.frontier.counts()).queued == 1


# ---- loops and resources


def test_a_hundred_restarts_leak_nothing() -> None:
    async def scenario() -> None:
        house = House()
        await house.leased()
        starts = 0
        descriptors: list[int] = []

        def command(pipe: int) -> Sequence[str]:
            nonlocal starts
            starts += 1
            descriptors.append(len(list(Path("/proc/self/fd").iterdir())))
            again = "true" if starts < 100 else "false"
            return ["/bin/sh", "-c", f"""echo '{{"end": {again}}}' > /dev/fd/{pipe}"""]

        await house.run(house.of_command(command))
        assert starts == 100
        assert max(descriptors[10:]) <= max(descriptors[:10])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_processes_are_looked_after_on_every_loop(new_loop: Any) -> None:
    async def scenario() -> None:
        house = House()
        await house.leased("a")
        supervisor = house.supervisor(HELLO + "os.abort()", HELLO + "say(end=True)", WILLING)
        running = asyncio.create_task(house.run(supervisor))
        await house.heard("ready")
        supervisor.stop()
        await running
        assert house.events[0].startswith("worker w1 died (SIGABRT); 2 leases go back")
        assert house.events[-1] == "drained"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
