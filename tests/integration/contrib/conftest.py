"""A real worker of Celery in a folder of its own, and the app that talks to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from rig.servers.redis import IN_MEMORY, OwnRedis
from rig.services import OwnServers
from skitter.contrib.celery import register

START_SECONDS = 60.0
QUEUES = "celery,scrape,parse,save"
PROJECT = """
    import json
    import os
    from pathlib import Path

    from celery import Celery

    from skitter.contrib.celery import SkitterTask, register

    class Noted(SkitterTask):
        def _note(self, hook, task_id):
            line = json.dumps([hook, task_id]) + "\\n"
            fd = os.open("hooks.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(fd, line.encode())
            os.close(fd)

        def on_success(self, retval, task_id, args, kwargs):
            self._note("on_success", task_id)

        def on_failure(self, exc, task_id, args, kwargs, einfo):
            self._note("on_failure", task_id)

        def on_retry(self, exc, task_id, args, kwargs, einfo):
            self._note("on_retry", task_id)

        def after_return(self, status, retval, task_id, args, kwargs, einfo):
            self._note("after_return", task_id)

    app = Celery("project", broker=os.environ["BROKER"], backend=os.environ["BACKEND"])
    app.conf.update(json.loads(os.environ["CONF"]))
    register(app, frontier=os.environ["FRONTIER"], base=Noted)
"""
TITLES = """
    def titles(response, meta):
        return {"url": response.url, "title": response.css("title::text").get(), "shop": meta["shop"]}
"""
SPIDER = """
    from skitter import Spider

    class Pages(Spider):
        name = "pages"

        def __init__(self, url=""):
            self.start_urls = [url]

        def parse(self, response):
            yield {"url": response.url}
            yield from response.follow_all(response.css("a"))
"""


class CeleryWorkers:
    """Processes ``celery worker`` of one project, and the app of the test."""

    def __init__(self, folder: Path, broker: str, backend: str, frontier: str, **conf: Any) -> None:
        self.folder = folder
        self.frontier = frontier
        self.conf = {"broker_connection_retry_on_startup": True} | conf
        self.environment = os.environ | {
            "BROKER": broker,
            "BACKEND": backend,
            "FRONTIER": frontier,
            "CONF": json.dumps(self.conf),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.write("project.py", PROJECT)
        self.write("pages.py", SPIDER)
        self.write("titles.py", TITLES)
        self.app = Celery("project", broker=broker, backend=backend, set_as_current=True)
        self.app.conf.update(self.conf)
        register(self.app, frontier=frontier)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(textwrap.dedent(text))

    def start(self, *options: str, processes: int = 2) -> subprocess.Popen[bytes]:
        name = f"w{len(self.processes)}@test"
        command = [sys.executable, "-m", "celery", "-A", "project", "worker", "-n", name, "-c", str(processes)]
        log = (self.folder / f"worker-{len(self.processes)}.log").open("ab")
        process = subprocess.Popen(
            [*command, "-l", "INFO", "-Q", QUEUES, "--without-gossip", "--without-mingle", *options],
            cwd=self.folder,
            env=self.environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self.processes.append(process)
        return process

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("worker-*.log")))

    def hooks_of(self, task_id: str) -> dict[str, int]:
        """How often each hook was called for a task, after the last of them, which comes behind its result."""
        path = self.folder / "hooks.jsonl"

        def called() -> list[str]:
            lines = path.read_text().splitlines() if path.exists() else []
            return [hook for hook, own in map(json.loads, lines) if own == task_id]

        self.until(lambda: "after_return" in called())
        return Counter(called())

    def until(self, condition: Callable[[], Any], seconds: float = START_SECONDS) -> Any:
        """What the condition gives as soon as it is true."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, f"not in time: {condition}\n{self.log()[-5000:]}"
            time.sleep(0.05)
        return value

    def pool_processes(self) -> list[int]:
        """The children of the main processes: prefork's pool."""
        found = []
        for process in self.processes:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            found += [int(pid) for pid in children.read_text().split()] if children.exists() else []
        return found

    def stop(self) -> None:
        """kill -9: a warm shutdown takes three seconds, and has a test of its own."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # Connections of this process, which nothing else closes.
        self.app.backend.result_consumer.stop()
        self.app.pool.force_close_all()
        self.app.producer_pool.force_close_all()
        self.app.close()


@pytest.fixture(scope="session")
def shared_workers(services: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CeleryWorkers]:
    """One worker with two processes for all tests that leave it as it is; each has jobs of its own."""
    folder = tmp_path_factory.mktemp("celery")
    with OwnServers(services) as servers:
        server = servers(OwnRedis, folder / "redis", *IN_MEMORY)
        workers = CeleryWorkers(folder, f"{server.url}/0", f"{server.url}/1", f"{server.url}/2")
        workers.start()
        yield workers
        workers.stop()


@pytest.fixture
def workers(shared_workers: CeleryWorkers) -> CeleryWorkers:
    """The shared one, with its app as the current one."""
    shared_workers.app.set_current()
    return shared_workers


@pytest.fixture
def redis_server(own_redis: Callable[..., OwnRedis]) -> OwnRedis:
    return own_redis(*IN_MEMORY)


@pytest.fixture
def celery_workers(redis_server: OwnRedis, tmp_path: Path) -> Iterator[Callable[..., CeleryWorkers]]:
    """Makes workers whose broker, result backend and frontier are three databases of one Redis, unless told others."""
    made: list[CeleryWorkers] = []
    url = redis_server.url

    def make(broker: str = f"{url}/0", backend: str = f"{url}/1", **conf: Any) -> CeleryWorkers:
        folder = tmp_path / f"project-{len(made)}"
        folder.mkdir()
        made.append(CeleryWorkers(folder, broker, backend, f"{url}/2", **conf))
        return made[-1]

    yield make
    for workers in made:
        workers.stop()
