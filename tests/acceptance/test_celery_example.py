"""The example project for Celery runs as it stands, and what watches Celery sees its tasks by name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from rig.processes import HANG_SECONDS
from rig.servers.redis import IN_MEMORY
from skitter.testing.web import WebSpec, served

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "celery"


@pytest.fixture
def project(own_redis: Any, tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The example in a folder of its own, with a worker that sends events."""
    folder = tmp_path / "celery"
    shutil.copytree(EXAMPLE, folder)
    environment = os.environ | {"REDIS_URL": own_redis(*IN_MEMORY).url}
    command = ["-m", "celery", "-A", "shop", "worker", "-c", "2", "-E", "-Q", "celery,scrape,parse,save"]
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    yield folder, environment
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def test_the_example_crawls_exports_and_counts_and_monitors_see_it(project):
    folder, environment = project
    app = Celery(broker=f"{environment['REDIS_URL']}/0", set_as_current=False)
    seen = app.events.State()
    connection = app.connection()
    # As Flower does.
    receiver = app.events.Receiver(connection, handlers={"*": seen.event})
    watching = threading.Thread(target=receiver.capture)
    watching.start()
    try:
        with served(WebSpec.plain(hosts=1, pages_per_host=40)) as web:
            ran = subprocess.run(
                [sys.executable, "run.py", web.urls[0]],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=HANG_SECONDS,
                check=False,
            )
            assert ran.returncode == 0, f"{ran.stderr}\n{(folder / 'log').read_text()}"
            expected = web.expected()
    finally:
        receiver.should_stop = True
        watching.join()
        connection.close()
        app.close()
    assert "40 books" in ran.stdout
    books = [json.loads(line) for line in (folder / "books.jsonl").read_text().splitlines()]
    assert {book["url"]: book["title"] for book in books} == expected.titles
    assert len((folder / "page.jsonl").read_text().splitlines()) == 1
    names = {task.name for task in seen.tasks.values()}
    assert {"skitter.crawl", "skitter.finished", "skitter.export", "skitter.scrape"} <= names
