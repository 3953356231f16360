"""Deterministic synthetic web for tests: many hosts on loopback, and the exact result of a crawl of them.

In the event loop of a test::

    async with SyntheticWeb(WebSpec(hosts=2)) as web:
        crawl(web.urls)
        assert pages == web.expected().done

In a separate process, for tests that are not async or must not share a core with the server::

    with served(WebSpec.plain(pages_per_host=1000)) as web: ...

From the command line: ``python -m skitter.testing.web --hosts 3 --pages 100``. ``web_pages`` defines the pages,
``web_expected`` walks them and ``web_server`` serves them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skitter.errors import SkitterError
from skitter.testing.web_expected import Expected, expected
from skitter.testing.web_log import Hit, read_log
from skitter.testing.web_pages import PageSpec, page
from skitter.testing.web_server import SyntheticWeb
from skitter.testing.web_spec import WebSpec

__all__ = [
    "Expected",
    "Hit",
    "PageSpec",
    "ServedWeb",
    "SyntheticWeb",
    "WebSpec",
    "expected",
    "page",
    "read_log",
    "served",
]

_STOP_SECONDS = 10.0
_WRITE_LOG = b"\n"
"""Sent to the stdin of a served web to make it write the log; it confirms with a line."""


@dataclass(frozen=True, kw_only=True)
class ServedWeb:
    """Synthetic web in another process."""

    spec: WebSpec
    urls: tuple[str, ...]
    canary_url: str
    dead_url: str
    trap_urls: tuple[str, ...]
    pid: int
    log_path: Path | None
    write_log: Callable[[], None]
    """Function that returns when every request that arrived before the call is in the log file."""

    def log(self) -> list[Hit]:
        """Return all requests so far, in order of arrival. Also works after the ``with`` block."""
        if self.log_path is None:
            raise ValueError("this web keeps no log: give log_path to served()")
        self.write_log()
        return read_log(self.log_path)

    def expected(self, seeds: Iterable[str] | None = None, **options: Any) -> Expected:
        """Return the expected result of a crawl of this web; see ``expected``."""
        return expected(self.spec, self.urls, seeds, canary_url=self.canary_url, dead_url=self.dead_url, **options)


@contextlib.contextmanager
def served(spec: WebSpec, log_path: str | Path | None = None) -> Iterator[ServedWeb]:
    """Serve a synthetic web in a separate process, which ends with the ``with`` block or with the calling process."""
    command = [sys.executable, "-P", "-m", "skitter.testing.web", "--spec", spec.to_json(), "--until-eof"]
    if log_path is not None:
        command += ["--log", str(log_path)]
    # In its own session, so that Ctrl-C at the terminal or a kill of the crawler's process group does not end the web.
    process = subprocess.Popen(  # noqa: S603 - this very interpreter, and no shell
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def write_log() -> None:
        # A web that has ended, or was killed, has nothing more to write.
        with contextlib.suppress(ValueError, BrokenPipeError):
            stdin.write(_WRITE_LOG)
            stdin.flush()
            stdout.readline()

    try:
        line = stdout.readline()
        if not line:
            raise SkitterError(
                f"the synthetic web did not start: exit code {process.wait()}", hint="its own message is on stderr"
            )
        told = json.loads(line)
        yield ServedWeb(
            spec=spec,
            urls=tuple(told["urls"]),
            canary_url=told["canary_url"],
            dead_url=told["dead_url"],
            trap_urls=tuple(told["trap_urls"]),
            pid=process.pid,
            log_path=None if log_path is None else Path(log_path),
            write_log=write_log,
        )
    finally:
        stdin.close()
        stdout.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _serve(spec: WebSpec, log_path: str | None, until_eof: bool) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with SyntheticWeb(spec, log_path=log_path, keep_log=False) as web:

        def heard() -> None:
            asked = os.read(0, 1024)
            for _ in asked:
                web.write_log()
                print(flush=True)
            if not asked:
                # The other end closes when the parent dies, however it dies.
                loop.remove_reader(0)
                stopped.set()

        told = {"urls": web.urls, "canary_url": web.canary_url, "dead_url": web.dead_url, "trap_urls": web.trap_urls}
        print(json.dumps(told), flush=True)
        if until_eof:
            loop.add_reader(0, heard)
        await stopped.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve a web until SIGTERM or Ctrl-C. Its URLs are written to stdout as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m skitter.testing.web", description=main.__doc__)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--pages", type=int, default=100, help="per host")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="ordinary pages only")
    parser.add_argument(
        "--base-port", type=int, default=0, help="host i listens on this port + i (default: free ports)"
    )
    parser.add_argument("--spec", help="the whole WebSpec as JSON, instead of the options above")
    parser.add_argument("--log", help="write one line of JSON per request to this file")
    parser.add_argument("--until-eof", action="store_true", help="stop when stdin ends")
    options = parser.parse_args(arguments)
    try:
        if options.spec:
            spec = WebSpec.from_json(options.spec)
        else:
            make = WebSpec.plain if options.plain else WebSpec
            spec = make(
                hosts=options.hosts, pages_per_host=options.pages, seed=options.seed, base_port=options.base_port
            )
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    _allow_many_sockets()
    try:
        with asyncio.Runner(loop_factory=_fast_loop) as runner:
            runner.run(_serve(spec, options.log, options.until_eof))
    except OSError as error:
        print(f"error: the synthetic web cannot be served: {error}", file=sys.stderr)
        return 3
    return 0


def _fast_loop() -> asyncio.AbstractEventLoop:
    # uvloop takes 12 us of CPU per request instead of 40 (6 KB pages, 64 connections, no log), and the crawler uses it
    # anyway.
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _allow_many_sockets() -> None:
    # One socket per host and per connection soon exceeds the usual soft limit of 1024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
