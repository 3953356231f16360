"""The log in files: rotated, by several commands, in text and JSON, with the node in every line."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

import skitter as api
from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served


def files(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}*"))


def test_two_nodes_share_a_log_that_is_rotated(skitter: Any) -> None:
    log = ["--log", "crawl.log", "--log-format", "json", "--set", "max_log_bytes=3000", "--set", "max_log_files=50"]
    with served(WebSpec.plain(hosts=1, pages_per_host=60, latency_seconds=0.005)) as web:
        jobs = [
            skitter.start("crawl", web.urls[0], "--job", job, "--allow-private", *log, "-v", "-o", f"{job}.jsonl")
            for job in ("one", "two")
        ]
        for job in jobs:
            _, error = job.communicate(timeout=HANG_SECONDS)
            assert job.returncode == 0, error
    written = files(skitter.folder, "crawl.log")
    assert len(written) > 2
    lines = [json.loads(line) for file in written for line in file.read_text().splitlines()]
    assert {line["node"] for line in lines} == {socket.gethostname()}
    for job in ("one", "two"):
        names = [line["event"] for line in lines if line["job"] == job]
        assert (names.count("job.begun"), names.count("worker.joined"), names.count("worker.left")) == (1, 1, 1)


def test_text_on_standard_error_names_the_node_too(skitter: Any, site: Any) -> None:
    site.page("/")
    done = skitter.run("crawl", site.url(), "--job", "j")
    (line,) = (line for line in done.stderr.splitlines() if " job.begun: " in line)
    assert line.endswith(f"(job=j node={socket.gethostname()})")


async def test_crawls_of_one_program_have_a_log_each(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    site.page("/")

    class Local(api.Spider):
        start_urls = (site.url(),)

        def parse(self, response: api.Response) -> None:
            self.logger.warning("said of %s", self.name)

    def crawl(name: str, form: str) -> Any:
        class Named(Local):
            pass

        Named.name = name
        settings = {"log_file": f"{name}.log", "log_format": form, "log_level": "info"}
        return api.acrawl(Named, settings=settings, output=f"{name}.jsonl")

    await asyncio.gather(crawl("a", "text"), crawl("b", "json"))
    text = (tmp_path / "a.log").read_text()
    records = [json.loads(line) for line in (tmp_path / "b.log").read_text().splitlines()]
    assert "warning skitter.spider.a: said of a (job=a node=" in text
    assert "said of b" not in text
    assert [record["message"] for record in records if record["event"] == "log"] == ["said of b"]
    assert {record["job"] for record in records} == {"b"}
