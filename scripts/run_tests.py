"""Runs the tests in several processes, and runs a few failed tests of real processes and servers once more, alone.

Such tests start processes, servers and browsers, and wait for them with time limits. On a machine that has fewer
cores than test processes, a limit can pass although nothing is broken. So at most ``MOST_REPEATED`` of them are
repeated with nothing beside them. A test that fails again fails the run; one that passes is reported as unsteady and
listed in ``build/unsteady-tests.txt``: its cause has to be found. Tests of values and contracts are never repeated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
"""Where pytest notes the tests that failed."""
UNSTEADY = ROOT / "build" / "unsteady-tests.txt"
REPEATED_FOLDERS = ("tests/acceptance/", "tests/docs/", "tests/fault/", "tests/integration/")
MOST_REPEATED = 3
TESTS_FAILED = 1
"""Exit code of pytest; greater ones are usage errors, interruptions and the like."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", default="3", metavar="JOBS", help="number of test processes")
    jobs, arguments = parser.parse_known_args()
    LAST_FAILED.unlink(missing_ok=True)
    UNSTEADY.unlink(missing_ok=True)
    code = pytest("-n", jobs.n, "--slice", *arguments)
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if code != TESTS_FAILED or not may_repeat(failed):
        return code
    print(f"\nOnce more, with nothing beside them: {' '.join(failed)}", flush=True)
    code = pytest(*failed)
    if code == 0:
        UNSTEADY.parent.mkdir(exist_ok=True)
        UNSTEADY.write_text("".join(f"{name}\n" for name in failed))
        print(f"warning: unsteady, failed beside other tests and passed alone: {' '.join(failed)}", flush=True)
    return code


def may_repeat(failed: list[str]) -> bool:
    """Whether few enough tests failed, and only such as start processes and servers."""
    return 0 < len(failed) <= MOST_REPEATED and all(name.startswith(REPEATED_FOLDERS) for name in failed)


def pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
