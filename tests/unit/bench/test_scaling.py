"""The bench of one and two workers: what is compared with what."""

from __future__ import annotations

import os
import subprocess
import sys

import bench_scaling
import pytest
from bench_scaling import BARE, Web


def figures(pages_per_second: float, all_us: float) -> dict[str, float]:
    of_cores = pages_per_second * all_us / 1e6 / 2
    groups = {f"{group}_us": 0.0 for group in bench_scaling.GROUPS}
    return {**groups, "pages_per_second": pages_per_second, "all_us": all_us, "of_cores": of_cores, "others": 0.0}


def test_two_are_compared_with_one_of_the_same_row_by_medians() -> None:
    small, many = Web("small", 1, ("http://a/",), 10), Web("small", 40, ("http://a/",), 10)
    rows = bench_scaling.rows_of(
        {
            (small, BARE, 1): [figures(100, 500), figures(200, 500), figures(900, 500)],
            (small, BARE, 2): [figures(300, 1000)] * 3,
            (many, BARE, 2): [figures(300, 1000)],
        }
    )
    assert [row["to_one"] for row in rows] == [1.0, 1.5, None]
    assert rows[1]["of_cores"] == pytest.approx(0.15)


def test_cpu_of_a_process_is_what_it_has_used() -> None:
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.25 < bench_scaling.cpu_seconds(process.pid) < 2
        assert bench_scaling.busy_seconds() > bench_scaling.cpu_seconds(process.pid)
        assert bench_scaling.cpu_seconds(os.getpid()) > 0
        process.kill()
