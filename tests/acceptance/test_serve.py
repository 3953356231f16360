"""``skitter serve``: crawls, workers and every command through a master, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from rig.master import Master
from rig.processes import HANG_SECONDS
from skitter.model.url import canonical
from skitter.testing.web import WebSpec, served

TOKEN, WORKER = "operator-of-everything-1", "worker-of-one-job-0001"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Master]]:
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(Master(tmp_path, f"sqlite:{tmp_path / 'master.db'}", *options))


def token_file(folder: Path, text: str, name: str = "tokens") -> Path:
    path = folder / name
    path.touch(0o600)
    path.write_text(text)
    return path


def test_every_command_works_through_a_master(skitter: Any, serve: Callable[..., Master], site: Any) -> None:
    site.page("/", "<title>home</title><a href='/a'>a</a><a href='/gone'>gone</a>")
    site.page("/a", "<title>a</title>")
    master = serve()
    place = ("--frontier", master.url, "--job", "j")
    summary = skitter.json("crawl", site.url("/"), "-o", "out.jsonl", *place)
    assert (summary["pages"], summary["failed"]) == (2, 1)
    assert {record["title"] for record in skitter.lines("out.jsonl")} == {"home", "a"}
    assert skitter.json("status", *place)["done"] == 2
    assert [job["job"] for job in skitter.records("jobs", "--frontier", master.url)] == ["j"]
    assert skitter.json("why", site.url("/a"), *place)["state"] == "done"
    assert [failed["url"] for failed in skitter.records("failed", *place)] == [site.url("/gone")]
    skitter.run("add", site.url("/b"), *place)
    site.page("/b", "<title>b</title>")
    skitter.run("pause", *place)
    assert skitter.json("status", *place)["state"] == "paused"
    skitter.run("resume", *place)
    skitter.run("worker", *place)
    assert skitter.json("status", *place)["done"] == 3
    skitter.run("fsck", *place)
    skitter.run("items", *place)
    skitter.run("stop", *place)
    skitter.run("drop", *place)
    assert skitter.run("status", *place, code=2).stderr.startswith("error: no such job: j")


def test_a_worker_of_a_listed_job_works_with_its_token_and_can_do_no_more(
    skitter: Any, serve: Callable[..., Master], site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.page("/", "<title>home</title><a href='/a'>a</a>")
    site.page("/a", "<title>a</title>")
    tokens = token_file(skitter.folder, f"operator {TOKEN}\nworker {WORKER} j\n")
    own = token_file(skitter.folder, WORKER, "own")
    master = serve("--token-file", str(tokens), "--allow-submit")
    place = ("--frontier", master.url, "--job", "j")
    refused = skitter.run("crawl", site.url("/"), *place, code=3)
    assert "requires a credential" in refused.stderr
    monkeypatch.setenv("SKITTER_TOKEN", TOKEN)
    skitter.run("crawl", site.url("/"), "--max-pages", 1, *place)
    skitter.run("resume", *place)
    monkeypatch.delenv("SKITTER_TOKEN")
    limited = ("--frontier", f"{master.url}?token_file={own}")
    skitter.run("worker", *limited, "--job", "j")
    for command in ("pause", "stop", "drop"):
        assert "not permitted to a worker" in skitter.run(command, *limited, "--job", "j", code=3).stderr
    assert "this credential is not for the job" in skitter.run("status", *limited, "--job", "other", code=3).stderr
    told = master.log()
    assert "master.refused" in told
    assert TOKEN not in told
    assert WORKER not in told


def test_certificates_of_clients_say_who_they_are(skitter: Any, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    cert, key = authority.issue("master")
    desk, desk_key = authority.issue("desk", names="DNS:desk.example")
    stranger, stranger_key = authority.issue("stranger")
    tokens = token_file(tmp_path, "viewer cert:desk.example\n")
    options = ("--token-file", tokens, "--tls-cert", cert, "--tls-key", key, "--client-ca", authority.file)
    command = [sys.executable, "-m", "skitter", "serve", "--frontier", "sqlite:m.db", "--bind", "127.0.0.1:0", *options]
    with subprocess.Popen(
        [*map(str, command), "--log-format", "json"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            url = json.loads(process.stderr.readline())["url"]
            query = f"?ca={authority.file}&cert={{}}&key={{}}"
            skitter.run("jobs", "--frontier", url + query.format(desk, desk_key))
            refused = skitter.run("jobs", "--frontier", url + query.format(stranger, stranger_key), code=3)
            assert "requires a credential" in refused.stderr
            skitter.run("jobs", "--frontier", f"{url}?ca={authority.file}", code=3)
            assert "certificate is refused" in skitter.run("jobs", "--frontier", url, code=3).stderr
        finally:
            process.terminate()
        process.communicate(timeout=HANG_SECONDS)


def test_a_master_ends_in_order_and_its_clients_wait_for_the_next(skitter: Any, serve: Callable[..., Master]) -> None:
    master = serve()
    spec = WebSpec.plain(hosts=2, pages_per_host=40, latency_seconds=0.05)
    out = skitter.folder / "out.jsonl"
    with served(spec) as web:
        crawl = skitter.start("crawl", *web.urls, "-o", "out.jsonl", "--per-host", 2, "--frontier", master.url)
        # The file is made before the job begins; an item in it says that the crawl is under way.
        while not (out.exists() and out.stat().st_size):
            assert crawl.poll() is None, crawl.communicate()
        os.kill(master.process.pid, signal.SIGTERM)
        assert master.process.wait(HANG_SECONDS) == 0
        master.start()
        _, error = crawl.communicate(timeout=HANG_SECONDS)
        assert crawl.returncode == 0, error
        expected = web.expected()
    assert "frontier.unavailable" in error
    assert "frontier.back" in error
    assert Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl")) == Counter(expected.done)
