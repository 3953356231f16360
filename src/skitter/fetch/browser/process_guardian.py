"""Parent process of one Chromium: ends it with all its children when its worker is gone, and removes its folder.

Run as a program, ``python -I -S process_guardian.py FOLDER WORKER PROGRAM ARGUMENTS…``, by Playwright's driver, in the
place of Chromium and in a process group of its own. The pipes to the driver are passed on. It imports nothing of
skitter, so that it is small and starts quickly. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PID_FILE = "guardian.pid"
"""In the browser's folder: the number of the guardian's process, and that of the driver's."""
OOM_SCORE = "500"
"""Of 1000: a machine without memory ends browsers before workers."""


class _StopError(Exception):
    """SIGTERM came: from the worker, or because the driver is gone."""


def _stop(_number: int, _frame: object) -> None:
    raise _StopError


def main() -> None:
    """Run the program until it or the worker ends."""
    folder, worker, *command = sys.argv[1:]
    prctl = ctypes.CDLL(None).prctl
    # Chromium's processes that lose their parent become children of this one, and none stays behind as a zombie.
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _stop)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # The worker's limit of memory is meant for pages that it parses.
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    place = Path(folder)
    watched = os.pidfd_open(int(worker))
    try:
        place.mkdir(mode=0o700)
        # Whole or not at all: the worker reads it as soon as the browser answers.
        part = place / f"{PID_FILE}.part"
        part.write_text(f"{os.getpid()} {os.getppid()}")
        part.rename(place / PID_FILE)
        _run(command, place, watched, lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    except _StopError:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_children()
        shutil.rmtree(place, ignore_errors=True)
        if select.select([watched], [], [], 0)[0]:
            # The worker is gone, and with it whoever would remove the folder of its browsers.
            shutil.rmtree(place.parent, ignore_errors=True)


def _run(command: list[str], place: Path, watched: int, before: Callable[[], object]) -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": str(place)}
    environment["TMPDIR"] = str(place)
    # Chromium answers through descriptors 3 and 4, which the driver has opened.
    child = subprocess.Popen(  # noqa: S603  the program that the settings name
        [*command, f"--user-data-dir={place / 'profile'}"],
        close_fds=False,
        env=environment,
        preexec_fn=before,  # noqa: PLW1509  nothing else runs in this process
    )
    for descriptor in (3, 4):
        # Chromium alone has them: when it is gone, the driver notices at once.
        os.close(descriptor)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(os.pidfd_open(child.pid), select.POLLIN)
    poll.poll()


def _end_children() -> None:
    """Kill children until there are none: those of one that was killed become children of this process."""
    while True:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                # After the name, which may have any characters: state, parent.
                parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
                if parent == os.getpid():
                    os.kill(int(stat.parent.name), signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                continue
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


if __name__ == "__main__":
    main()
