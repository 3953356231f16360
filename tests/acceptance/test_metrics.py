"""Metrics of nodes and of a store, as Prometheus reads them: equal to ``status``, bounded, and never going back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rig.master import Master
from rig.processes import HANG_SECONDS, wait_until
from skitter.testing.web import WebSpec, served

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def documented(section: str) -> dict[str, list[str]]:
    """The metrics of a section of the reference, each with the values of its last label."""
    text = REFERENCE.read_text().partition(f"## On {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(skitter_\w+)` \| \w+ \| ([^|]*) \|", text, re.MULTILINE)
    return {name: labels.rpartition(": ")[2].strip().split(", ") for name, labels in rows}


JOB_METRICS = documented("`skitter serve`")
NODE_METRICS = documented("a node with `--metrics`").keys()
EGRESS_METRICS = documented("`skitter egress --metrics`").keys()
SCHEDULER_METRICS = documented("`skitter scheduler --metrics`").keys()
SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
ADMIN, VIEWER = "admin-of-everything-0001", "viewer-of-one-job-00001"


def read(url: str, **headers: str) -> str:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=HANG_SECONDS) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def parse(text: str) -> dict[str, float]:
    """Series by name and labels, as they stand in the text."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SERIES.fullmatch(line).groups()
            found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


def counters(series: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in series.items() if re.match(r"\w+(_total|_bucket|_sum|_count)\b", name)}


@pytest.fixture
def start(skitter: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command; what a test has left running ends with it."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        started.append(skitter.start(*arguments))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def told(path: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(path) if event["event"] == kind]


def test_node_counters_outlive_a_killed_worker_and_equal_the_status(
    skitter: Any, start: Any, services: Any, tmp_path: Path
) -> None:
    promtool = services.need("prometheus")["promtool"]
    log = tmp_path / "log.jsonl"
    place = ("--frontier", "sqlite:jobs.db", "--job", "j")
    with served(WebSpec.plain(hosts=2, pages_per_host=400, latency_seconds=0.02)) as web:
        crawl = start(
            *("crawl", *web.urls, *place, "--workers", 2, "--metrics", 0, "-o", "out.jsonl"),
            *("--set", "concurrency=4", "--log-format", "json", "--log", log),
        )
        url = wait_until(lambda: told(log, "node.metrics"), crawl)[0]["url"]
        assert url.startswith("http://127.0.0.1:")
        pages = 'skitter_node_requests_total{ending="done"}'
        before = wait_until(lambda: (now := parse(read(url)))[pages] > 40 and now, crawl)
        victim = skitter.json("status", *place)["worker_list"][0]
        os.kill(victim["pid"], signal.SIGKILL)
        seen = [before]

        def is_replaced() -> bool:
            """The new worker has started, and has told how many slots it has."""
            seen.append(parse(read(url)))
            return (seen[-1]["skitter_node_workers_started_total"], seen[-1]["skitter_node_slots"]) == (3, 8)

        wait_until(is_replaced, crawl)
        skitter.run("pause", *place)
        wait_until(lambda: (now := skitter.json("status", *place))["leased"] == 0 == now["undelivered"], crawl)
        text = read(url)
        seen.append(parse(text))
        for earlier, later in pairwise(seen):
            assert all(later[name] >= value for name, value in counters(earlier).items())
            assert earlier.keys() == later.keys()
        last, status = seen[-1], skitter.json("status", *place)
        assert last["skitter_node_workers_died_total"] == 1
        assert last["skitter_node_workers"] == 2
        assert last['skitter_node_memory_bytes{process="workers"}'] > 10_000_000
        assert last["skitter_node_slots"] == 8
        # What the killed worker had been told of as committed a moment before its end may not be counted.
        assert status["done"] - 8 <= last[pages] <= status["done"]
        assert last["skitter_node_latency_seconds_count"] >= last[pages]
        assert last['skitter_node_frontier_calls_total{call="commit"}'] > 0
        assert last['skitter_node_frontier_call_seconds_total{call="lease"}'] > 0
        assert last['skitter_node_recovered_leases_total{reason="died"}'] == told(log, "worker.replaced")[0]["leases"]
        check = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
        assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
        assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == NODE_METRICS
        assert read(url, Accept=OPEN_METRICS).endswith("# EOF\n")
        assert read(url.replace("/metrics", "/healthz")) == "ok\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            read(url.replace("/metrics", "/nothing"))

        with Master(tmp_path, "sqlite:jobs.db") as master:
            compare_with_status(skitter, master, place, promtool)
        skitter.run("resume", *place)
        crawl.wait(HANG_SECONDS)
    assert skitter.json("status", *place)["done"] == 800


def compare_with_status(skitter: Any, master: Master, place: tuple[str, ...], promtool: str) -> None:
    text = read(f"{master.url}/metrics")
    check = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
    found, status = parse(text), skitter.json("status", *place)
    for state in ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded"):
        assert found[f'skitter_job_requests{{job_name="j",state="{state}"}}'] == status[state]
    for name in JOB_METRICS["skitter_job_failed_requests"]:
        assert found[f'skitter_job_failed_requests{{job_name="j",class="{name}"}}'] == status["errors"].get(name, 0)
    expected = {
        "pages_total": status["done"],
        "items_total": status["tally"]["items"],
        "bytes_total": status["tally"]["bytes"],
        "undelivered_items": status["undelivered"],
        "slots": 8,
        "run": 1,
    }
    assert {name: found[f'skitter_job_{name}{{job_name="j"}}'] for name in expected} == expected
    # What each does is as old as its last word.
    alive = [state for state in JOB_METRICS["skitter_job_workers"] if state not in ("silent", "skipped")]
    assert sum(found[f'skitter_job_workers{{job_name="j",state="{state}"}}'] for state in alive) == 2
    assert status["workers"] == 2
    assert found['skitter_job_links_total{job_name="j",result="new"}'] == status["seen"]
    assert found['skitter_job_links_total{job_name="j",result="duplicate"}'] == status["tally"]["duplicates"]
    assert found['skitter_job_state{job_name="j",state="paused"}'] == found['skitter_jobs{state="paused"}'] == 1
    assert found['skitter_job_sinks{job_name="j",state="open"}'] == 1
    assert found['skitter_schedules{state="active"}'] == 0
    scale = json.loads(read(f"{master.url}/api/v1/jobs/j/scale?per_worker=100"))
    assert (scale["state"], scale["queue_length"], scale["workers"], scale["workers_wanted"]) == ("paused", 0, 2, 0)
    skitter.run("schedule", "add", "hourly", "--every", "1h", "--frontier", "sqlite:jobs.db", "--", "jobs")
    assert parse(read(f"{master.url}/metrics"))['skitter_schedules{state="active"}'] == 1
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == JOB_METRICS.keys()


@pytest.mark.parametrize("hosts", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_hosts_add_no_series_and_a_viewer_sees_its_jobs(skitter: Any, tmp_path: Path, site: Any, hosts: int) -> None:
    place = ("--frontier", "sqlite:jobs.db")
    for job in ("j", "other"):
        skitter.run("crawl", site.url("/"), *place, "--job", job, code=1)
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"admin {ADMIN}\nviewer {VIEWER} j\n")
    with Master(tmp_path, "sqlite:jobs.db", "--token-file", str(tokens)) as master:
        admin, viewer = {"Authorization": f"Bearer {ADMIN}"}, {"Authorization": f"Bearer {VIEWER}"}
        before = parse(read(f"{master.url}/metrics", **admin))
        urls = tmp_path / "urls"
        urls.write_text("".join(f"http://host-{number}.example/\n" for number in range(hosts)))
        skitter.run("add", "--file", urls, *place, "--job", "j")
        after = parse(read(f"{master.url}/metrics", **admin))
        assert after.keys() == before.keys()
        assert after['skitter_job_requests{job_name="j",state="queued"}'] == hosts
        assert after['skitter_job_failed_requests{job_name="other",class="http_4xx"}'] == 1
        seen = parse(read(f"{master.url}/metrics", **viewer))
        assert {re.search(r'job_name="(\w+)"', name)[1] for name in seen if 'job_name="' in name} == {"j"}
        assert seen['skitter_jobs{state="finished"}'] == 0
        scale = json.loads(read(f"{master.url}/api/v1/jobs/j/scale", **viewer))
        assert (scale["queue_length"], scale["workers_wanted"]) == (hosts, hosts // 1_000)
        for path, headers, status in (
            ("/metrics", {}, 401),
            ("/api/v1/jobs/j/scale", {}, 401),
            ("/api/v1/jobs/other/scale", viewer, 403),
            ("/api/v1/jobs/none/scale", admin, 404),
            ("/api/v1/jobs/j/scale?per_worker=0", admin, 400),
        ):
            with pytest.raises(urllib.error.HTTPError, match=str(status)):
                read(master.url + path, **headers)
        # A probe has no token.
        assert read(f"{master.url}/readyz") == "ok\n"


def test_a_node_of_a_fleet_counts_for_all_its_jobs_together(
    skitter: Any, start: Any, site: Any, tmp_path: Path
) -> None:
    place, log = ("--frontier", "sqlite:jobs.db"), tmp_path / "log.jsonl"
    for job in ("one", "two"):
        skitter.run("submit", site.url("/"), site.url("/gone"), *place, "--job", job, "--ignore-robots")
    site.page("/", "page")
    fleet = start("worker", "--every-job", *place, "--metrics", 0, "--log-format", "json", "--log", log)
    url = wait_until(lambda: told(log, "node.metrics"), fleet)[0]["url"]
    # A job that is over leaves what its workers have counted.
    wait_until(lambda: len(told(log, "fleet.leaves")) == 2, fleet)
    found = parse(read(url))
    assert found['skitter_node_requests_total{ending="done"}'] == 2
    assert found['skitter_node_errors_total{class="http_4xx"}'] == 2
    assert found["skitter_node_workers"] == 0
    assert found["skitter_node_workers_started_total"] == 2
    assert found["skitter_node_workers_died_total"] == 0


def test_a_master_without_its_store_is_healthy_and_not_ready(own_redis: Any, tmp_path: Path) -> None:
    redis = own_redis()
    with Master(tmp_path, redis.url) as master:
        assert read(f"{master.url}/readyz") == "ok\n"
        redis.kill()

        def status() -> int:
            try:
                read(f"{master.url}/readyz")
            except urllib.error.HTTPError as error:
                return error.code
            return 200

        wait_until(lambda: status() == 503, master.process)
        assert read(f"{master.url}/healthz") == "ok\n"


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", "1:2:99999999", "TAKEN"])
def test_an_address_that_cannot_be_had_is_refused_before_anything_begins(skitter: Any, site: Any, address: str) -> None:
    address = address.replace("TAKEN", site.url("/").split(":")[2].strip("/"))
    refused = skitter.run("crawl", site.url("/"), "--frontier", "memory:", "--metrics", address, code=2).stderr
    assert ("error: not [HOST:]PORT" in refused) != (f"--metrics {address}: Address already in use" in refused)
    assert not site.seen


def test_beyond_this_machine_metrics_need_a_token(skitter: Any, start: Any, site: Any, tmp_path: Path) -> None:
    place, log = ("--frontier", "sqlite:jobs.db"), tmp_path / "log.jsonl"
    told_why = skitter.run("worker", "--every-job", *place, "--metrics", "0.0.0.0:0", code=2).stderr
    assert "without a token, metrics can be served on this machine only" in told_why
    token = tmp_path / "metrics-token"
    token.write_text(f"{ADMIN}\n")
    options = ("worker", "--every-job", *place, "--metrics", "0.0.0.0:0", "--metrics-token-file", token)
    token.chmod(0o644)
    assert "only its owner may read it: chmod 600" in skitter.run(*options, code=2).stderr
    token.chmod(0o600)
    token.write_text("short")
    refused = skitter.run(*options, code=2).stderr
    assert "does not have one token of at least 16 characters" in refused
    assert "error: short" not in refused
    token.write_text(f"{ADMIN}\n")
    node = start(*options, "--log-format", "json", "--log", log)
    url = wait_until(lambda: told(log, "node.metrics"), node)[0]["url"].replace("0.0.0.0", "127.0.0.1")
    for wrong in ({}, {"Authorization": f"Bearer {VIEWER}"}, {"Authorization": f"Basic {ADMIN}"}):
        with pytest.raises(urllib.error.HTTPError, match="401") as error:
            read(url, **wrong)
        assert error.value.headers["WWW-Authenticate"] == "Bearer"
    assert read(url, Authorization=f"bearer {ADMIN}").startswith("# HELP skitter_build_info")
    # A probe has no token.
    assert read(url.replace("/metrics", "/healthz")) == "ok\n"


def checked(text: str, families: Any, promtool: str) -> dict[str, float]:
    check = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == families
    return parse(text)


def test_a_scheduler_tells_its_ticks_and_whether_it_leads(
    skitter: Any, start: Any, services: Any, site: Any, tmp_path: Path
) -> None:
    promtool = services.need("prometheus")["promtool"]
    place = ("--frontier", f"sqlite:{tmp_path / 'jobs.db'}")
    logs = [tmp_path / f"{name}.jsonl" for name in ("leader", "waits")]
    site.page("/", "page")
    skitter.run("schedule", "add", "good", "--every", "1d", *place, "--", "crawl", site.url("/"), "--ignore-robots")
    skitter.run("schedule", "add", "bad", "--every", "1d", *place, "--", "status", "--job", "nothing")
    schedulers, urls = [], []
    for log in logs:
        schedulers.append(start("scheduler", *place, "--metrics", 0, "--log-format", "json", "--log", log))
        urls.append(wait_until(lambda log=log: told(log, "node.metrics"), schedulers[-1])[0]["url"])
        wait_until(lambda log=log: told(log, "scheduler.leads") or told(log, "scheduler.follows"), schedulers[-1])
    before = checked(read(urls[0]), SCHEDULER_METRICS, promtool)
    assert before["skitter_scheduler_leads"] == before["skitter_scheduler_store_up"] == 1
    assert before['skitter_scheduler_ticks_total{outcome="done"}'] == 0
    assert parse(read(urls[1]))["skitter_scheduler_leads"] == 0
    for name in ("good", "bad"):
        skitter.run("schedule", "run", name, *place)
    wait_until(lambda: len(told(logs[0], "schedule.tick_ended")) == 2, schedulers[0])
    after = wait_until(lambda: (now := parse(read(urls[0])))["skitter_scheduler_commands"] == 0 and now, schedulers[0])
    assert after.keys() == before.keys()
    ticks = {name: after[f'skitter_scheduler_ticks_total{{outcome="{name}"}}'] for name in ("done", "failed", "missed")}
    assert ticks == {"done": 1, "failed": 1, "missed": 0}
    assert after["skitter_scheduler_memory_bytes"] > 10_000_000


def test_an_egress_tells_what_it_passed_on_and_its_redials(
    skitter: Any, start: Any, services: Any, site: Any, tmp_path: Path
) -> None:
    promtool = services.need("prometheus")["promtool"]
    site.page("/", "page")
    place, log = ("--frontier", f"sqlite:{tmp_path / 'jobs.db'}", "--job", "j"), tmp_path / "log.jsonl"
    redial = "n=$(cat n || echo 0); echo $((n + 1)) > n; test $n != 0"
    egress = start(
        *("egress", *place, "--listen", "127.0.0.1:0", "--allow-private", "--metrics", 0),
        *("--redial", redial, "--every", "0.5", "--at-least", "0.2", "--log-format", "json", "--log", log),
    )
    url = wait_until(lambda: told(log, "node.metrics"), egress)[0]["url"]
    before = checked(read(url), EGRESS_METRICS, promtool)
    assert before['skitter_egress_redials_total{result="failed"}'] in (0, 1)
    skitter.run("crawl", site.url("/"), *place, "--proxies", "registered", "--ignore-robots")
    wait_until(lambda: told(log, "egress.redialed"), egress)
    after = wait_until(lambda: (now := parse(read(url)))["skitter_egress_registered"] == 1 and now, egress)
    assert after["skitter_egress_requests_total"] >= 1
    assert after['skitter_egress_redials_total{result="done"}'] >= 1
    assert after['skitter_egress_redials_total{result="failed"}'] == 1
    assert after.keys() == before.keys()
