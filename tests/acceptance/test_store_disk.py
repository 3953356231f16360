"""A disk that is full or read-only, at every phase of a crawl: an error in words, and the same command completes later.

Full is a tmpfs without room. Read-only is an ext4 that found an error, as real disks do: files that are open stay open,
and no write succeeds.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from rig.processes import HANG_SECONDS

PAGES = 30
SIZE_BYTES = 4 << 20
TEXT_BYTES = 60_000
"""Of an item: a few of them fill what is left of a disk."""
SPIDER = """
    import urllib.request
    from skitter import Request, Spider

    class Long(Spider):
        name = "long"
        custom_settings = {{"obey_robots": False, "delay_seconds": 0.0, "per_host": 4, "lease_seconds": 3.0}}

        async def start(self):
            yield Request("{base}/seed")
            urllib.request.urlopen("{base}/seeding").read()
            for number in range({pages}):
                yield Request(f"{base}/p{{number}}")

        async def parse(self, response):
            yield {{"path": response.url.rpartition("/")[2], "text": response.text}}
"""
EXPECTED = sorted(["seed", *(f"p{number}" for number in range(PAGES))])


def run(*command: object) -> str:
    """A command that not every machine allows."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


class FullDisk:
    """A tmpfs."""

    words = ("the disk is full", "No space left", "disk is full")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", folder)

    def fail(self) -> None:
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def mend(self) -> None:
        (self.folder / "ballast").unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=True)


class ReadOnlyDisk:
    """An ext4 in a file."""

    words = ("read-only", "readonly", "Read-only", "disk I/O error", "Input/output error")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._image = folder.with_suffix(".img")
        with self._image.open("wb") as file:
            file.truncate(16 << 20)
        run("mkfs.ext4", "-q", "-F", self._image)
        self._mount()

    def _mount(self) -> None:
        run("mount", "-o", "loop,errors=remount-ro", self._image, self.folder)
        loop = run("losetup", "-j", self._image).partition(":")[0]
        self._trigger = Path("/sys/fs/ext4", Path(loop).name, "trigger_fs_error")
        if not self._trigger.exists():
            self.remove()
            pytest.skip("this kernel does not fail an ext4 on demand")

    def fail(self) -> None:
        """Frozen meanwhile: ext4 acknowledges an fsync that is under way when its journal aborts, and loses the data
        (9 times in 125, Linux 6.18). No program can tell; what is acknowledged before or after is what is tested."""
        subprocess.run(["fsfreeze", "-f", self.folder], check=True)
        try:
            self._trigger.write_text("1")
        finally:
            subprocess.run(["fsfreeze", "-u", self.folder], check=True)

    def mend(self) -> None:
        self.remove()
        subprocess.run(["e2fsck", "-fy", self._image], capture_output=True, check=False)
        self._mount()

    def remove(self) -> None:
        subprocess.run(["umount", self.folder], check=True)


@pytest.fixture(params=[FullDisk, ReadOnlyDisk], ids=["full", "read-only"])
def disk(request, tmp_path) -> Iterator[FullDisk | ReadOnlyDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = request.param(folder)
    yield disk
    disk.remove()


@pytest.fixture
def crawl(skitter, site, disk):
    """A site and a spider; ``at`` is the request at which the disk fails, once."""

    def answer(seen, connection):
        if seen.path in crawl_state["at"]:
            crawl_state["at"].discard(seen.path)
            disk.fail()
        if seen.path == crawl_state["slow"]:
            crawl_state["slow"] = ""
            crawl_state["wait"]()
        chance = random.Random(seen.path)
        return 200, {"Content-Type": "text/plain"}, chance.randbytes(TEXT_BYTES // 2).hex().encode()

    crawl_state = {"at": set(), "slow": "", "wait": lambda: None}
    for path in ["/seed", "/seeding", *(f"/p{number}" for number in range(PAGES))]:
        site.on(path, answer)
    skitter.write("long.py", SPIDER.format(base=site.base, pages=PAGES))
    return crawl_state


TARGETS = ["out.jsonl", "out.json", "out.csv.gz", "out.warc.gz", "parts/{part}.jsonl?part_bytes=200000"]


def paths_in(folder: Path, target: str) -> list[str]:
    """What is in the results, in order."""
    if target == "out.warc.gz":
        with (folder / target).open("rb") as stream:
            kinds = WarcRecordType.response | WarcRecordType.revisit
            urls = [each.headers["WARC-Target-URI"] for each in ArchiveIterator(stream, record_types=kinds)]
        return sorted(urlsplit(url).path.lstrip("/") for url in urls)
    if target == "out.json":
        records = json.loads((folder / target).read_text())
    elif target == "out.csv.gz":
        import csv
        import gzip

        csv.field_size_limit(1 << 20)
        with gzip.open(folder / target, "rt") as file:
            records = list(csv.DictReader(file))
    else:
        files = [folder / target] if target == "out.jsonl" else sorted((folder / "parts").glob("0*.jsonl"))
        records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(record["path"] for record in records)


def complains(skitter, disk, *command: object, code: int = 3) -> str:
    """It ends with an error that names the cause and says what to do."""
    failed = skitter.run(*command, code=code)
    assert "Traceback" not in failed.stderr, failed.stderr
    assert "error: " in failed.stderr
    assert "hint: " in failed.stderr
    assert any(word in failed.stderr for word in disk.words), failed.stderr
    return failed.stderr


PLACES = [("disk/j.db", "out.jsonl"), *(("j.db", f"disk/{name}") for name in TARGETS)]
"""The store, or a target, is on the disk that fails."""
SLICE = [pytest.param(*PLACES[0], "/seeding"), *(pytest.param(*place, "/p15") for place in PLACES)]
FULL = [
    pytest.param(*place, at, marks=pytest.mark.soak)
    for place in PLACES
    for at in ("/seed", "/seeding", "/p0", f"/p{PAGES - 1}")
    if (place, at) != (PLACES[0], "/seeding")
]


@pytest.mark.parametrize(("store", "target", "at"), [*SLICE, *FULL])
def test_a_disk_that_fails_while_a_crawl_runs_is_told_and_nothing_is_lost(
    skitter, disk, crawl, store, target, at
) -> None:
    crawl["at"].add(at)
    command = ("crawl", "long.py", "--job", "j", "--frontier", f"sqlite:{store}", "-o", target, "-q")
    complains(skitter, disk, *command)
    disk.mend()
    skitter.run(*command)
    check_complete(skitter, store, target)


def check_complete(skitter, store: str, target: str) -> None:
    folder = skitter.folder / "disk" if target.startswith("disk/") else skitter.folder
    found = paths_in(folder, target.removeprefix("disk/"))
    assert Counter(found) == Counter(EXPECTED)
    assert skitter.json("status", "--frontier", f"sqlite:{store}", "--job", "j")["undelivered"] == 0


@pytest.mark.parametrize("store", ["disk/j.db", "disk/new/j.db"])
def test_a_disk_that_takes_no_store_is_told_and_later_does(skitter, disk, crawl, store) -> None:
    command = ("crawl", "long.py", "--job", "j", "--frontier", f"sqlite:{store}", "-o", "out.jsonl", "-q")
    disk.fail()
    complains(skitter, disk, *command)
    disk.mend()
    skitter.run(*command)
    check_complete(skitter, store, "out.jsonl")


def test_an_unfinished_job_on_a_disk_that_failed_meanwhile_is_told_and_goes_on_later(skitter, disk, crawl) -> None:
    command = ("crawl", "long.py", "--job", "j", "--frontier", "sqlite:disk/j.db", "-o", "out.jsonl", "-q")
    process = skitter.start(*command)
    crawl["slow"], crawl["wait"] = "/p15", lambda: process.send_signal(signal.SIGINT)
    process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    before = (skitter.folder / "out.jsonl").read_bytes()
    disk.fail()
    complains(skitter, disk, *command)
    assert (skitter.folder / "out.jsonl").read_bytes().startswith(before)
    disk.mend()
    skitter.run(*command)
    check_complete(skitter, "disk/j.db", "out.jsonl")


@pytest.mark.soak
def test_a_lease_that_cannot_be_renewed_ends_its_worker_and_not_its_page(skitter, disk, crawl, site) -> None:
    """The page does not answer before the crawl has ended."""
    ended = threading.Event()
    crawl["at"].add("/seed")
    crawl["slow"], crawl["wait"] = "/seed", lambda: ended.wait(HANG_SECONDS)
    skitter.write("long.py", SPIDER.format(base=site.base, pages=0))
    command = ("crawl", "long.py", "--job", "j", "--frontier", "sqlite:disk/j.db", "-o", "out.jsonl", "-q")
    complains(skitter, disk, *command)
    ended.set()
    disk.mend()
    skitter.run(*command)
    assert [record["path"] for record in skitter.lines("out.jsonl")] == ["seed"]


COMMANDS = [
    ("status",),
    ("failed",),
    ("why", "http://127.0.0.1/"),
    ("add", "http://127.0.0.1/"),
    ("retry",),
    ("pause",),
    ("items",),
    ("export", "-o", "copy.jsonl"),
    ("drain", "-o", "out.jsonl"),
    ("worker",),
    ("drop",),
]


def test_a_command_about_a_store_on_a_broken_disk_works_or_says_why_not(skitter, disk, crawl) -> None:
    store = ("--frontier", "sqlite:disk/j.db", "--job", "j")
    skitter.run("crawl", "long.py", *store, "-o", "out.jsonl", "-q")
    disk.fail()
    for command in COMMANDS:
        done = skitter.run(*command, *store, code=None)
        assert "Traceback" not in done.stderr
        if done.returncode or isinstance(disk, ReadOnlyDisk):
            assert done.returncode == 3, done.stderr
            assert any(word in done.stderr for word in disk.words), done.stderr
            assert "hint: " in done.stderr
    disk.mend()
    assert skitter.json("status", *store)["done"] == PAGES + 1


def test_jobs_on_a_broken_disk_are_listed_with_the_reason(skitter, disk, crawl) -> None:
    skitter.folder = disk.folder
    crawl_file = disk.folder / "long.py"
    crawl_file.write_text((disk.folder.parent / "long.py").read_text())
    skitter.run("crawl", "long.py", "--job", "j", "-q")
    disk.fail()
    (told,) = skitter.records("jobs")
    assert told["job"] == "j"
    if told["state"] != "finished":
        assert told["state"] == "unreadable"
        assert any(word in told["problem"] for word in disk.words), told
