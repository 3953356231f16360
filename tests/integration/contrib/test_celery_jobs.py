"""Jobs as tasks of Celery: a crawl in slices, its gate, its progress and its hooks, on real workers."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from celery import chain

import skitter
from skitter.contrib.celery import crawl, export, finished, status
from skitter.errors import JobError
from skitter.testing.web import WebSpec, served

PRIVATE = {"allow_private": True}


def records(path: Path) -> list[str]:
    return [json.loads(line)["url"] for line in path.read_text().splitlines()]


def pages(web, **settings) -> dict:
    """What a crawl of a synthetic web is told."""
    return {"spider": "pages.py:Pages", "arguments": {"url": web.urls[0]}, "settings": PRIVATE | settings}


def test_a_chain_crawls_waits_and_exports(celery_workers):
    workers = celery_workers()
    workers.start()
    with served(WebSpec.plain(hosts=1, pages_per_host=60)) as web:
        steps = chain(crawl.s(**pages(web)), finished.s(), export.s("items.jsonl"))
        result = steps.apply_async().get(timeout=60)
        assert set(records(workers.folder / "items.jsonl")) == web.expected().done
    assert result == {"job": "pages", "written": 60, "rejected": 0, "outputs": ["items.jsonl"]}


def test_a_crawl_of_many_slices_is_one_task_with_progress_and_one_call_of_each_hook(celery_workers):
    workers = celery_workers()
    workers.start()
    with served(WebSpec.plain(hosts=1, pages_per_host=80)) as web:
        sent = crawl.delay(**pages(web, delay_seconds=0.05), slice_seconds=1)
        progress = workers.until(lambda: sent.state == "PROGRESS" and sent.info["counts"]["done"] and sent.info)
        told = status.delay("pages").get(timeout=30)
        result = sent.get(timeout=60)
    assert progress["job"] == "pages"
    assert told["run"] == 1
    assert result["state"] == "finished"
    assert result["counts"]["done"] == 80
    hooks = Counter(hook for hook, _, task_id in workers.hooks() if task_id == sent.id)
    assert hooks == {"on_success": 1, "after_return": 1}
    slices = workers.log().count(f"Task skitter.crawl[{sent.id}] received")
    assert slices >= 3, "it was to have several slices"


@pytest.mark.parametrize(("pages_per_host", "kills"), [(300, 4), pytest.param(5000, 40, marks=pytest.mark.soak)])
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_kill_9_of_pool_processes_costs_no_page_and_doubles_none(
    celery_workers, services, broker, pages_per_host, kills
):
    workers = celery_workers(**({"broker": services.need("rabbitmq")["url"]} if broker == "rabbitmq" else {}))
    workers.app.control.purge()
    workers.start()
    with served(WebSpec.plain(hosts=1, pages_per_host=pages_per_host)) as web:
        sent = crawl.delay(**pages(web, delay_seconds=0.02), slice_seconds=3)
        with skitter.connect(workers.frontier) as client:
            killed = 0
            workers.until(lambda: client_done(client))
            more = crawl.delay("pages", slice_seconds=3)
            while killed < kills and not sent.ready():
                done = workers.until(lambda: client_done(client))
                for pid in workers.pool_processes():
                    if has_children(pid):
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                        break
                # The crawl goes on behind each kill.
                workers.until(lambda done=done: sent.ready() or client_done(client) > done + 5)
        results = [each.get(timeout=60 if kills < 10 else 600) for each in (sent, more)]
        assert killed >= min(kills, 2)
        assert finished.delay("pages").get(timeout=60)["counts"] == results[0]["counts"]
        export.delay("pages", "items.jsonl").get(timeout=60)
        crawled = records(workers.folder / "items.jsonl")
        assert len(crawled) == len(set(crawled))
        assert set(crawled) == web.expected().done
    assert results[0]["counts"]["done"] == len(crawled)
    assert results[0]["counts"]["dead"] == 0
    succeeded = Counter(task_id for hook, _, task_id in workers.hooks() if hook == "on_success")
    assert succeeded[sent.id] == succeeded[more.id] == 1


def client_done(client) -> int:
    try:
        return client.counts("pages").done
    except JobError:
        return 0


def has_children(pid: int) -> bool:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return path.exists() and bool(path.read_text().split())
