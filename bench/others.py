"""The other crawlers: each in an environment of its own under build/peers, installed when it is first needed.

What a peer runs is in bench/peers; its versions are in the requirements beside it, and of one in Go in its go.mod.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "peers"
ENVIRONMENTS = HERE.parent / "build" / "peers"
INSTALL_SECONDS = 600


class NotInstalledError(Exception):
    """This peer cannot be had here; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    name: str
    title: str
    script: str
    environment: str
    redis: bool = False
    own: bool = False
    """It runs in the environment of this project, and so does skitter in it."""
    go: bool = False
    """A module in Go: ``script`` is its folder."""

    def command(self, start_url: str, max_pages: int, redis_url: str) -> list[str]:
        if self.go:
            return [str(ENVIRONMENTS / self.environment / self.name), start_url, str(max_pages)]
        python = sys.executable if self.own else str(ENVIRONMENTS / self.environment / "bin" / "python")
        command = [python, str(SCRIPTS / self.script), start_url, str(max_pages)]
        return [*command, redis_url] if self.redis else command


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="scrapy", title="Scrapy", script="run_scrapy.py", environment="scrapy"),
        Peer(
            name="scrapy-redis",
            title="scrapy-redis",
            script="run_scrapy_redis.py",
            environment="scrapy",
            redis=True,
        ),
        Peer(
            name="scrapy-on-skitter",
            title="Scrapy on skitter's frontier",
            script="run_scrapy_on_skitter.py",
            environment="",
            redis=True,
            own=True,
        ),
        Peer(name="crawlee", title="Crawlee", script="run_crawlee.py", environment="crawlee"),
        Peer(name="crawlo", title="Crawlo", script="run_crawlo.py", environment="crawlo"),
        Peer(name="feapder", title="feapder", script="run_feapder.py", environment="feapder"),
        Peer(name="colly", title="Colly", script="colly", environment="colly", go=True),
    )
}


def surroundings() -> dict[str, str]:
    """The environment variables of a peer: it must not find what belongs to skitter."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def install(peer: Peer) -> None:
    """Have the environment of a peer, as its requirements are now."""
    if peer.go:
        build(peer)
        return
    if peer.own:
        if importlib.util.find_spec("scrapy") is None:
            raise NotInstalledError("the extra scrapy is not installed")
        return
    requirements = SCRIPTS / f"requirements-{peer.environment}.txt"
    folder = ENVIRONMENTS / peer.environment
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return
    print(f"installing {peer.title} into {folder}", file=sys.stderr)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(requirements)]
    try:
        venv.create(folder, with_pip=True, clear=True, symlinks=True)
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS, env=surroundings()
        )
    except subprocess.CalledProcessError:
        raise NotInstalledError("this Python makes no environments with pip") from None
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"pip took longer than {INSTALL_SECONDS} s") from None
    if answer.returncode:
        lines = [line for line in answer.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError(lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {answer.returncode}")
    stamp.write_text(requirements.read_text())


def build(peer: Peer) -> None:
    """Compile a peer in Go; go itself knows what has not changed, and fetches modules by their checksums."""
    if not shutil.which("go"):
        raise NotInstalledError("there is no go here")
    binary = ENVIRONMENTS / peer.environment / peer.name
    command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(binary), "."]
    try:
        answer = subprocess.run(
            command, cwd=SCRIPTS / peer.script, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"go build took longer than {INSTALL_SECONDS} s") from None
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()
        raise NotInstalledError(lines[-1] if lines else f"go build ended with {answer.returncode}")
