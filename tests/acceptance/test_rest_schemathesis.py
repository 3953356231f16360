"""schemathesis over the OpenAPI document of a real server: no request makes it fail, every answer is as documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.filled_jobs import fill_job
from rig.master import Master

JOB, SCHEDULE = "news", "nightly"
TOKEN = "admin-token-0123456789"
REFUSED = [400, 401, 403, 404, 405, 409, 411, 413, 415, 429]
CONFIG = f"""
headers = {{ Authorization = "Bearer {TOKEN}" }}

[parameters]
"path.job" = "{JOB}"
"path.name" = "{SCHEDULE}"
"query.store" = "jobs"

[[operations]]  # the job and the schedule stay, for the others
include-method = "DELETE"
parameters = {{ "path.job" = "other", "path.name" = "other" }}

[[operations]]  # a stream does not end
include-path = "/api/v1/events"
enabled = false

[checks]
# No schema says which URLs, settings and commands there are.
positive_data_acceptance.enabled = false
negative_data_rejection.expected-statuses = {REFUSED}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Master]:
    frontier = f"sqlite:{tmp_path / 'jobs.db'}"
    fill_job(frontier, JOB, failures=30, queued=5, workers=2)
    crawl = ("crawl", "http://a.example/", "--job", JOB)
    add = ("schedule", "add", SCHEDULE, "--every", "1h", "--frontier", frontier, "--", *crawl)
    subprocess.run([sys.executable, "-m", "skitter", *add], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"admin {TOKEN}\n")
    with Master(tmp_path, frontier, "--token-file", str(tokens)) as master:
        yield master


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--phases", "coverage,fuzzing", "--max-examples", "3", "--seed", "1"), id="slice"),
        pytest.param(("--max-examples", "100", "--max-time", "900"), id="all", marks=pytest.mark.soak),
    ],
)
def test_every_answer_is_as_the_document_says_and_none_is_a_failure(
    server: Master, tmp_path: Path, options: tuple[str, ...]
) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", *options]
    told = subprocess.run(
        [*command, f"{server.url}/api/v1/openapi.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    # What a failure needs: its lines may have parameters of many kilobytes.
    shown = "\n".join(line[:300] for line in told.stdout.splitlines())[-8_000:]
    assert told.returncode == 0, shown
    selected = re.search(r"Selected: (\d+)/(\d+)", told.stdout)
    assert selected is not None, shown
    assert int(selected[2]) - int(selected[1]) == 1, "all but the stream"
    assert "a request failed" not in server.log()
