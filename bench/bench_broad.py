"""A broad crawl: many hosts with seven pages each, next to pycurl alone, the bare parts and Scrapy, in one run.

bench_broad.py [--hosts 1000]... [--scheme http|https]... [--frontier sqlite|memory|redis] [--rounds 1]
               [--peer-hosts 150] [--concurrency 64] [--delay 0] [--name-seconds 0.03] [--silent-hosts 0] [--write]

One process serves all hosts and answers for their names (many_hosts.py), in network and mount namespaces of its own,
so that the system's resolver asks it. It counts connections, TLS handshakes and lookups. Pages a second and CPU are
taken from the first request that it sees to the last one: neither the start nor the end of a crawler is in them. CPU is
that of all processes of the crawler. The gap is the longest time between two requests to one host. Prints one JSON
object; --write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import report
from many_hosts import DOMAIN, PAGES, enter_namespace, many_sockets, name_of
from measured import CrawlFailedError, family
from others import ENVIRONMENTS, PEERS, NotInstalledError, install, surroundings
from private_redis import redis_at

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "scripts"))

from certificates import Authority  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
TIMEOUT_SECONDS = 900
END_SECONDS = 10
ENOUGH_HOSTS = 100
"""For figures of CPU: the system counts it in ticks of 10 ms."""
INSIDE = "--inside-namespace"
BARE, PARTS, SCRAPY = "pycurl alone", "bare parts", "Scrapy"

Figures = dict[str, Any]


class Server:
    """The process that serves, and what it has counted."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self, seconds: float = 20.0) -> str:
        """The next line; empty if there is none in this time."""
        with contextlib.suppress(queue.Empty):
            return self._lines.get(timeout=seconds)
        return ""

    def counts(self) -> Figures:
        self.say("counts")
        while not (line := self.hear()).startswith("{"):
            if not line:
                raise SystemExit("error: the server of the bench does not answer")
        return json.loads(line)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())


@contextlib.contextmanager
def served(scheme: str, options: argparse.Namespace, folder: Path) -> Iterator[Server]:
    command = [sys.executable, str(HERE / "many_hosts.py"), "--name-seconds", str(options.name_seconds)]
    if scheme == "https":
        authority = Authority(folder)
        certificate, key = authority.issue("hosts", names=f"DNS:*.{DOMAIN}")
        command += ["--certificate", str(certificate), "--key", str(key), "--tls", options.tls]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        server = Server(process)
        if server.hear() != "ready":
            raise SystemExit("error: the hosts cannot be served")
        yield server
    finally:
        process.communicate()


def cpu_of(pid: int) -> float:
    """Seconds of a process and all that descend from it."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / TICKS


def measured(command: list[str], server: Server, hosts: int, env: dict[str, str]) -> Figures:
    """Run it, and look at it at the first and at the last request."""
    requests = hosts * PAGES
    server.say(f"new\nmark 1\nmark {requests}")
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        try:
            began, cpu_before = at_mark(server, process)
            ended, cpu_after = at_mark(server, process)
            with contextlib.suppress(subprocess.TimeoutExpired):  # hosts without an answer take longer
                process.wait(END_SECONDS)
        except CrawlFailedError as error:
            errors.seek(0)
            raise CrawlFailedError(f"{error}: {(errors.read().strip().splitlines() or ['no message'])[-1]}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):  # its workers too, where it has not ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    counts = server.counts()
    if counts["requests"] != requests:
        raise CrawlFailedError(f"{counts['requests']} requests instead of {requests}")
    return {
        "hosts": hosts,
        "pages_per_second": requests / (ended - began),
        "cpu_ms_per_page": (cpu_after - cpu_before) * 1000 / requests,
        **counts,
    }


def at_mark(server: Server, process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """The clock and the crawler's CPU when the server has told that a number of requests was reached."""
    until = time.monotonic() + TIMEOUT_SECONDS
    while not server.hear(1.0).startswith("mark"):
        if process.poll() is not None:
            raise CrawlFailedError(f"it ended early, with {server.counts()['requests']} requests")
        if time.monotonic() > until:
            raise CrawlFailedError(f"not done after {TIMEOUT_SECONDS} s")
    return time.monotonic(), cpu_of(process.pid)


class Comparison:
    """All crawlers on the same hosts."""

    def __init__(self, scheme: str, server: Server, folder: Path, options: argparse.Namespace, redis_url: str) -> None:
        self._scheme, self._server, self._folder, self._options = scheme, server, folder, options
        self._frontier = {"memory": "memory:", "sqlite": "sqlite:job.db", "redis": redis_url}[options.frontier]
        # Both take the authority from here; http needs none, and pycurl wants some file.
        self._ca_file = folder / "ca.pem" if scheme == "https" else Path("/dev/null")

    def crawl(self, hosts: int) -> dict[str, Figures]:
        """Name and medians of each."""
        ours, options = f"skitter, {self._options.frontier}", self._options
        bare = [sys.executable, str(HERE / "bare_fetches.py")]
        commands = {BARE: bare, PARTS: bare, ours: self._skitter()}
        runs: dict[str, list[Figures]] = {name: [] for name in commands}
        for name in [*commands] * options.rounds:
            runs[name].append(self._run(name, commands[name], hosts))
        if options.peer_hosts:
            python = str(ENVIRONMENTS / PEERS["scrapy"].environment / "bin" / "python")
            peer_hosts = min(hosts, options.peer_hosts)
            command = [python, str(HERE / "peers" / "run_scrapy_hosts.py")]
            runs[SCRAPY] = [self._run(SCRAPY, command, peer_hosts)]
        return {name: medians(found) for name, found in runs.items()}

    def _skitter(self) -> list[str]:
        command = [sys.executable, "-m", "skitter", "crawl", "-o", "out.jsonl", "-q", "--job", "bench", "--fresh"]
        command += ["--frontier", self._frontier, "--concurrency", str(self._options.concurrency)]
        command += ["--workers", str(self._options.workers)]
        command += ["--ignore-robots", "--per-host", str(self._options.per_host), "--delay", str(self._options.delay)]
        return [*command, *(f"{self._scheme}://silent{host}.{DOMAIN}/" for host in range(self._options.silent_hosts))]

    def _run(self, name: str, command: list[str], hosts: int) -> Figures:
        urls = [f"{self._scheme}://{name_of(host)}/" for host in range(hosts)]
        file = self._folder / "urls.txt"
        file.write_text("\n".join(urls))
        bare = [str(file), str(self._ca_file)]
        tail = {BARE: bare, PARTS: [*bare, "parse"], SCRAPY: [str(file), str(hosts * PAGES)]}.get(name, urls)
        env = surroundings() | ({"SSL_CERT_FILE": str(self._ca_file)} if self._scheme == "https" else {})
        try:
            figures = measured([*command, *tail], self._server, hosts, env)
        except CrawlFailedError as error:
            raise CrawlFailedError(f"{name}, {hosts} hosts, {self._scheme}: {error}") from None
        print(f"{self._scheme}, {hosts} hosts: {name}: {json.dumps(figures)}", file=sys.stderr)
        return figures


def medians(runs: list[Figures]) -> Figures:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def cpu_ratio(one: Figures, other: Figures) -> str:
    return f"{one['cpu_ms_per_page'] / other['cpu_ms_per_page']:.2f} x" if one["hosts"] >= ENOUGH_HOSTS else ""


def rows(scheme: str, hosts: int, found: dict[str, Figures]) -> list[dict[str, Any]]:
    scrapy = found.get(SCRAPY)
    return [
        {
            "scheme": scheme,
            "hosts": f"{hosts:,}",
            "crawler": name,
            "pages/s": f"{one['pages_per_second']:,.0f}",
            "CPU ms/page": f"{one['cpu_ms_per_page']:.2f}" if one["hosts"] >= ENOUGH_HOSTS else "",
            "connections a host": f"{one['connections'] / one['hosts']:.2f}",
            "full handshakes a host": f"{one['full_handshakes'] / one['hosts']:.2f}",
            "longest gap s": f"{one['longest_gap_seconds']:.2f}",
            "CPU to pycurl": cpu_ratio(one, found[BARE]),
            "CPU to bare parts": cpu_ratio(one, found[PARTS]),
            "speed to Scrapy": f"{one['pages_per_second'] / scrapy['pages_per_second']:.1f} x" if scrapy else "",
        }
        for name, one in found.items()
    ]


ABOUT = """\
## A broad crawl

Hosts with {pages} pages each, the first of which links to the others; {in_flight} requests in flight, one worker, no
robots.txt. All hosts are one process on this machine, which also answers for their names, after {milliseconds:.0f} ms.
pycurl alone fetches the pages of a host one after the other over one connection, 64 hosts at a time, and reads none of
them; the bare parts also find title and links of each and write a JSON line (`bench/bare_fetches.py`). Scrapy crawls
{peer_hosts} of the hosts. Pages a second and CPU, that of all processes of a crawler, are taken from the first request
to the last. The gap is the longest time between two requests to one host."""


def write(table: list[dict[str, Any]], options: argparse.Namespace) -> None:
    about = ABOUT.format(
        pages=PAGES,
        in_flight=options.concurrency,
        milliseconds=options.name_seconds * 1000,
        peer_hosts=options.peer_hosts,
    )
    arguments = [argument for argument in sys.argv[1:] if argument != INSIDE]
    command = shlex.join(["python", "bench/bench_broad.py", *arguments])
    report.write_section("broad", command, f"{about}\n\n{report.table(table)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="a broad crawl next to pycurl alone and Scrapy")
    parser.add_argument("--hosts", type=int, action="append", help="default: 1000; with --write 10, 100, 1000, 10000")
    parser.add_argument("--scheme", choices=("http", "https"), action="append", help="default: both")
    parser.add_argument("--tls", choices=("1.2", "1.3"), default="1.3")
    parser.add_argument("--frontier", choices=("sqlite", "memory", "redis"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--per-host", type=int, default=8)
    parser.add_argument("--delay", type=float, default=0.0, help="of skitter, between two requests to a host")
    parser.add_argument("--silent-hosts", type=int, default=0, help="more seeds of skitter: names without an answer")
    parser.add_argument("--peer-hosts", type=int, default=150, help="that Scrapy crawls; 0: it is not run")
    parser.add_argument("--name-seconds", type=float, default=0.03, help="how long the name server takes")
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.hosts = options.hosts or ([10, 100, 1000, 10_000] if options.write else [1000])
    options.scheme = options.scheme or ["http", "https"]
    return options


def main() -> None:
    options = arguments()
    if not options.inside_namespace:
        if options.peer_hosts:
            try:
                install(PEERS["scrapy"])
            except NotInstalledError as error:
                raise SystemExit(f"error: Scrapy cannot be installed: {error}\nhint: --peer-hosts 0") from None
        enter_namespace(__file__, [INSIDE, *sys.argv[1:]])
    many_sockets()
    table, figures = [], {}
    with contextlib.ExitStack() as stack:
        redis_url = stack.enter_context(redis_at()) if options.frontier == "redis" else ""
        for scheme in options.scheme:
            with tempfile.TemporaryDirectory() as folder, served(scheme, options, Path(folder)) as server:
                comparison = Comparison(scheme, server, Path(folder), options, redis_url)
                for hosts in options.hosts:
                    found = comparison.crawl(hosts)
                    figures[f"{scheme}, {hosts} hosts"] = found
                    table += rows(scheme, hosts, found)
    print(json.dumps(figures, indent=1))
    print(report.table(table), file=sys.stderr)
    if options.write:
        write(table, options)


if __name__ == "__main__":
    try:
        main()
    except CrawlFailedError as error:
        raise SystemExit(f"error: {error}") from None
