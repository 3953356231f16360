"""A fleet serves every job of a store: by priority, in turns, and whatever is wrong with one job or one node."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from skitter import AsyncClient
from skitter.testing.frontiers import drop_job

SPIDER = """
    def scrape(response):
        return {"url": response.url}
"""
BROKEN = """
    from pathlib import Path

    if not Path("submitted-here").exists():
        raise RuntimeError("no such driver")

    def scrape(response):
        return {"url": response.url}
"""
PAGES = 12
URGENT_PAGES = 40
QUICK = ("--set", "turn_seconds=3", "--concurrency", "4")


class Fleet:
    """Three folders with the same spiders, as on three machines; jobs are submitted from the first."""

    def __init__(self, command_line: type, folder: Path, frontier: str, site: Any) -> None:
        self.frontier = frontier
        self.site = site
        self.folders = {name: command_line(folder / name) for name in ("a", "b", "c")}
        self.nodes: list[subprocess.Popen[str]] = []
        for place in self.folders.values():
            place.write("spider.py", SPIDER)
            place.write("broken.py", BROKEN)
            place.write("other.py", SPIDER)

    def submit(self, job: str, *options: object, **define: Any) -> list[str]:
        """Submit a job with pages of its own; their URLs."""
        urls, submitting = self.begin_submit(job, *options, **define)
        assert submitting.wait(HANG_SECONDS) == 0
        submitting.communicate()
        return urls

    def begin_submit(
        self, job: str, *options: object, spider: str = "spider.py", pages: int = PAGES
    ) -> tuple[list[str], subprocess.Popen[str]]:
        for number in range(pages):
            self.site.on(f"/{job}/{number}", self._answer)
        urls = [self.site.url(f"/{job}/{number}") for number in range(pages)]
        at = ("--frontier", self.frontier, "--job", job, "--ignore-robots")
        return urls, self.folders["a"].start("submit", f"{spider}:scrape", *urls, *at, *options, "-q")

    def start(self, node: str, *options: object) -> subprocess.Popen[str]:
        words = ("worker", "--every-job", "--frontier", self.frontier, "--name", node, *QUICK, *options)
        with (self.folders[node].folder / "log").open("w") as log:
            self.nodes.append(self.folders[node].start(*words, "--log-format", "json", stderr=log))
        return self.nodes[-1]

    def jobs(self) -> dict[str, Any]:
        return {view.job: view for view in asyncio.run(jobs_at(self.frontier))}

    def events(self, node: str, name: str) -> list[dict[str, Any]]:
        lines = (self.folders[node].folder / "log").read_text().splitlines()
        # The last one may be half written.
        return [event for line in lines if line.endswith("}") and (event := json.loads(line))["event"] == name]

    def stop(self) -> None:
        for node in self.nodes:
            if node.poll() is None:
                node.send_signal(signal.SIGTERM)
        for node in self.nodes:
            node.communicate(timeout=HANG_SECONDS)

    def kill(self) -> None:
        for node in self.nodes:
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
                node.communicate()

    @staticmethod
    def _answer(_seen: Any, _handler: Any) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.05)  # what a server takes
        return 200, {"Content-Type": "text/html"}, b"<title>x</title>"


async def jobs_at(frontier: str) -> list[Any]:
    async with AsyncClient(frontier) as client:
        return await client.jobs()


@pytest.fixture
def fleet(skitter: Any, tmp_path: Path, site: Any) -> Iterator[Callable[[str], Fleet]]:
    made: list[Fleet] = []

    def make(frontier: str) -> Fleet:
        made.append(Fleet(type(skitter), tmp_path, frontier, site))
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_ten_jobs_one_broken_and_one_with_other_code_on_a_node(
    fleet: Any, tmp_path: Path, own_redis: Any, until: Any, kind: str
) -> None:
    frontier = own_redis().url if kind == "redis" else f"sqlite:{tmp_path / 'fleet.db'}"
    crew = fleet(frontier)
    (crew.folders["a"].folder / "submitted-here").touch()
    crew.folders["c"].write("other.py", SPIDER + "\n# an older version\n")
    submitted = {
        f"normal-{n}": crew.begin_submit(f"normal-{n}", "-o", f"{n}.jsonl", "--deliver", "b") for n in range(6)
    }
    urgent = ("--priority", "high")
    submitted |= {f"high-{n}": crew.begin_submit(f"high-{n}", *urgent, pages=URGENT_PAGES) for n in range(2)}
    submitted["other"] = crew.begin_submit("other", spider="other.py")
    submitted["broken"] = crew.begin_submit("broken", spider="broken.py")
    for _, submitting in submitted.values():
        told = submitting.communicate(timeout=HANG_SECONDS)
        assert submitting.returncode == 0, told
    urls = {name: its for name, (its, _) in submitted.items() if name != "broken"}
    (crew.folders["a"].folder / "submitted-here").unlink()
    nodes = [crew.start(name) for name in ("a", "b", "c")]

    def others_are_finished() -> bool:
        states = {name: view.state for name, view in crew.jobs().items()}
        return states.pop("broken") == "running" and set(states.values()) == {"finished"}

    until(others_are_finished, nodes[0])
    until(lambda: all((crew.folders["b"].folder / f"{n}.jsonl").exists() for n in range(6)))

    # The broken one was skipped by every node, and each has said so once.
    for name in ("a", "b", "c"):
        until(lambda: [event for event in crew.events(name, "fleet.skips") if event["job"] == "broken"])  # noqa: B023
        (skipped,) = [event for event in crew.events(name, "fleet.skips") if event["job"] == "broken"]
        assert "no such driver" in skipped["reason"]
    assert "no such driver" in str(crew.jobs()["broken"].skipped_by)
    at = ("--frontier", frontier, "--job", "broken")
    assert "skipped: a spider cannot be imported" in crew.folders["a"].run("status", *at).stdout

    # The one with other code: the third node has left it to the others, if it came to it at all.
    assert not [event for event in crew.events("c", "worker.joined") if event["job"] == "other"]
    crew.stop()

    assert set(crew.site.paths()) == {url.removeprefix(crew.site.base) for its in urls.values() for url in its}
    for n in range(6):
        assert Counter(line["url"] for line in crew.folders["b"].lines(f"{n}.jsonl")) == Counter(urls[f"normal-{n}"])

    # Shares follow priority: all workers were at the urgent ones first.
    paths = list(dict.fromkeys(crew.site.paths()))
    last_urgent = max(index for index, path in enumerate(paths) if path.startswith("/high"))
    before = last_urgent + 1 - 2 * URGENT_PAGES
    assert before <= 0.5 * 7 * PAGES, f"{before} other pages before the last urgent one"


def test_kill_9_of_nodes_in_the_middle_loses_and_doubles_nothing(fleet: Any, tmp_path: Path, until: Any) -> None:
    crew = fleet(f"sqlite:{tmp_path / 'fleet.db'}")
    names = ("one", "two", "three")
    urls = {name: crew.submit(name, "-o", f"{name}.jsonl", "--deliver", "a", pages=80) for name in names}
    crew.start("c", "--concurrency", 1)
    for killed, node in enumerate(["b", "a"]):
        # The second one is the node that writes the files; a slow one goes on.
        victim = crew.start(node, "--workers", 2)
        until(lambda: len(crew.site.seen) > 50 * (killed + 1), victim)  # noqa: B023
        os.killpg(victim.pid, signal.SIGKILL)
        victim.communicate()
    last = crew.start("a", "--workers", 2)
    until(lambda: {view.state for view in crew.jobs().values()} == {"finished"}, last)
    crew.stop()
    for name, its in urls.items():
        assert Counter(line["url"] for line in crew.folders["a"].lines(f"{name}.jsonl")) == Counter(its)


def test_an_idle_fleet_takes_up_a_new_job_and_an_urgent_one_at_once_and_stops_in_order(
    fleet: Any, tmp_path: Path, until: Any
) -> None:
    crew = fleet(f"sqlite:{tmp_path / 'fleet.db'}")
    node = crew.start("a")
    crew.submit("long", pages=400)
    until(lambda: crew.events("a", "worker.joined"), node)
    crew.submit("urgent", "--priority", "critical", pages=5)
    until(lambda: crew.jobs()["urgent"].state == "finished", node)
    assert crew.jobs()["long"].state == "running", "it was served before, and is after"
    left = [event["reason"] for event in crew.events("a", "fleet.leaves") if event["job"] == "long"]
    assert left == ["another job goes first"]
    until(
        lambda: len([1 for event in crew.events("a", "worker.joined") if event["job"] == "long"]) == 2,
        node,
    )
    crew.stop()
    assert node.returncode == 143
    assert crew.jobs()["long"].unfinished
    status = crew.folders["a"].json("status", "--frontier", crew.frontier, "--job", "long")
    assert (status["leased"], status["worker_list"]) == (0, []), "everything was handed back"


def test_a_dropped_job_stops_nothing(fleet: Any, tmp_path: Path, until: Any) -> None:
    crew = fleet(f"sqlite:{tmp_path / 'fleet.db'}")
    node = crew.start("a", "--workers", 2)
    crew.submit("dropped", pages=400)
    until(lambda: [1 for event in crew.events("a", "worker.joined") if event["job"] == "dropped"], node)
    assert asyncio.run(drop_job(crew.frontier, "dropped")), "by somebody who did not ask for its workers"
    crew.submit("after", pages=5)
    until(lambda: crew.jobs()["after"].state == "finished", node)


def test_a_job_that_waits_for_its_hosts_lets_others_have_its_worker(fleet: Any, tmp_path: Path, until: Any) -> None:
    crew = fleet(f"sqlite:{tmp_path / 'fleet.db'}")
    crew.submit("slow", "--delay", "600", "--priority", "high", pages=3)
    node = crew.start("a", "--set", "turn_seconds=500")
    until(lambda: [path for path in crew.site.paths() if path.startswith("/slow")], node)
    crew.submit("quick", pages=5)
    until(lambda: crew.jobs()["quick"].state == "finished", node)
    assert [event["reason"] for event in crew.events("a", "fleet.leaves") if event["job"] == "slow"][:1] == [
        "another job goes first"
    ]
    assert crew.jobs()["slow"].state == "running"


def test_without_a_frontier_a_fleet_serves_all_files_of_the_folder(skitter: Any, site: Any, until: Any) -> None:
    skitter.write("spider.py", SPIDER)
    site.page("/", "x")
    node = skitter.start("worker", "--every-job", "--workers", 2, "--json")
    for job in ("one", "two"):
        words = ("submit", "spider.py:scrape", site.url(), "--job", job, "--ignore-robots")
        assert "skitter worker --every-job" in skitter.run(*words).stderr
    files = [f"sqlite:{skitter.folder / '.skitter' / job}.db" for job in ("one", "two")]
    until(lambda: {view.state for file in files for view in asyncio.run(jobs_at(file))} == {"finished"}, node)
    node.send_signal(signal.SIGINT)
    out, _ = node.communicate(timeout=HANG_SECONDS)
    assert node.returncode == 130
    told = json.loads(out)
    assert (set(told["served"]), told["skipped"]) == ({"one", "two"}, {})
