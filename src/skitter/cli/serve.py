"""``skitter serve``: the master, which serves stores to browsers, programs, workers and commands elsewhere."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser
from skitter.errors import ExtraMissingError, UsageError

if TYPE_CHECKING:
    from skitter.web.server import ServerConfig

DEFAULT_BIND = "127.0.0.1:8601"


def configure(parser: Parser) -> None:
    parser.add_argument(
        "--frontier",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help="the store to serve: sqlite:PATH or redis://HOST; several may be; default: the jobs of .skitter",
    )
    parser.add_argument("--bind", default=DEFAULT_BIND, metavar="HOST:PORT", help=f"default: {DEFAULT_BIND}")
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help="one token for everything, or lines ROLE TOKEN [JOB...]"
    )
    parser.add_argument(
        "--users",
        default="",
        metavar="FILE",
        help="users who log in with a password (skitter user); default: .skitter/users, if it is there",
    )
    parser.add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a reverse proxy whose X-Forwarded headers are believed; several may be",
    )
    parser.add_argument("--open", action="store_true", help="open a browser at the address")
    parser.add_argument("--tls-cert", default="", metavar="FILE", help="the certificate to show, with its chain")
    parser.add_argument("--tls-key", default="", metavar="FILE", help="its key")
    parser.add_argument(
        "--client-ca",
        default="",
        metavar="FILE",
        help="who signs certificates of clients: lines ROLE cert:NAME [JOB...]",
    )
    parser.add_argument("--log", default="-", metavar="FILE", help='where event lines go; "-" is stderr, the default')
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text, the default, or json: one object a line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.run_node import run_loop
    from skitter.settings import Logging

    try:
        from skitter.web.server import ServerConfig
        from skitter.web.users import DEFAULT_FILE
    except ImportError as error:
        raise ExtraMissingError("skitter serve", "http") from error
    host, port = _host_and_port(options.bind)
    config = ServerConfig(
        frontiers=tuple(options.frontier),
        host=host,
        port=port,
        token_file=options.token_file,
        users=options.users or (str(DEFAULT_FILE) if DEFAULT_FILE.exists() else ""),
        trusted_proxies=tuple(options.trusted_proxy),
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        client_ca=options.client_ca,
    )
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job="", verbose=options.verbose):
        number = run_loop(_serve(config, is_opened=options.open))
    # SIGTERM is how a server is asked to end: in order, and so with 0.
    return 0 if number == signal.SIGTERM else of_signal(number)


async def _serve(config: ServerConfig, *, is_opened: bool) -> int:
    """Serve until a signal comes; which one."""
    import asyncio

    from skitter.node.process_rlimits import allow_open_files
    from skitter.web.server import MasterServer

    allow_open_files()
    master = MasterServer(config)
    for store in master.stores.values():
        await store.check()
    came: list[int] = []
    stopped = asyncio.Event()

    def stop(number: int) -> None:
        came.append(number)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    async with master.listening():
        print(f"{master.url}/", flush=True)
        if is_opened:
            await asyncio.to_thread(_open_browser, f"{master.url}/")
        await stopped.wait()
    return came[0]


def _open_browser(url: str) -> None:
    import webbrowser

    from skitter.cli.output import warn

    if not webbrowser.open(url):
        warn(f"no browser can be opened here: {url}")


def _host_and_port(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"not HOST:PORT: --bind {bind}", hint=f"as in {DEFAULT_BIND} or [::1]:8601")
    return host.removeprefix("[").removesuffix("]"), int(port)
