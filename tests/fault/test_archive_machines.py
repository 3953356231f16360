"""An archive of a job on two machines: each has its own, and together they hold every page once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from rig.node import HOOK
from rig.processes import HANG_SECONDS
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

SPEC = WebSpec.plain(hosts=2, pages_per_host=150, latency_seconds=0.02)


def machine(skitter, folder: Path, *command: object, **faults: object) -> subprocess.Popen[str]:
    """A command in a folder of its own, on a machine that has the folder's name; faults as in ``rig/hook``."""
    folder.mkdir(exist_ok=True)
    paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
    told = {"FAULT_NODE": folder.name, "PYTHONPATH": os.pathsep.join(paths)}
    told |= {f"FAULT_{name.upper()}": str(value) for name, value in faults.items()}
    return type(skitter)(folder).start(*command, env=os.environ | told)


def ended(process: subprocess.Popen[str]) -> None:
    out, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, out + error


def pages(path: Path) -> Counter[str]:
    kinds = WarcRecordType.response | WarcRecordType.revisit
    if not path.exists():
        return Counter()
    with path.open("rb") as stream:
        records = ArchiveIterator(stream, record_types=kinds, verify_digests=True)
        return Counter(canonical(record.headers["WARC-Target-URI"]) for record in records)


@pytest.mark.parametrize("killed", [False, True])
def test_two_machines_have_an_archive_each(skitter, tmp_path, killed):
    place = ("--frontier", f"sqlite:{tmp_path}/x.db", "--job", "two")
    one, other = tmp_path / "one", tmp_path / "other"
    with served(SPEC, log_path=tmp_path / "hits") as web:
        few = ("--concurrency", 2, "-q", "--set", "lease_seconds=3")
        crawl = machine(skitter, one, "crawl", *web.urls, "-o", "pages.warc.gz", "-o", "out.jsonl", *place, *few)
        while crawl.poll() is None and not web.log():
            time.sleep(0.01)
        worker = machine(skitter, other, "worker", *place, *few[:3])
        if killed:
            # It has pages that were written ahead; then it goes.
            while worker.poll() is None and not any(
                each.stat().st_size for each in other.glob(".pages.warc.gz.ahead/*")
            ):
                time.sleep(0.01)
            time.sleep(0.3)  # the instant of the fault
            os.killpg(worker.pid, signal.SIGKILL)
            worker.communicate()
        else:
            ended(worker)
        ended(crawl)
        expected = web.expected()
    if killed:
        status = skitter.json("status", *place)
        assert status["queued"] == status["leased"] == 0
        ended(machine(skitter, other, "deliver", "-o", "pages.warc.gz", *place))
    first, second = pages(one / "pages.warc.gz"), pages(other / "pages.warc.gz")
    assert first
    assert second
    assert first + second == Counter(expected.done)
    assert len((one / "out.jsonl").read_text().splitlines()) == len(expected.done)


@pytest.mark.soak
def test_a_machine_that_stays_completes_its_archive_with_each_run(skitter, tmp_path):
    place = ("--frontier", f"sqlite:{tmp_path}/x.db", "--job", "two")
    one, other = tmp_path / "one", tmp_path / "other"
    few = ("--concurrency", 2, "-q")
    with served(SPEC) as web:
        worker = machine(skitter, other, "worker", *place, "--stay", *few)
        try:
            for run in (1, 2):
                begun = 0
                while begun != run:  # the other machine may have to complete the run before
                    crawl = machine(skitter, one, "crawl", *web.urls, "-o", "pages.warc.gz", *place, *few, "--json")
                    begun = json.loads(crawl.communicate(timeout=HANG_SECONDS)[0])["run"]
                while skitter.json("status", *place)["undelivered"]:
                    time.sleep(0.1)
                both = pages(one / "pages.warc.gz") + pages(other / "pages.warc.gz")
                assert both == Counter(dict.fromkeys(web.expected().done, run))
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.communicate()


@pytest.mark.soak
def test_an_archive_that_has_every_page_and_was_not_closed_is_completed_by_the_next_worker(skitter, tmp_path):
    place = ("--frontier", f"sqlite:{tmp_path}/x.db", "--job", "two")
    one, other = tmp_path / "one", tmp_path / "other"
    few = ("--concurrency", 2, "-q")
    with served(SPEC, log_path=tmp_path / "hits") as web:
        command = ("crawl", *web.urls, "-o", "pages.warc.gz", *place, *few, "--json")
        crawl = machine(skitter, one, *command)
        while crawl.poll() is None and not web.log():
            time.sleep(0.01)
        worker = machine(skitter, other, "worker", *place, *few, unclosed=1)
        worker.communicate(timeout=HANG_SECONDS)
        assert worker.returncode == -signal.SIGKILL
        ended(crawl)
        assert skitter.json("status", *place)["undelivered"] == 0, "it has every page"
        assert pages(one / "pages.warc.gz") + pages(other / "pages.warc.gz") == Counter(web.expected().done)
        # So late that the ownership of the killed process has run out.
        ended(machine(skitter, other, "worker", *place, "-q", clock=40))
        again = machine(skitter, one, *command)
        assert json.loads(again.communicate(timeout=HANG_SECONDS)[0])["run"] == 2, (
            "every archive is complete: it begins anew"
        )
