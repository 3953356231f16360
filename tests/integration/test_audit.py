"""``skitter audit``: every command that changes something leaves its row, on every store and through a master."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rig.master import Master
from rig.processes import HANG_SECONDS
from skitter.app.audit import Trails, local_actor
from skitter.app.frontiers import open_frontier
from skitter.audit.mutations import MUTATIONS, SCHEDULE_ACTIONS, STORE_ACTIONS
from skitter.cli import main
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.host import HostCommand
from skitter.model.job import JobSpec
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.settings import Settings

TOKEN = "administrator-of-all-1"
SECRETS = ("pass-word-1", "cookie-value-1", "argument-secret-1", TOKEN)
COOKIES = "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\tcookie-value-1\n"
ONCE = ("--set", "max_attempts=1", "--ignore-robots")
ME = local_actor("cli").name


class Store(NamedTuple):
    """Where the jobs of a test are."""

    url: str
    shown: str
    """For commands."""
    actor: str
    claim: str = ""


@pytest.fixture(params=["sqlite", "redis", "master"])
def store(
    request: pytest.FixtureRequest,
    own_redis: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Store]:
    monkeypatch.chdir(tmp_path)
    if request.param == "sqlite":
        yield Store("sqlite:jobs.db", "sqlite:jobs.db", ME)
    elif request.param == "redis":
        url = own_redis().url
        yield Store(url, url, ME)
    else:
        tokens = tmp_path / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"admin {TOKEN}\n")
        name = hashlib.blake2b(TOKEN.encode(), digest_size=4).hexdigest()
        monkeypatch.setenv("SKITTER_TOKEN", TOKEN)
        with ExitStack() as stack:
            master = stack.enter_context(
                Master(tmp_path, f"sqlite:{tmp_path / 'master.db'}", "--token-file", str(tokens))
            )
            url = master.url.replace("://", f"://:{TOKEN}@")
            yield Store(url, master.url, f"token:{name}", ME)


class Console:
    """Commands in this process: each one in a process of its own would take half a second."""

    def __init__(self, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
        self._store = store
        self._capsys = capsys

    def run(self, *words: object, code: int = 0, last: tuple[str, ...] = ()) -> str:
        found = main([*map(str, words), "--frontier", self._store.shown, *last])
        out, error = self._capsys.readouterr()
        assert found == code, (words, out, error)
        return out

    def rows(self, *words: object) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("audit", "--json", *words).splitlines()]


async def fail_the_seed(frontier: Frontier) -> None:
    """As a worker does whose only page fails: what it does is not recorded."""
    job = await frontier.job()
    seeds = [Fingerprinter.of_job(job).entry(Request(url, seed=True)) for url in job.spec.seeds]
    (seeding,) = (await frontier.lease("w", 1)).leases
    await frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=seeds)])
    (page,) = (await frontier.lease("w", 1)).leases
    await frontier.commit("w", [Outcome(lease=page, ending=Ending.FAILED, error_class="connect")])
    await frontier.tell("w", None)


HOST = "http://127.0.0.1:9"


class Expected(NamedTuple):
    """A row that a command must leave; its state before and after has at least these values."""

    action: str
    before: dict[str, Any]
    after: dict[str, Any]


def steps_of_a_job(proxy: str, seed: str) -> list[tuple[tuple[object, ...], Expected]]:
    """Every command that changes a job, in an order in which each can."""
    banned = {"proxy": "http://192.0.2.1:8 as u"}
    return [
        (
            ("retry",),
            Expected("retry", {"state": "finished", "failed": 1}, {"state": "running", "failed": 0, "retried": 1}),
        ),
        (("pause",), Expected("pause", {"state": "running"}, {"state": "paused"})),
        (("set", "delay_seconds=2"), Expected("set", {"delay_seconds": None}, {"delay_seconds": 2.0})),
        (("add", "http://127.0.0.1:9/more"), Expected("add", {"queued": 1}, {"queued": 2, "added": 1})),
        (("fsck", "--repair"), Expected("fsck", {"state": "paused"}, {"state": "paused", "found": 0, "mended": 0})),
        (("resume",), Expected("resume", {"state": "paused"}, {"state": "running"})),
        (("hosts", "pause", HOST), Expected("host.pause", {"queued": 2}, {"queued": 2, "was": "none"})),
        (("hosts", "resume", HOST), Expected("host.resume", {"queued": 2}, {"queued": 2, "was": "paused"})),
        (("sessions", "import", "cookies.txt"), Expected("sessions.import", {}, {"held": {"the job's own": 1}})),
        (("proxies", "ban", proxy, "--seconds", 600), Expected("proxy.ban", banned | {"banned_seconds": 0.0}, banned)),
        (("proxies", "unban", proxy), Expected("proxy.unban", banned, banned | {"banned_seconds": 0.0})),
        (("hosts", "give-up", HOST), Expected("host.give_up", {"queued": 2}, {"failed": 2, "was": "none"})),
        (("retry",), Expected("retry", {"failed": 2}, {"failed": 0, "retried": 2})),
        (("stop",), Expected("stop", {"state": "running"}, {"state": "stopped", "reason": "command"})),
        (("submit", seed, *ONCE), Expected("begin", {"state": "stopped"}, {"state": "running", "begun": "resumed"})),
    ]


def test_every_command_that_changes_a_job_leaves_its_row_with_before_and_after(
    store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    console = Console(store, capsys)
    seed = "http://ada:pass-word-1@127.0.0.1:9/?token=pass-word-1"
    console.run("submit", seed, *ONCE, "--job", "j", "-o", "out.jsonl", "--deliver", "here")
    asyncio.run(_with(store, fail_the_seed))
    (tmp_path / "cookies.txt").write_text(COOKIES)
    proxy = asyncio.run(_with(store, lambda frontier: frontier.register_proxy("http://u:pass-word-1@192.0.2.1:8", "t")))
    expected = [Expected("begin", {}, {"state": "running", "begun": "new"})]
    for words, row in steps_of_a_job(proxy, seed):
        console.run(*words, "--job", "j")
        expected.append(row)
    if not store.claim:
        # Through a master it is a delivery like that of any worker.
        console.run("deliver", "-o", "out.jsonl", "--job", "j")
        expected.append(Expected("deliver", {}, {"delivered": 0, "rejected": 0}))
    console.run("drop", "--job", "j")
    expected.append(Expected("drop", {"state": "running", "run": 1}, {}))

    rows = console.rows()[::-1]
    compare(rows, expected, store)
    assert {row["job"] for row in rows} == {"j"}
    text = console.run("audit", "--export") + console.run("audit") + json.dumps(rows)
    assert not [secret for secret in SECRETS if secret in text]
    assert "intact" in console.run("audit", "--verify", "--head", console.run("audit", "--head").strip())
    listed = console.rows("--job", "j", "--action", "proxy.", "--since", "1h", "--actor", store.actor, "--limit", 1)
    assert [row["action"] for row in listed] == ["proxy.unban"]
    assert console.rows("--actor", "nobody") == []


@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
def test_every_action_of_schedules_leaves_its_row_with_before_and_after(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(store, capsys)
    command = ("--", "crawl", "http://ada:argument-secret-1@127.0.0.1:9/", "--job", "j")
    hours: list[dict[str, Any]] = [{"every_seconds": 3600.0}, {"every_seconds": 7200.0}]
    console.run("schedule", "add", "nightly", "--every", "1h", last=command)
    console.run("schedule", "pause", "nightly")
    console.run("schedule", "resume", "nightly")
    console.run("schedule", "run", "nightly")
    console.run("schedule", "add", "nightly", "--replace", "--every", "2h", last=command)
    console.run("schedule", "remove", "nightly")
    running, paused = {"paused": False}, {"paused": True}
    expected = [
        Expected("schedule.add", {}, hours[0] | running),
        Expected("schedule.pause", running, paused),
        Expected("schedule.resume", paused, running),
        Expected("schedule.run", hours[0], hours[0]),
        Expected("schedule.change", hours[0], hours[1]),
        Expected("schedule.remove", hours[1], {}),
    ]
    rows = console.rows()[::-1]
    compare(rows, expected, store)
    assert {(row["job"], row["details"]["schedule"]) for row in rows} == {("j", "nightly")}
    assert len(rows[3]["after"]["manual_ticks"]) == 1
    assert "argument-secret-1" not in console.run("audit", "--export")
    assert "intact" in console.run("audit", "--verify")


def compare(rows: list[dict[str, Any]], expected: list[Expected], store: Store) -> None:
    assert [row["action"] for row in rows] == [row.action for row in expected], "one row for each"
    for row, (_, before, after) in zip(rows, expected, strict=True):
        assert row["before"] | before == row["before"], row
        assert row["after"] | after == row["after"], row
        assert (row["actor"], row["claim"], row["outcome"]) == (store.actor, store.claim, "done"), row
        assert row["ended_at"] >= row["at"] > 1e9


def test_what_no_command_does_alone_is_recorded_too(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A crawl forgets the standard output of one that is gone, and closes an intake that nobody reads."""

    async def act(frontier: Frontier) -> None:
        recorded = acting_for(frontier, Actor(ME))
        await recorded.begin(JobSpec(name="j", spider="", settings=Settings().job_wide()))
        await recorded.open_sink("-", "owner")
        await recorded.close_sink("-", "owner", forget=True)
        await recorded.open_intake("file:urls.txt", "reader")
        await recorded.leave_intake("file:urls.txt", "reader")
        assert await recorded.close_intake("file:urls.txt", "")
        await recorded.open_intake("file:urls.txt", "reader")
        assert await recorded.close_intake("file:urls.txt", "reader"), "a reader's own, which is not recorded"
        assert not await recorded.ban_proxy("no-such", "", 5.0)
        assert await recorded.command_host("http://never.example", HostCommand.PAUSE) is None
        with pytest.raises(Exception, match="nosuch"):
            await recorded.change_settings({"nosuch": 1})

    asyncio.run(_with(store, act))
    rows = Console(store, capsys).rows()[::-1]
    assert [row["action"] for row in rows] == [
        "begin",
        "target.forget",
        "intake.close",
        "proxy.ban",
        "host.pause",
        "set",
    ]
    forgotten, closed, no_proxy, no_host, wrong = rows[1:]
    assert no_host["outcome"].startswith("refused: ")
    assert (forgotten["before"], forgotten["after"]) == ({"targets": {"-": 0}}, {"targets": {}})
    assert (closed["before"], closed["after"]) == ({"open": True}, {"open": False})
    assert no_proxy["outcome"].startswith("refused: ")
    assert wrong["outcome"].startswith("refused: ")


def test_a_table_test_knows_every_action() -> None:
    """If this fails, an action is new: give the first test of this file a step for it."""
    tested = {"begin", "add", "revive", "command", "change_settings", "check_consistency", "ban_proxy", "add_cookies"}
    assert set(MUTATIONS) == tested | {"close_sink", "close_intake", "command_host"}
    assert set(STORE_ACTIONS) == {"drop", "deliver"}
    assert set(SCHEDULE_ACTIONS) == {"add", "change", "remove", "pause", "resume", "run"}


def test_a_crawl_leaves_one_row_and_its_workers_none(skitter: Any) -> None:
    place = ("--frontier", "sqlite:jobs.db")
    # Nobody listens there, so that it fails at once.
    skitter.run("crawl", "http://127.0.0.1:9/", *ONCE, *place, "--job", "j", "-q", code=1)
    rows = skitter.records("audit", *place)
    assert [(row["action"], row["actor"], row["after"]["begun"]) for row in rows] == [("begin", ME, "new")]


def test_a_command_of_a_schedule_acts_as_the_schedule(
    skitter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--frontier", "sqlite:jobs.db")
    monkeypatch.chdir(tmp_path)
    added = ("schedule", "add", "hourly", "--every", "1h", *place, "--", "submit", "http://127.0.0.1:9/", "--job", "j")
    assert main(added) == 0
    assert main(["schedule", "run", "hourly", *place]) == 0
    scheduler = skitter.start("scheduler", *place)
    try:
        deadline = time.monotonic() + 60
        while not (begun := [row["actor"] for row in skitter.records("audit", *place, "--action", "begin")]):
            assert scheduler.poll() is None
            assert time.monotonic() < deadline
        assert begun == ["schedule:hourly"]
    finally:
        scheduler.terminate()
        scheduler.communicate(timeout=HANG_SECONDS)


def test_killed_between_intended_and_outcome_is_an_unknown_outcome(
    own_redis: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(own_redis().url, "", ME)
    asyncio.run(_with(store, lambda frontier: frontier.begin(JobSpec(name="j", spider=""))))
    killed = """
        import os, signal, sys
        from skitter.cli import main
        from skitter.frontier.redis.frontier import RedisFrontier

        command = RedisFrontier.command

        async def die(self, **arguments):
            if sys.argv[1] == "after":
                await command(self, **arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        RedisFrontier.command = die
        main(["pause", "--job", "j", "--frontier", sys.argv[2]])
    """
    for when in ("before", "after"):
        words = [sys.executable, "-c", textwrap.dedent(killed), when, store.url]
        assert subprocess.run(words, check=False, capture_output=True).returncode == -9
    console = Console(store._replace(shown=store.url), capsys)
    console.run("resume", "--job", "j")
    rows = console.rows()
    assert [(row["action"], row["outcome"], row["ended_at"] is None) for row in rows] == [
        ("resume", "done", False),
        ("pause", "unknown", True),
        ("pause", "unknown", True),
    ]
    assert rows[0]["before"]["state"] == "paused", "the second was killed after it"
    assert "intact" in console.run("audit", "--verify")


def test_a_store_that_cannot_keep_the_row_refuses_the_mutation(
    own_redis: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    server = own_redis()
    for url in (server.url, "sqlite:jobs.db"):
        store = Store(url, url, ME)
        console = Console(store, capsys)
        console.run("submit", "http://127.0.0.1:9/", "--job", "j")
        if url == server.url:
            server.say("CONFIG", "SET", "maxmemory", "1")
        else:
            with closing(sqlite3.connect("jobs.db")) as database, database:
                database.execute(
                    "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room for it'); END"
                )
        console.run("pause", "--job", "j", code=3)
        if url == server.url:
            server.say("CONFIG", "SET", "maxmemory", "0")
        assert json.loads(console.run("status", "--json", "--job", "j"))["state"] == "running"
        assert [row["action"] for row in console.rows()] == ["begin"]


def test_full_and_read_only_disks_refuse_the_mutation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"mount: {mounted.stderr.decode().strip()}")
    monkeypatch.chdir(tmp_path)
    console = Console(Store("", "sqlite:disk/jobs.db", ME), capsys)
    try:
        console.run("submit", "http://127.0.0.1:9/", "--job", "j")
        with (folder / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        # There may be room for one more in a page that is there already; never for a row without its mutation.
        for command in ("pause", "resume") * 40:
            if main([command, "--job", "j", "--frontier", "sqlite:disk/jobs.db"]) == 3:
                break
        else:
            pytest.fail("the disk is full, and everything is written")
        assert "the disk is full" in capsys.readouterr().err
        (folder / "ballast").unlink()
        last = console.rows()[0]
        assert json.loads(console.run("status", "--json", "--job", "j"))["state"] == last["after"]["state"]
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        refused = "resume" if last["after"]["state"] == "paused" else "pause"
        console.run(refused, "--job", "j", code=3)
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
        assert console.rows()[0]["seq"] == last["seq"]
        assert "intact" in console.run("audit", "--verify")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_rows_of_a_dropped_job_stay_and_its_file_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        assert main(["submit", f"http://127.0.0.1:9/{number}", "--job", "j"]) == 0
        assert main(["drop", "--job", "j"]) == 0
    assert sorted(path.name for path in (tmp_path / ".skitter").iterdir()) == ["j.db-audit"]
    assert (tmp_path / ".skitter" / "j.db-audit").stat().st_mode & 0o777 == 0o600
    assert main(["submit", "http://127.0.0.1:9/", "--job", "other"]) == 0
    capsys.readouterr()
    assert main(["audit", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["job"], row["action"]) for row in rows] == [("other", "begin"), *[("j", "drop"), ("j", "begin")] * 3]
    assert main(["audit", "--head"]) == 0
    head = capsys.readouterr().out.strip()
    assert len(head.split(",")) == 2, "a chain for each file"
    assert main(["audit", "--verify", "--head", head]) == 0
    (tmp_path / ".skitter" / "j.db-audit").unlink()
    assert main(["audit", "--verify", "--head", head]) == 1
    assert "the given hash is not in the trail" in capsys.readouterr().out


def test_an_exported_trail_is_verified_as_the_how_to_says(
    skitter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    console = Console(Store("", "sqlite:jobs.db", ME), capsys)
    console.run("submit", "http://127.0.0.1:9/", "--job", "j")
    for command in ("pause", "resume", "pause"):
        console.run(command, "--job", "j")
    export = console.run("audit", "--export")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text()
    sample = page.partition("```python\n")[2].partition("```")[0]
    changed = export.replace('"action":"resume"', '"action":"drop"')
    assert changed != export
    for text, code in ((export, 0), (changed, 1)):
        done = subprocess.run([sys.executable, "-c", sample], input=text, text=True, check=False, capture_output=True)
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--verify", "--head"), "no hash given"),
        (("--head", "abc"), "only with --verify"),
        (("--verify", "--job", "j"), "cannot be combined"),
        (("--export", "--prune", "1d"), "cannot be combined"),
        (("--since", "yesterday"), "not a duration"),
        (("--frontier", "memory:"), "this store has no audit trail"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *words]) == 2
    assert told in capsys.readouterr().err


def test_a_token_for_some_jobs_does_not_read_the_trail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"admin {TOKEN} j\noperator {TOKEN}-2\n")
    with Master(tmp_path, "sqlite:master.db", "--token-file", str(tokens)) as master:
        for token in (TOKEN, f"{TOKEN}-2"):
            monkeypatch.setenv("SKITTER_TOKEN", token)
            assert main(["audit", "--frontier", master.url]) == 3
            assert "error: " in capsys.readouterr().err
        assert main(["audit", "--prune", "1d", "--frontier", master.url]) == 3


async def _with(store: Store, act: Callable[[Frontier], Any]) -> Any:
    frontier = open_frontier(store.url, "j", create=True)
    try:
        return await act(frontier)
    finally:
        await frontier.close()


def test_no_trail_is_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def read() -> tuple[str, bool]:
        async with Trails("") as trails:
            return await trails.head(), (await trails.verify(["0" * 64])).ok

    assert asyncio.run(read()) == ("0" * 64, True)
