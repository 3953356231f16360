"""``make crawl``: serve the demo web and crawl it with two workers through the real command line.

It leaves only ``build/demo.jsonl`` and the job's ``.skitter/demo.db`` behind. Further arguments are passed on to
``skitter crawl``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from skitter.testing.web import WebSpec, served

RESULTS = Path("build/demo.jsonl")
FRONTIER = Path(".skitter/demo.db")


def crawl_command(urls: Sequence[str], extra: Sequence[str] = ()) -> list[str]:
    """Return the command line of the demo crawl."""
    return [
        *(*_program(), "crawl", *urls),
        *("--workers", "2", "-O", str(RESULTS)),
        # The ports and therefore the seeds differ each time, so an older run is never resumed.
        *("--job", "demo", "--frontier", f"sqlite:{FRONTIER}", "--fresh"),
        # The demo has errors on purpose: do not wait for them as long as for a real host.
        *("--set", "retry_delay_seconds=0.2", "--set", "host_backoff_seconds=1"),
        *extra,
    ]


def _program() -> list[str]:
    """Return the command of this environment; the commands that a crawl prints begin with it."""
    script = Path(sys.prefix) / "bin" / "skitter"
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "skitter"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Crawl the demo web and return the exit code of ``skitter crawl``."""
    extra = sys.argv[1:] if arguments is None else arguments
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    FRONTIER.parent.mkdir(parents=True, exist_ok=True)
    spec = WebSpec.demo()
    with served(spec) as web:
        print(
            f"crawling the demo web: {spec.hosts} hosts on this machine, {spec.hosts * spec.pages_per_host} pages,"
            f" with redirects, errors, slow and broken ones among them; results: {RESULTS}",
            file=sys.stderr,
            flush=True,
        )
        return _run(crawl_command(web.urls, extra))


def _run(command: list[str]) -> int:
    crawl = subprocess.Popen(command)  # noqa: S603 - this very interpreter, and no shell
    # Ctrl-C reaches the crawl directly, as it is in the same process group; the web must outlive the crawl's last
    # fetches.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: crawl.terminate()),
    }
    try:
        code = crawl.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
