"""Limits of worker processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("resource")


def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    script = (
        "import resource\n"
        "from skitter.node.process_rlimits import allow_open_files\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "allow_open_files()\n"
        "assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
