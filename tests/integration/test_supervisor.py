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
from skitter.node import supervisor as module
from skitter.node.supervisor import Supervisor
from skitter.node.worker_process import HELD_NICENESS, WorkerProcess
from skitter.observe.events import Event
from skitter.settings import Settings
from skitter.worker.loop_status import LoopStatus

PRELUDE = """
import json, os, signal, sys, time
import mmap, struct
pipe = int(sys.argv[1])
status = mmap.mmap(int(sys.argv[2]), 1024)

def say(**message):
    os.write(pipe, json.dumps(message).encode() + b"\\n")

def on_loop(work, number, epoch, ticks=1):
    # As loop_status has it: ticks, steps, epoch, id, work, length of the host key, host key.
    key = b"http://a.example"
    status[: 48 + len(key)] = struct.pack("=6q", ticks, 1, epoch, number, work, len(key)) + key

def spin(seconds=1e9):
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass

def spin_until(path):
    while not os.path.exists(path): pass

def wait_until(path):
    while not os.path.exists(path): time.sleep(0.01)

def live():
    while True:
        time.sleep(60)
"""
HELLO = "say(hello='w1')\n"
END = "say(end=False)\n"
LIVE = HELLO + "say(log='ready')\nlive()\n"
WILLING = "signal.signal(signal.SIGTERM, lambda *_: (say(log='drained'), say(end=False), os._exit(0)))\n" + LIVE


class PatientSupervisor(Supervisor):
    """Counts the time of a worker only where the test says so: how fast a process starts is the machine's doing."""

    time_runs: Callable[[WorkerProcess], bool]

    def _update(self, child: WorkerProcess, seconds: float) -> None:
        super()._update(child, seconds if self.time_runs(child) else 0.0)

    def look(self, seconds: float) -> None:
        """Check all workers, so much later."""
        for child in self._children:
            super()._update(child, seconds)
            self._check(child)

    def child(self, worker: str) -> WorkerProcess:
        return next(child for child in self._children if child.worker == worker)


class House:
    """A supervisor whose n-th child runs the n-th script; the last one is for all that follow."""

    def __init__(self) -> None:
        self.frontier = memory_frontier("job")
        self.events: list[str] = []
        self.time_runs: Callable[[WorkerProcess], bool] = lambda child: bool(child.worker)
        """Whether the time of a worker is counted: once it has said hello."""
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

    def supervisor(self, *scripts: str, count: int = 1, **options: Any) -> PatientSupervisor:
        started = iter(scripts)
        last = ""

        def command(pipe: int, status: int) -> Sequence[str]:
            nonlocal last
            last = next(started, last)
            return [sys.executable, "-E", "-S", "-c", PRELUDE + last, str(pipe), str(status)]

        return self.of_command(command, count, **options)

    def of_command(
        self, command: Callable[[int, int], Sequence[str]], count: int = 1, **options: Any
    ) -> PatientSupervisor:
        options = {"callback_seconds": 60.0, "lease_seconds": 30.0, "shutdown_seconds": 60.0} | options
        supervisor = PatientSupervisor(command, count, frontier=self.frontier, on_event=self._hear, **options)
        supervisor.time_runs = self.time_runs
        return supervisor

    def _hear(self, event: Event) -> None:
        self.events.append(event.text)
        self._heard.set()

    async def heard(self, text: str, times: int = 1) -> None:
        """Wait for an event."""
        async with asyncio.timeout(60):
            while sum(text in event for event in self.events) < times:
                self._heard.clear()
                await self._heard.wait()

    async def run(self, supervisor: Supervisor) -> None:
        async with asyncio.timeout(100):
            await supervisor.run()

    async def beats_for(self, seconds: int, script: str, folder: Path, **options: Any) -> None:
        """After its script, the worker w1 is checked every second, and says one word after each check."""
        self.time_runs = lambda child: False
        words = f"for n in range({seconds}): wait_until(f'{folder}/{{n}}'); say(beat=True)\n"
        supervisor = self.supervisor(script + "say(log='ready')\n" + words + END, **options)
        running = asyncio.create_task(self.run(supervisor))
        await self.heard("ready")
        child = supervisor.child("w1")
        for second in range(seconds):
            supervisor.look(1.0)
            assert child.silent_seconds == 1.0
            (folder / str(second)).touch()
            while child.silent_seconds:  # noqa: ASYNC110  nothing tells of a word
                await asyncio.sleep(0.005)
        await running


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(module, "_MAX_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr("skitter.node.worker_process.LAST_WORDS_SECONDS", 60.0)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


# ---- ends


async def test_a_job_that_is_over_waits_for_no_worker_that_has_not_joined(house: House) -> None:
    await house.leased()
    await house.run(house.supervisor(HELLO + "say(end=False, of_job=True)\n", "live()", count=3))
    assert house.events == [], "a worker that had leased nothing is no loss, and none takes its place"


async def test_a_worker_that_has_joined_comes_to_its_own_end(house: House, tmp_path: Path) -> None:
    await house.leased()
    last = HELLO + f"say(log='joined')\nwait_until({str(tmp_path / 'over')!r})\nsay(log='came to its end')\n" + END
    first = f"wait_until({str(tmp_path / 'joined')!r})\n" + HELLO + "say(end=False, of_job=True)\n"
    supervisor = house.supervisor(last, first, count=2)
    running = asyncio.create_task(house.run(supervisor))
    await house.heard("joined")
    (tmp_path / "joined").touch()
    while not supervisor._job_is_over:  # noqa: ASYNC110  nothing tells of it
        await asyncio.sleep(0.005)
    (tmp_path / "over").touch()
    await running
    assert house.events == ["joined", "came to its end"]


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
    assert f"worker w1 died ({how}); 3 leases are returned, and another worker is started" in house.events
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


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_ctrl_c_does_not_reach_a_worker_before_it_says_what_that_means(new_loop: Any) -> None:
    script = "mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])\nsay(log='INT' if signal.SIGINT in mask else 'no')\n"

    async def run() -> list[str]:
        house = House()
        await house.run(house.supervisor(script + END))
        return house.events

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(run()) == ["INT"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []), "of the supervisor"


async def test_garbage_is_not_heard(house: House) -> None:
    await house.leased()
    garbage = """
os.write(pipe, b'{"log": "half\\n\\xff\\xfe\\n[1, 2]\\n7\\n' + b'x' * 200_000 + b'\\n')
say(beat=[9, 9, 9])
say(unknown=1)
say(log='and yet')
"""
    await house.run(house.supervisor(garbage + END))
    assert house.events == ["and yet"]


async def test_a_process_that_a_worker_left_behind_does_not_keep_its_place(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("skitter.node.worker_process.LAST_WORDS_SECONDS", 0.1)
    await house.leased("a")
    heard = tmp_path / "heard"
    ends = f"if child: say(log=str(child)); wait_until({str(heard)!r}); os._exit(7)\n"
    running = asyncio.create_task(house.run(house.supervisor(HELLO + "child = os.fork()\n" + ends + "live()\n", END)))
    try:
        await house.heard("")
        heard.touch()
        await running
        assert any("3 leases are returned" in event or "2 leases are returned" in event for event in house.events)
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
    error = f"say(hello='w9')\nwait_until({str(go)!r})\nsay(error='no spider', hint='write one', code={code})\n"
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
    with pytest.raises(BackendError, match="while they start: exit code 7"):
        await house.run(house.supervisor("os._exit(7)"))


async def test_workers_that_fail_again_and_again_are_given_up_with_their_last_words(house: House) -> None:
    await house.leased("a")
    with pytest.raises(BackendError, match=r"20 workers have failed .*: KeyError: 'host'") as caught:
        await house.run(house.supervisor(HELLO + "say(failed='KeyError: \\'host\\'')\nos._exit(1)"))
    assert caught.value.exit_code == 3
    assert len(house.events) == module.FAILURES


@pytest.mark.parametrize(("death", "told"), [("os.abort()", "SIGABRT"), ("os._exit(7)", "exit code 7")])
async def test_workers_that_die_without_a_word_and_without_a_page_are_given_up(
    house: House, death: str, told: str
) -> None:
    await house.leased()
    with pytest.raises(BackendError, match=f"20 workers have failed .*: .*{told}"):
        await house.run(house.supervisor(HELLO + death))


@pytest.mark.parametrize(
    "death", ["say(committed=1)\nsay(failed='KeyError')\nos._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"]
)
async def test_workers_that_get_on_or_are_taken_down_are_replaced_however_often(house: House, death: str) -> None:
    await house.leased("a")
    deaths = module.FAILURES + 5
    await house.run(house.supervisor(*[HELLO + death] * deaths, HELLO + END))
    assert len(house.events) == deaths


async def test_a_worker_that_fails_beside_one_that_gets_on_is_replaced(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other one commits something between any two failures."""
    monkeypatch.setattr(module, "FAILURES", 5)
    await house.leased("a")
    committed, over = tmp_path / "committed", tmp_path / "over"
    committed.touch()
    beside = f"""
log = open({str(committed)!r}, "a", buffering=1)
n = 0
while not os.path.exists({str(over)!r}):
    n += 1
    say(committed=n)
    log.write("x")
    log.flush()
    time.sleep(0.02)
"""
    fails = f"""
begun = os.path.getsize({str(committed)!r})
while os.path.getsize({str(committed)!r}) < begun + 2: time.sleep(0.01)
say(failed='KeyError')
os._exit(1)
"""
    deaths = 9
    last = HELLO + f"open({str(over)!r}, 'w').close()\n" + END
    await house.run(house.supervisor(HELLO + beside + END, *[HELLO + fails] * deaths, last, count=2))
    assert sum("KeyError" in event for event in house.events) == deaths


async def test_a_command_that_cannot_be_run_is_an_error_in_words(house: House) -> None:
    await house.leased()
    with pytest.raises(BackendError, match="cannot be started"):
        await house.run(house.of_command(lambda pipe, status: ["no/such/program"], 2))


async def test_a_store_that_fails_while_leases_are_handed_back_is_told(house: House) -> None:
    await house.leased("a")

    async def fail(worker: str, **_: object) -> int:
        raise FrontierError("the disk is full")

    house.frontier.release_worker = fail  # type: ignore[method-assign]
    with pytest.raises(FrontierError, match="disk is full"):
        await house.run(house.supervisor(HELLO + "os.abort()", WILLING, count=2))


# ---- workers that do not work


def on_loop(lease: Lease) -> str:
    """The line of a script that notes this lease as the one on its loop."""
    return f"on_loop({int(lease.work)}, {lease.id}, {lease.epoch})\n"


async def test_a_silent_worker_is_replaced(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_MARGIN_SECONDS", 0.5)
    await house.leased("a", "b")
    await house.run(house.supervisor(HELLO + "live()\n", END, callback_seconds=1.0))
    assert any("died (silent for" in event for event in house.events)
    # Its loop has never turned, so no page can be named.
    assert (await house.frontier.counts()).failed == 0
    assert (await house.frontier.counts()).queued == 2


async def test_a_worker_that_speaks_is_not_silent(
    house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "SILENT_MARGIN_SECONDS", 0.5)
    await house.leased()
    await house.beats_for(5, HELLO, tmp_path, callback_seconds=1.0)
    assert house.events == ["ready"]


async def test_a_stopped_worker_is_replaced_soon(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOPPED_SECONDS", 0.2)
    leases = await house.leased("a")
    house.time_runs = WorkerProcess.is_stopped
    stopped = on_loop(leases["a"]) + "os.kill(os.getpid(), signal.SIGSTOP)\n"
    await house.run(house.supervisor(HELLO + stopped, END, callback_seconds=0.1))
    assert any("died (stopped for" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1, "the page is not to blame"


async def test_a_page_that_holds_its_worker_for_too_long_is_dead_and_its_neighbours_live(house: House) -> None:
    leases = await house.leased("stuck", "b", "c")
    # Not a word comes from it: as from a process whose interpreter is held.
    await house.run(house.supervisor(HELLO + on_loop(leases["stuck"]) + "spin()\n", END, callback_seconds=1.0))
    (failed,) = await house.frontier.failures()
    assert (failed.url, failed.error_class) == ("http://a.example/stuck", "callback")
    assert "more than 1 s" in failed.error
    assert (await house.frontier.counts()).queued == 2
    assert [(await house.frontier.trace(leases[name].id)).losses for name in "bc"] == [0, 0], "nobody else is blamed"
    (host,) = (await house.frontier.report()).hosts
    assert (host.strikes, host.error_class) == (1, "callback")
    assert any("http://a.example" in event for event in house.events)


async def test_a_page_that_speaks_while_it_holds_the_loop_is_dead_too(house: House) -> None:
    leases = await house.leased("stuck")
    beats = on_loop(leases["stuck"]) + "while True: say(beat=True); time.sleep(0.05)\n"
    await house.run(house.supervisor(HELLO + beats, END, callback_seconds=1.0))
    assert [failed.url for failed in await house.frontier.failures()] == ["http://a.example/stuck"]


async def test_a_page_that_moved_on_meanwhile_is_not_dead(house: House) -> None:
    leases = await house.leased("a")
    old = leases["a"]
    await house.frontier.release([old])
    await house.frontier.lease("w1", 10)
    await house.run(house.supervisor(HELLO + on_loop(old) + "spin()\n", END, callback_seconds=1.0))
    assert (await house.frontier.counts()).failed == 0
    assert (await house.frontier.counts()).queued == 1


@pytest.mark.parametrize("noted", ["on_loop(0, 0, 0)\n", "on_loop(2, 0, 1)\n"], ids=["nobody", "start()"])
async def test_a_loop_that_is_blocked_by_no_page_costs_no_page(house: House, noted: str) -> None:
    await house.leased("a")
    await house.run(house.supervisor(HELLO + noted + "live()\n", END, callback_seconds=1.0))
    assert any("blocked by a callback" in event for event in house.events)
    assert (await house.frontier.counts()).queued == 1


async def test_a_worker_that_waits_for_its_store_is_not_held(house: House, tmp_path: Path) -> None:
    await house.leased()
    await house.beats_for(5, HELLO + "on_loop(0, 0, 0, ticks=0)\n", tmp_path, callback_seconds=0.5)
    assert house.events == ["ready"]


# ---- workers that are held by a page


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.3)
    monkeypatch.setattr("skitter.policy.loop_holds.HOLD_SECONDS", 0.3)


async def test_a_page_is_not_blamed_for_a_thread_that_holds_the_interpreter(house: House, soon: None) -> None:
    leases = await house.leased("innocent", "b")
    # The thread of the loop waits for the interpreter in the middle of a page, as anywhere else.
    thread = "threading.Thread(target=re.match, args=('(?:a+)+$', 'a' * 60 + 'b')).start()\n"
    script = "import re, threading\n" + HELLO + on_loop(leases["innocent"]) + thread + "spin()\n"
    await house.run(house.supervisor(script, END, callback_seconds=1.5))
    assert not any("has been blocked by one page" in event for event in house.events)
    assert (await house.frontier.counts()).failed == 0
    assert [(await house.frontier.trace(lease.id)).losses for lease in leases.values()] == [1, 1], "each is a suspect"


async def test_others_go_on_while_a_page_holds_its_worker(house: House, soon: None) -> None:
    leases = await house.leased("slow", "b", "c")
    pid = "say(log=f'pid {os.getpid()}')\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    held = HELLO + pid + on_loop(leases["slow"]) + "spin()\n"
    running = asyncio.create_task(house.run(house.supervisor(held, WILLING.replace("w1", "w2"))))
    await house.heard("ready")
    assert any(
        "worker w1 has been blocked by one page" in event and "3 leases are returned" in event for event in house.events
    )
    held_pid = next(int(event.split()[1]) for event in house.events if event.startswith("pid"))
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, held_pid) == min(19, niceness + HELD_NICENESS), "it gives way to the others"
    counts = await house.frontier.counts()
    assert (counts.leased, counts.queued) == (1, 2)
    traces = [await house.frontier.trace(leases[name].id) for name in ("slow", "b", "c")]
    assert [(trace.state, trace.losses) for trace in traces] == [("leased", 0), ("queued", 0), ("queued", 0)]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_held_worker_that_comes_back_ends_its_page_and_nothing_is_said_against_it(
    house: House, soon: None, tmp_path: Path
) -> None:
    leases = await house.leased("slow", "b")
    come_back = tmp_path / "come back"
    back = f"spin_until({str(come_back)!r})\nstatus[:8] = bytes(8)\nsay(log='done')\n" + END
    held = HELLO + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + on_loop(leases["slow"]) + back
    running = asyncio.create_task(house.run(house.supervisor(held, "say(hello='w2')\n" + END)))
    await house.heard("worker w1 has been blocked by one page")
    come_back.touch()
    await running
    assert "done" in house.events, "it is waited for after the others have ended"
    assert not any("died" in event for event in house.events)
    assert (await house.frontier.counts()).failed == 0


async def test_the_lease_of_a_held_page_is_renewed(house: House, soon: None) -> None:
    leases = await house.leased("slow")
    renewed = asyncio.Event()
    renew = house.frontier.renew

    async def noticed(worker: str, leases: Sequence[Lease]) -> list[bool]:
        kept = await renew(worker, leases)
        if (worker, [lease.id for lease in leases], kept) == ("w1", [slow], [True]):
            renewed.set()
        return kept

    slow = leases["slow"].id
    house.frontier.renew = noticed  # type: ignore[method-assign]
    supervisor = house.supervisor(HELLO + on_loop(leases["slow"]) + "spin()\n", WILLING, lease_seconds=0.3)
    running = asyncio.create_task(house.run(supervisor))
    async with asyncio.timeout(60):
        await renewed.wait()
    supervisor.kill()
    await running


async def test_where_callbacks_are_slow_a_slow_one_is_not_relieved(house: House, soon: None, tmp_path: Path) -> None:
    leases = await house.leased("first", "second")
    house.time_runs = lambda child: False
    ends = {name: tmp_path / name for name in ("first", "second")}

    def held(worker: str, name: str) -> str:
        begins = f"say(hello={worker!r})\n" + on_loop(leases[name]) + f"say(log='in {name}')\n"
        return begins + f"spin_until({str(ends[name])!r})\nstatus[:8] = bytes(8)\n" + END

    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    supervisor = house.supervisor(ignores + held("w1", "first"), held("w2", "second"))
    running = asyncio.create_task(house.run(supervisor))

    async def checked_until(condition: Callable[[], object]) -> None:
        """Without time: what is checked takes some CPU time of the process to be seen."""
        while not condition():
            supervisor.look(0.0)
            await asyncio.sleep(0.01)

    await house.heard("in first")
    first = supervisor.child("w1")
    supervisor.look(0.0)
    supervisor.look(0.4)
    await checked_until(first.relieved.is_set)
    # It takes the place of the first, whose page then ends: it is known how long pages take here.
    await house.heard("in second")
    supervisor.look(0.6)
    ends["first"].touch()
    await checked_until(lambda: first not in supervisor._children)
    second = supervisor.child("w2")
    supervisor.look(2.0)
    await checked_until(second.holding_page)
    assert not second.relieved.is_set()
    ends["second"].touch()
    await running
    assert sum("has been blocked by one page" in event for event in house.events) == 1


async def test_only_so_many_held_workers_are_waited_for(
    house: House, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RELIEVED", 2)
    leases = await house.leased("a", "b", "c")
    scripts = [
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay(hello='w{number}')\n" + on_loop(lease) + "spin()\n"
        for number, lease in enumerate(leases.values())
    ]
    # For those that are waited for, time goes on when the third is there.
    house.time_runs = lambda child: (
        not child.relieved.is_set() or any(other.worker == "w2" for other in supervisor._children)
    )
    supervisor = house.supervisor(*scripts, END, callback_seconds=3.0)
    await house.run(supervisor)
    told = [event.split()[1:4] for event in house.events if event.startswith("worker")]
    assert told[:2] == [["w0", "has", "been"], ["w1", "has", "been"]]
    assert told[2][1:] == ["died", "(blocked"], "the third has to wait"
    assert {failed.error_class for failed in await house.frontier.failures()} == {"callback"}


async def test_a_supervisor_that_was_stopped_itself_blames_nobody(house: House) -> None:
    child = WorkerProcess.__new__(WorkerProcess)
    child.silent_seconds = child.still_seconds = 0.0
    child._loop_status, child._record = LoopStatus(), b""
    child.relieved = asyncio.Event()
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
    assert any("died (SIGABRT); 2 leases are returned" in event for event in house.events)
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

        def command(pipe: int, status: int) -> Sequence[str]:
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
        assert house.events[0].startswith("worker w1 died (SIGABRT); 2 leases are returned")
        assert house.events[-1] == "drained"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
