"""Jobs as tasks of Celery: a crawl in slices, its gate, its progress and its hooks, on real workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord

import skitter
from rig.processes import HANG_SECONDS
from skitter.contrib.celery import add, crawl, export, finished, status
from skitter.errors import JobError
from skitter.testing.web import WebSpec, served

PRIVATE = {"allow_private": True}


def records(path: Path) -> list[str]:
    return [json.loads(line)["url"] for line in path.read_text().splitlines()]


def pages(web: Any, job: str, **settings: Any) -> dict[str, Any]:
    """What a crawl of a synthetic web is told."""
    return {"job": job, "spider": "pages.py:Pages", "arguments": {"url": web.urls[0]}, "settings": PRIVATE | settings}


def done(client: skitter.Client, job: str) -> int:
    try:
        return client.counts(job).done
    except JobError:
        return 0


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return list(map(int, path.read_text().split()))
    except OSError:
        return []


# ---- on a worker that stays


def test_a_chain_crawls_waits_and_exports(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=60)) as web:
        steps = chain(crawl.s(**pages(web, "chained")), finished.s(), export.s("chained.jsonl"))
        result = steps.apply_async().get(timeout=60)
        assert set(records(workers.folder / "chained.jsonl")) == web.expected().done
    assert result == {"job": "chained", "written": 60, "rejected": 0, "outputs": ["chained.jsonl"]}


def test_urls_that_are_added_are_crawled_by_a_group_whose_chord_follows_the_last_slice(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=30)) as web:
        urls = sorted(web.expected().done)
        requests = [*urls[:20], *({"url": url, "priority": 5, "meta": {"shop": 9}} for url in urls[20:])]
        added = add.delay(requests, "grouped", spider="titles.py:titles", meta={"shop": 7}, settings=PRIVATE)
        assert added.get(timeout=60) == {"job": "grouped", "urls": 30}
        crawls = [crawl.s("grouped", slice_seconds=1), crawl.s("grouped", slice_seconds=1)]
        result = chord(crawls, chain(finished.s(), export.s("grouped.jsonl"))).apply_async().get(timeout=60)
    assert result["written"] == 30
    lines = [json.loads(line) for line in (workers.folder / "grouped.jsonl").read_text().splitlines()]
    assert Counter(line["shop"] for line in lines) == {7: 20, 9: 10}


def test_a_crawl_of_many_slices_is_one_task_with_progress_and_one_call_of_each_hook(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=60)) as web:
        sent = crawl.delay(**pages(web, "slices", delay_seconds=0.05), slice_seconds=1)
        progress = workers.until(lambda: sent.state == "PROGRESS" and sent.info["counts"]["done"] and sent.info)
        gate = finished.delay("slices")
        told = status.delay("slices").get(timeout=60)
        skipped = crawl.delay(**pages(web, "slices"), overlap="skip")
        result = sent.get(timeout=60)
        assert gate.get(timeout=60)["counts"] == result["counts"]
    assert progress["job"] == told["job"] == "slices"
    assert told["run"] == 1
    assert result["state"] == "finished"
    assert result["counts"]["done"] == 60
    assert workers.hooks_of(sent.id) == workers.hooks_of(gate.id) == {"on_success": 1, "after_return": 1}
    slices = workers.log().count(f"Task skitter.crawl[{sent.id}] received")
    assert slices >= 3, "it was to have several slices"
    assert skipped.get(timeout=60)["state"] in ("running", "finished")
    assert workers.log().count(f"Task skitter.finished[{gate.id}] received") > 1, "it was to look again"


def test_of_two_messages_of_one_crawl_the_later_one_goes_on(workers):
    """As after a kill between the next slice's message and the acknowledgement of this one's."""
    with served(WebSpec.plain(hosts=1, pages_per_host=50)) as web, skitter.connect(workers.frontier) as client:
        first = crawl.delay(**pages(web, "twice", delay_seconds=0.1), slice_seconds=600)
        workers.until(lambda: done(client, "twice"))
        # The crawl is not over before the other message is there, however long that takes.
        client.change_settings("twice", {"delay_seconds": 30})
        again = {"job": "twice", "part": {"number": 7, "token": "later"}}
        crawl.apply_async(kwargs=again, task_id=first.id)
        # The first message of the crawl, which begins the job, and its slice that makes way.
        workers.until(lambda: workers.log().count(f"skitter.crawl[{first.id}] ignored") == 2)
        client.change_settings("twice", {"delay_seconds": 0})
        result = first.get(timeout=60)
    assert result["counts"]["done"] == 50
    assert workers.hooks_of(first.id) == {"on_success": 1, "after_return": 1}


def test_a_job_that_cannot_be_begun_fails_once_with_the_reason(workers):
    sent = crawl.delay(spider="nowhere.py")
    with pytest.raises(skitter.SkitterError, match=r"nowhere\.py"):
        sent.get(timeout=60)
    assert workers.hooks_of(sent.id) == {"on_failure": 1, "after_return": 1}


def test_a_file_is_written_on_the_machine_that_begins_the_job(workers):
    with served(WebSpec.plain(hosts=1, pages_per_host=40)) as web:
        told = pages(web, "filed", delay_seconds=0.02) | {"output": "filed.jsonl", "slice_seconds": 1}
        result = chain(crawl.s(**told), finished.s()).apply_async().get(timeout=60)
        written = records(workers.folder / "filed.jsonl")
        assert len(written) == result["items"] == 40
        assert set(written) == web.expected().done


# ---- kills


@pytest.mark.parametrize(("number", "kills"), [(120, 2), pytest.param(5000, 30, marks=pytest.mark.soak)])
@pytest.mark.parametrize("broker", [pytest.param("redis", marks=pytest.mark.soak), "rabbitmq"])
def test_kill_9_of_pool_processes_costs_no_page_and_doubles_none(celery_workers, services, broker, number, kills):
    urls = {"broker": services.need("rabbitmq")["url"], "backend": "rpc://"} if broker == "rabbitmq" else {}
    workers = celery_workers(**urls)
    workers.app.control.purge()
    workers.start()
    with served(WebSpec.plain(hosts=1, pages_per_host=number)) as web:
        # A slice takes a second to start, and many kills of many slices take their time.
        seconds, delay = (900, 0.01) if kills > 10 else (100, 0.06)
        sent = [crawl.delay(**pages(web, "killed", delay_seconds=delay), slice_seconds=3)]
        with skitter.connect(workers.frontier) as client:
            workers.until(lambda: done(client, "killed"))
            sent.append(crawl.delay("killed", slice_seconds=3))
            for _ in range(kills):
                before = done(client, "killed")
                at_work = workers.until(lambda: [pid for pid in workers.pool_processes() if children(pid)])
                os.kill(at_work[0], signal.SIGKILL)
                # The crawl goes on behind each kill.
                workers.until(lambda before=before: done(client, "killed") > before + 3)
        counts = [each.get(timeout=seconds)["counts"] for each in sent]
        assert finished.delay("killed").get(timeout=60)["counts"] == counts[0] == counts[1]
        export.delay("killed", "killed.jsonl").get(timeout=60)
        crawled = records(workers.folder / "killed.jsonl")
        assert len(crawled) == len(set(crawled)) == counts[0]["done"]
        assert set(crawled) == web.expected().done
    assert counts[0]["failed"] == 0
    for each in sent:
        assert workers.hooks_of(each.id) == {"on_success": 1, "after_return": 1}
    workers.until(lambda: not slices_of(workers))


def slices_of(workers: Any) -> list[str]:
    """Processes of slices that are there, of this project."""
    found = subprocess.run(["pgrep", "-f", "skitter.app.worker_slice"], capture_output=True, text=True, check=False)
    return [pid for pid in found.stdout.split() if folder_of(pid) == str(workers.folder)]


def folder_of(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=pytest.mark.soak)])
def test_a_warm_shutdown_ends_a_slice_in_order_and_another_worker_goes_on(celery_workers, pool):
    workers = celery_workers()
    first = workers.start("-P", pool)
    with served(WebSpec.plain(hosts=1, pages_per_host=40)) as web:
        sent = crawl.delay(**pages(web, "moved", delay_seconds=0.1))
        with skitter.connect(workers.frontier) as client:
            workers.until(lambda: done(client, "moved"))
            # The crawl is not over before the shutdown, however long that takes.
            client.change_settings("moved", {"delay_seconds": 30})
            first.send_signal(signal.SIGTERM)
            # A slice has twenty minutes, and the shutdown does not wait for them.
            assert first.wait(HANG_SECONDS) == 0
            assert client.counts("moved").leased == 0
            assert client.counts("moved").done < 40
            client.change_settings("moved", {"delay_seconds": 0.05})
        workers.start("-P", pool)
        assert sent.get(timeout=60)["counts"]["done"] == 40
    assert workers.hooks_of(sent.id) == {"on_success": 1, "after_return": 1}


# ---- what is kept where


def keys(server: Any, database: int) -> int:
    with server.session() as say:
        say("SELECT", database)
        return int(say("DBSIZE"))


@pytest.mark.parametrize("number", [500, pytest.param(100_000, marks=pytest.mark.soak)])
def test_the_number_of_keys_does_not_depend_on_the_number_of_urls(celery_workers, redis_server, number):
    workers = celery_workers()
    workers.write("nothing.py", "def nothing(url):\n    return {'url': url}\n")
    workers.start("-P", "threads")
    settings = PRIVATE | {"max_outbox_items": 200_000, "delay_seconds": 0, "per_host": 64}
    most, left = [], []
    with served(WebSpec.plain(hosts=1, pages_per_host=1)) as web:
        for job, urls in (("few", 10), ("many", number)):
            before = {database: keys(redis_server, database) for database in (0, 1)}
            made = [f"{web.urls[0]}made/{n}" for n in range(urls)]
            steps = chain(add.s(made, job, spider="nothing.py:nothing", settings=settings), crawl.s(), finished.s())
            sent = steps.apply_async()
            seen = dict(before)

            def look(sent=sent, seen=seen) -> bool:
                # Asked first: the last result is stored before the tasks are ready, and is counted then.
                is_ready = sent.ready()
                for database in seen:
                    seen[database] = max(seen[database], keys(redis_server, database))
                return is_ready

            workers.until(look, seconds=60 if number < 10_000 else 1500)
            assert sent.get()["counts"]["done"] == urls
            most.append({database: seen[database] - before[database] for database in seen})
            left.append(keys(redis_server, 1) - before[1])
    assert left == [3, 3], "a result of each task"
    # The first job finds a broker without keys; its own are one for each queue, and three for what is not acknowledged.
    assert most[1][0] <= most[0][0]
    assert most[1][1] == most[0][1] == 3
