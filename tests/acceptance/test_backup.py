"""A store is copied while a crawl runs, lost, and restored, by the commands of docs/how-to/backup-and-restore.md."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from rig.processes import HANG_SECONDS
from rig.servers.redis import DURABLE
from skitter.testing.web import WebSpec, served

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backup-and-restore.md"
PAGES = 300
"""Far more than are done, at 20 a second, while the commands of the page run."""
SLOWLY = ("--delay", 0.1)
WEB = WebSpec.plain(hosts=2, pages_per_host=PAGES // 2)


def documented(heading: str, number: int) -> str:
    """The commands of a section of the page, by their number."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"(?ms)^```bash\n(.*?)^```", section)[number]


def shell(commands: str, folder: Path) -> None:
    subprocess.run(["/bin/sh", "-euc", commands], cwd=folder, check=True, timeout=HANG_SECONDS, stderr=subprocess.PIPE)


def kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_store_and_its_results_are_copied_in_a_pause_and_go_on_from_there(
    skitter: Any, until: Any, tmp_path: Path
) -> None:
    where = ("--frontier", "sqlite:crawls.db", "--job", "books")

    def status() -> dict[str, Any]:
        return skitter.json("status", *where)

    def written() -> Counter[str]:
        # The last line may be half written while the crawl runs.
        lines = (skitter.folder / "out.jsonl").read_text().rpartition("\n")[0]
        return Counter(re.findall(r'"url": ?"([^"]+)"', lines))

    with served(WEB, tmp_path / "web.log") as web:
        command = ("crawl", *web.urls, *where, "-o", "out.jsonl", "-q", *SLOWLY)
        crawl = skitter.start(*command)
        until(lambda: (skitter.folder / "out.jsonl").exists() and len(written()) >= 20, crawl)
        # The page has the commands: pause; what to wait for; the copies; resume.
        shell(documented("Results in files", 0), skitter.folder)
        until(lambda: (now := status())["leased"] == 0 and now["undelivered"] == 0, crawl)
        shell(documented("SQLite", 0), skitter.folder)
        shell(documented("Results in files", 1), skitter.folder)
        copied = written()
        until(lambda: len(written()) >= len(copied) + 20, crawl)
        kill(crawl)
        # More happened than the copies know, and everything is lost.
        assert len(copied) < len(written()) < PAGES
        (skitter.folder / "crawls.db").write_bytes(b"a disk that broke")
        (skitter.folder / "out.jsonl").unlink()
        shell(documented("SQLite", 1), skitter.folder)
        shell(documented("Results in files", 2), skitter.folder)
        assert status()["done"] == len(copied)
        skitter.run("set", "delay_seconds=0", *where)
        skitter.run(*command)
        asked = Counter(f"{web.urls[hit.host].rstrip('/')}{hit.path}" for hit in web.log())
    assert (status()["state"], status()["done"]) == ("finished", PAGES)
    assert (len(written()), set(written().values())) == (PAGES, {1})
    skitter.run("fsck", *where)
    # What the copy has as done was asked for once.
    assert {asked[url] for url in copied} == {1}


def test_a_redis_is_saved_in_a_crawl_and_goes_on_from_there(skitter: Any, until: Any, own_redis: Any) -> None:
    server = own_redis(*DURABLE, "--repl-diskless-sync-delay", "0")
    where = ("--frontier", server.url, "--job", "books")

    def written() -> Counter[str]:
        with contextlib.closing(sqlite3.connect(skitter.folder / "items.db")) as database:
            return Counter(url for (url,) in database.execute("SELECT url FROM pages"))

    def is_written(count: int) -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # no table yet
            return len(written()) >= count
        return False

    with served(WEB) as web:
        command = ("crawl", *web.urls, *where, "-o", "sqlite:items.db#pages", "-q", *SLOWLY)
        crawl = skitter.start(*command)
        until(lambda: is_written(20), crawl)
        shell(documented("Redis", 0).replace("redis-cli -h crawl-db", f"redis-cli -p {server.port}"), skitter.folder)
        before = len(written())
        until(lambda: is_written(before + 20), crawl)
        kill(crawl)
        server.kill()
        shutil.rmtree(server.folder)
        server.folder.mkdir()
        shutil.copy(skitter.folder / "backup.rdb", server.folder / "dump.rdb")
        # As the page says: without the log at first.
        server.start("--appendonly", "no")
        shell(f"redis-cli -p {server.port} CONFIG SET appendonly yes > /dev/null", skitter.folder)
        assert 20 <= skitter.json("status", *where)["done"] < len(written())
        skitter.run("set", "delay_seconds=0", *where)
        skitter.run(*command)
        finished = skitter.json("status", *where)
    assert (finished["state"], finished["done"]) == ("finished", PAGES)
    assert (len(written()), set(written().values())) == (PAGES, {1})
    skitter.run("fsck", *where)
