"""Runs the blocks of one page, top to bottom, in a folder of its own.

The working folder and exported variables carry over from block to block, as they do for a reader who types them. What a
block leaves in the background is killed at its end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sample_blocks import SERVERS, Block

from rig.processes import SERVER, SKITTER_COMMAND, ForkedProcess

BLOCK_SECONDS = 100.0
"""After this time a block counts as one that hangs."""
SHOWN_OUTPUT = 3000
REFUSED = "apt apt-get docker helm kubectl pip pip3 sudo systemctl".split()
"""Commands that change the machine: a block with one of them is not run."""
DEMO = "127.0.0.1:8600"

_PROLOGUE = """\
cd "$(cat "$PAGE_STATE/folder")"
if [ -e "$PAGE_STATE/variables" ]; then . "$PAGE_STATE/variables"; fi
trap 'pwd > "$PAGE_STATE/folder"; export -p > "$PAGE_STATE/variables"' EXIT
set -e
"""
_SKITTER = """\
#!/bin/sh
# The tests have a demo site already; another one takes a free port.
if [ "$1" = demo ] && [ "$#" = 1 ]; then set -- demo --bind 127.0.0.1:0; fi
exec {python} -I -S {program} {socket} "$@"
"""


Start = Callable[..., "subprocess.Popen[Any]"]
"""Starts a process with the options of ``subprocess.Popen``."""


class BlockFailedError(Exception):
    """A block did not do what it promises; the message begins with its line."""


class PageRun:
    """The state of one page's run."""

    def __init__(self, folder: Path, *, demo: str, servers: dict[str, str]) -> None:
        """Prepare the folder. ``demo``: HOST:PORT of a demo site; ``servers``: URLs by the name of ``needs``."""
        self.folder = folder / "page"
        self._state = folder / "state"
        self._replaced = {DEMO: demo, DEMO.replace(":", "-"): demo.replace(":", "-")}
        self._replaced |= {SERVERS[name]: url for name, url in servers.items()}
        self._unchecked: list[tuple[int, Path]] = []
        programs = folder / "bin"
        for made in (self.folder, self._state, programs):
            made.mkdir()
        (self._state / "folder").write_text(str(self.folder))
        told = {"python": sys.executable, "program": SKITTER_COMMAND, "socket": SERVER.path()}
        _write_program(programs / "skitter", _SKITTER.format(**told))
        for name in REFUSED:
            _write_program(
                programs / name, f"#!/bin/sh\necho 'write <!-- not run: ... -->: it calls {name}' >&2\nexit 64\n"
            )
        own = [str(programs), str(Path(sys.executable).parent)]
        self._environment = os.environ | {
            "HOME": str(folder),
            "PAGE_STATE": str(self._state),
            "PATH": os.pathsep.join([*own, os.environ["PATH"]]),
            "PIP_NO_INDEX": "1",
            # The plugins of this project take longer to load than the tests of a sample take. Users have skitter's own.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "skitter.testing.pytest_plugin",
        }

    def run(self, block: Block) -> None:
        """Write, run or skip a block. Raises BlockFailedError."""
        code = block.code
        for old, new in self._replaced.items():
            code = code.replace(old, new)
        if block.file and block.language in ("python", "toml", "yaml"):
            path = self._place() / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
            if block.language == "python" and block.is_run:
                self._unchecked.append((block.line, path))
        elif block.is_run:
            self.check_files()
            if block.language == "bash":
                self._finish(block, lambda **options: subprocess.Popen(["bash", "-c", _PROLOGUE + code], **options))
            else:
                script = self._state / f"line-{block.line}.py"
                script.write_text(code)
                self._finish(block, partial(ForkedProcess, str(script), []))

    def check_files(self) -> None:
        """Import the Python files that were written since the last call."""
        files, self._unchecked = self._unchecked, []
        if files:
            # A page may show one file several times, as it grows: what is there now is imported, once.
            paths = dict.fromkeys(str(path) for _, path in files)
            ended = self._start(partial(ForkedProcess, str(Path(__file__).with_name("import_files.py")), [*paths]))
            if ended.returncode:
                lines = ", ".join(str(line) for line, _ in files)
                raise BlockFailedError(f"{lines}: a file cannot be imported\n{ended.stdout[-SHOWN_OUTPUT:]}")

    def _place(self) -> Path:
        return Path((self._state / "folder").read_text().strip())

    def _finish(self, block: Block, start: Start) -> None:
        ended = self._start(start)
        has_failed = ended.returncode != 0
        if has_failed != ("fails" in block.marks):
            wanted = "it must fail" if "fails" in block.marks else "it must not fail"
            raise BlockFailedError(
                f"{block.line}: exit status {ended.returncode}, {wanted}\n{ended.stdout[-SHOWN_OUTPUT:]}"
            )

    def _start(self, start: Start) -> subprocess.CompletedProcess[str]:
        output = self._state / "output"
        # Not a pipe: what runs in the background would hold it open.
        with output.open("w") as out:
            process = start(
                cwd=self._place(),
                env=self._environment | {"PYTHONPATH": os.pathsep.join(_import_paths(self._place()))},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(BLOCK_SECONDS)
            except subprocess.TimeoutExpired:
                out.write(f"\nnot at its end after {BLOCK_SECONDS:g} seconds\n")
            finally:
                _kill_group(process)
        return subprocess.CompletedProcess(process.args, process.returncode, output.read_text(errors="replace"))


def _import_paths(folder: Path) -> list[str]:
    """A script is run as a file of the page's folder: its neighbours can be imported."""
    return [str(folder), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]


def _kill_group(process: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o700)
