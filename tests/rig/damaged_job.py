"""A job with something of everything, to be damaged; and every command, run on it in this process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import subprocess
import traceback
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rig.web import NOT_FOUND, Site
from skitter.errors import SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.item import NewItem
from skitter.model.job import JobSpec, SinkProgress
from skitter.model.lease import Call, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.page_record import PageRecord, Visit
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.model.session import Cookie, CookieNews, JarRef
from skitter.model.worker import WorkerHeartbeat
from skitter.settings import Settings
from skitter.testing.command_line import main
from skitter.testing.outputs import encode_item

JOB = "harmed"
TARGET = "out.jsonl"
SETTINGS = {
    "lease_seconds": 3.0,
    "retry_delay_seconds": 0.1,
    "host_backoff_seconds": 0.2,
    "per_ip": 1,
    "max_attempts": 2,
    "max_pages_per_host": 50,
    "callback_seconds": 5.0,
    "recrawl": "due",
}
PAGE = PageRecord(1e9, 2e9, 3600.0, 1e9, [Visit(60.0, True)], b"hash", '"1"', "date", "Accept", b"hash", b"hash")
ROBOTS = RobotsRecord(b"User-agent: *\nDisallow: /private\n", version=1)
_WORKERS = ("elsewhere:1:1", "elsewhere:2:1")
NEED = "browser"
SERVES = Call(needs=(NEED,))


def site_of_pages() -> Site:
    """A web server with pages that link to nothing."""
    page = (200, {"Content-Type": "text/html"}, b"<html><title>a page</title></html>")
    return Site({"*": page, "/robots.txt": NOT_FOUND})


def spec_of(port: int) -> JobSpec:
    settings = Settings.from_layers([("test", SETTINGS)])
    return JobSpec(name=JOB, spider="", seeds=[seed_of(port)], settings=settings.job_wide())


def seed_of(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


async def fill(frontier: Frontier, port: int, *, needs: bool = True) -> None:
    """Requests in every place, leases of each kind, a staged item, items for a sink, hosts, robots, heartbeats.

    ``needs``: also requests that need what no worker of a crawl has, so that it would not end.
    """
    first, second, third = _WORKERS[0], _WORKERS[1], "elsewhere:3:1"
    await frontier.begin(spec_of(port), sinks=[TARGET])
    entry = Fingerprinter((await frontier.job()).secret).entry
    seed = seed_of(port)
    # In the order in which they are granted.
    names = ("done", "missing", "private", "later", "lost", "held", *(f"queued{n}" for n in range(4)))
    links = [
        entry(Request(seed + name, depth=1, referrer=seed, priority=100 - place)) for place, name in enumerate(names)
    ]
    others = [entry(Request(f"http://localhost:{port}/{n}", seed=n == 0)) for n in range(4)]
    down = [entry(Request(f"http://127.0.0.2:{port}/{n}", priority=-9)) for n in range(2)]
    heartbeat = WorkerHeartbeat(host_name="elsewhere", pid=1, version="0", doing="fetching", started_at=1.0)
    for worker in _WORKERS:
        await frontier.tell(worker, heartbeat)
    await frontier.count_distinct(b"\x00\x07\x01\x00\x08\x02")
    cookies = [Cookie("sid", "1", "localhost"), Cookie("csrf", "2", "localhost", expires=2_000_000_000)]
    await frontier.add_cookies(
        [CookieNews(session=name, domain="localhost", cookies=cookies) for name in ("", "alice")]
    )
    endings: dict[str, dict[str, Any]] = {
        "": {"ending": Ending.DONE, "status": 200, "links": [*links, *others, *down], "tally": {"bytes": 1000}},
        "done": {"ending": Ending.DONE, "status": 200, "items": [NewItem(encode_item({"name": n})) for n in range(3)]},
        "missing": {
            "ending": Ending.FAILED,
            "status": 404,
            "error_class": "http_4xx",
            "error": "HTTP 404",
            "page": PAGE,
        },
        "private": {"ending": Ending.EXCLUDED, "error_class": "robots", "error": "robots.txt line 2"},
        "later": {"ending": Ending.RETRY, "error_class": "timeout", "error": "slow", "retry_seconds": 2.0},
    }
    for _ in range(40):
        if not endings:
            break
        for lease in await _leased(frontier, first):
            if lease.work is Work.SEED:
                outcome = Outcome(lease=lease, ending=Ending.DONE, links=[entry(Request(seed, seed=True))])
            elif lease.work is Work.ROBOTS and "127.0.0.2" in lease.host_key:
                # A host that waits.
                trouble = HostNews(unreachable=True)
                outcome = Outcome(
                    lease=lease, ending=Ending.RETRY, error_class="connect", error="refused", news=trouble
                )
            elif lease.work is Work.ROBOTS:
                news = HostNews(robots=ROBOTS, answered=True, address="127.0.0.1")
                outcome = Outcome(lease=lease, ending=Ending.DONE, news=news)
            elif (name := lease.request.url.removeprefix(seed)) in endings:
                outcome = Outcome(lease=lease, news=HostNews(answered=True, address="127.0.0.1"), **endings.pop(name))
            else:
                await frontier.release([lease])
                continue
            await frontier.commit(first, [outcome])
    assert not endings, f"not granted: {list(endings)}"
    # Lost twice: to be leased alone from now on.
    for _ in range(2):
        await _page(frontier, third)
        await frontier.release_worker(third)
    # One that was leased, and handed back.
    await frontier.release([await _page(frontier, first)])
    part = [NewItem(encode_item({"part": 1}))]
    staged = Outcome(lease=await _page(frontier, second), ending=Ending.DONE, more=True, items=part, after=0)
    await frontier.commit(second, [staged])
    if needs:
        await _fill_needs(frontier, [entry(Request(f"http://127.0.0.3:{port}/{n}", need=NEED)) for n in range(5)])
        # A host that is ready: another one that was has been found to wait for its address meanwhile.
        await frontier.add([entry(Request(f"http://127.0.0.4:{port}/"))])


async def _fill_needs(frontier: Frontier, entries: Sequence[Entry]) -> None:
    """Requests with a need: a suspect, one that was handed back, and some that were never leased."""
    worker = "elsewhere:4:1"
    await frontier.add(entries)
    (gate,) = (await frontier.lease(worker, 1, SERVES)).leases
    news = HostNews(robots=ROBOTS, answered=True)
    await frontier.commit(worker, [Outcome(lease=gate, ending=Ending.DONE, news=news)])
    for _ in range(2):
        await frontier.lease(worker, 1, SERVES)
        await frontier.release_worker(worker)
    # With the suspect on its own, nobody is given the others.
    (suspect,) = (await frontier.lease(worker, 1, SERVES)).leases
    (other,) = (await frontier.lease("elsewhere:5:1", 1, SERVES)).leases
    await frontier.release([suspect, other])


async def _page(frontier: Frontier, worker: str) -> Lease:
    """A lease of one page; what else was granted is ended or handed back."""
    for _ in range(20):
        pages: list[Lease] = []
        for lease in await _leased(frontier, worker):
            if lease.work is Work.PAGE:
                pages.append(lease)
            else:
                news = HostNews(robots=ROBOTS, answered=True, address="127.0.0.1")
                await frontier.commit(worker, [Outcome(lease=lease, ending=Ending.DONE, news=news)])
        if pages:
            await frontier.release(pages[1:])
            return pages[0]
    raise AssertionError("no page was granted")


async def _leased(frontier: Frontier, worker: str) -> Sequence[Lease]:
    for _ in range(40):
        grant = await frontier.lease(worker, 20)
        if grant.leases:
            return grant.leases
        await asyncio.sleep(0.05)
    return []


# ---- bad values


def bad_bytes(good: bytes) -> Iterator[tuple[str, bytes]]:
    """For a value that is bytes."""
    yield "empty", b""
    yield "truncated", good[: len(good) // 2]
    yield "bad UTF-8", b"\xff\xfe\xc3\x28"
    yield "no msgpack", b"\xc1" + good[1:]
    yield "a huge array", b"\xdd\xff\xff\xff\xff"
    yield "a number", msgspec.msgpack.encode(7)


BAD_FIELDS: tuple[tuple[str, Any], ...] = (
    ("text", "abc"),
    ("bad UTF-8", b"\xff\xfe"),
    ("negative", -1),
    ("huge", 2**63 - 1),
    ("a fraction", 1e300),
    ("no number", float("nan")),
    ("endless", float("inf")),
    ("nothing", None),
    ("a list", [[]]),
)


def bad_fields(packed: bytes) -> Iterator[tuple[str, bytes]]:
    """Each field of a msgpack map or array, replaced in turn."""
    try:
        whole = msgspec.msgpack.decode(packed)
    except (msgspec.DecodeError, ValueError):
        return
    if isinstance(whole, dict):
        for name in whole:
            for how, value in BAD_FIELDS:
                yield f"{name}: {how}", msgspec.msgpack.encode({**whole, name: value})
            yield f"{name}: left out", msgspec.msgpack.encode({other: whole[other] for other in whole if other != name})
    elif isinstance(whole, list):
        for place in range(len(whole)):
            for how, value in BAD_FIELDS:
                yield f"[{place}]: {how}", msgspec.msgpack.encode([*whole[:place], value, *whole[place + 1 :]])


# ---- commands


class Said(NamedTuple):
    words: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def is_unexpected(self) -> bool:
        """Whether it ended with an error that is not one of skitter's own."""
        own = re.search(r"^skitter\.[\w.]+: ", self.err, re.MULTILINE)
        return UNEXPECTED in self.err or ("Traceback" in self.err and own is None)


def commands(frontier: str, port: int) -> list[tuple[str, ...]]:
    """Those that read first; ``drop`` is not among them."""
    place = ("--frontier", frontier, "--job", JOB)
    seed = seed_of(port)
    reading = [
        ("jobs", "--frontier", frontier),
        ("status", *place),
        ("status", "-v", *place),
        ("failed", *place),
        *(("why", seed + name, *place) for name in ("", "missing", "held", "queued0", "later", "lost")),
        ("why", f"http://127.0.0.3:{port}/4", *place),
        ("items", *place),
        ("fsck", *place),
    ]
    writing = [
        ("export", "-o", "exported.jsonl", *place),
        ("pause", *place),
        ("fsck", "--repair", *place),
        ("resume", *place),
        ("add", f"{seed}more", *place),
        ("retry", *place),
        ("stop", *place),
        ("deliver", "-o", TARGET, *place),
    ]
    return [*reading, *((*words, "--json") for words in reading if words[0] != "items"), *writing]


def run(words: tuple[str, ...]) -> Said:
    """One command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Said(words, code, out.getvalue(), err.getvalue())


async def work(frontier: Frontier) -> list[str]:
    """What a worker, its supervisor and a delivery ask of the frontier: whatever raises anything but words."""
    found: list[str] = []
    leases: list[Lease] = []

    async def ask(call: Awaitable[Any]) -> Any:
        try:
            return await call
        except SkitterError as error:
            if JOB not in str(error):
                found.append(f"the job is not named: {error}")
        except Exception as error:  # noqa: BLE001  whatever it is, it is a fault
            found.append("".join(traceback.format_exception(error)[-3:]))
        return None

    await ask(frontier.begin(spec_of(1), sinks=[TARGET]))
    for _ in range(2):
        await ask(frontier.tell("w", WorkerHeartbeat()))
        await ask(frontier.count_distinct(b"\x00\x07\x03"))
        await ask(frontier.distinct_urls())
        await ask(frontier.jars([JarRef("", "localhost"), JarRef("alice", "localhost")]))
        await ask(frontier.sessions())
        grant = await ask(frontier.lease("w", 20, SERVES))
        leases = grant.leases if grant else []
        await ask(frontier.robots([lease.host_key for lease in leases] or ["http://localhost:1"]))
        await ask(frontier.renew("w", leases))
        for lease in leases:
            news = HostNews(robots=ROBOTS if lease.work is Work.ROBOTS else None, answered=True, address="127.0.0.1")
            items = [NewItem(encode_item({"a": 1}))] if lease.work is Work.PAGE else []
            cookies = CookieNews(session="", domain="localhost", cookies=[Cookie("sid", "3", "localhost")])
            done = Outcome(lease=lease, ending=Ending.DONE, items=items, news=news, cookies=cookies)
            await ask(frontier.commit("w", [done], want=20))
    await ask(frontier.open_sink(TARGET, "w"))
    if items := await ask(frontier.items(TARGET, "w", 10)):
        await ask(frontier.items_done(TARGET, "w", SinkProgress(items[-1].position, b"", closed=False)))
    await ask(frontier.close_sink(TARGET, "w"))
    for worker in ("w", *_WORKERS):
        await ask(frontier.release_worker(worker))
    await ask(frontier.reap())
    await ask(frontier.report(5, 5))
    await frontier.close()
    return found


def crawl_faults(skitter: Any, frontier: str, port: int, command: str) -> list[str]:
    """Of ``crawl`` or ``worker`` in processes of their own: as of the others, and that they end.

    A job whose damage makes it wait, for a time that never comes for instance, ends when it is interrupted.
    """
    words: tuple[object, ...] = (command, "--frontier", frontier, "--job", JOB)
    if command == "crawl":
        settings = (word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}"))
        words = (command, seed_of(port), "-o", TARGET, *words[1:], *settings)
    process = skitter.start(*words, "--workers", 1)
    allowed = {0, 1, 2, 3}
    try:
        _, err = process.communicate(timeout=WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        allowed = {128 + signal.SIGINT}
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return [f"{command} does not end: {process.communicate()[1]}"]
    found = []
    if process.returncode not in allowed:
        found.append(f"{command}: exit code {process.returncode}: {err}")
    if "Traceback" in err or _CLASS_NAME.search(err):
        found.append(f"{command}: a raw error: {err}")
    if err.count("another worker is started") > FAILURES:
        found.append(f"{command}: workers are replaced again and again: {err}")
    if process.returncode == 3 and JOB not in err and TARGET not in err:
        found.append(f"{command}: neither the job nor its target is named: {err}")
    return found


FAILURES = 20
"""Workers that a supervisor replaces one after the other."""
UNEXPECTED = "run the same command with -v for the details"
"""The hint of an error that nobody has put into words."""
WAIT_SECONDS = 12.0
READING = ("jobs", "status", "failed", "why", "items")
_CLASS_NAME = re.compile(r"^error: \w*(Error|Exception|Interrupt)\b", re.MULTILINE)


def faults(said: Said, place: str) -> list[str]:
    """What a user should never see. ``place``: what was damaged, which an error has to name.

    But not that of a command which came after others that write: they may have copied the damage to other places.
    """
    found = []
    if said.is_unexpected:
        found.append(f"a raw error: {said.err}")
    if said.code not in (0, 1, 2, 3):
        found.append(f"exit code {said.code}")
    if "Traceback" in said.err and "-v" not in said.words:
        found.append(f"a traceback: {said.err}")
    if _CLASS_NAME.search(said.err) and not said.is_unexpected:
        found.append(f"the name of a class: {said.err}")
    # What fsck finds is its answer.
    if said.code and not said.err.strip() and not (said.words[0] == "fsck" and said.out.strip()):
        found.append(f"exit code {said.code} without a word")
    if said.code == 3 and JOB not in said.err and TARGET not in said.err:
        found.append(f"neither the job nor its target is named: {said.err}")
    is_other_version = "written by a" in said.err
    if said.code == 3 and said.words[0] in READING and place not in said.err and not is_other_version:
        found.append(f"{place} is not named: {said.err}")
    return found


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
