"""``skitter serve``: the master, which serves a store to workers and commands elsewhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_frontier_option
from skitter.errors import ExtraMissingError, UsageError

if TYPE_CHECKING:
    from skitter.settings import Run

DEFAULT_BIND = "127.0.0.1:8601"


def configure(parser: Parser) -> None:
    add_frontier_option(parser, "the store to serve: sqlite:PATH or redis://HOST", required=True)
    parser.add_argument("--bind", default=DEFAULT_BIND, metavar="HOST:PORT", help=f"default: {DEFAULT_BIND}")
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help="one token for everything, or lines ROLE TOKEN [JOB...]"
    )
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
    except ImportError as error:
        raise ExtraMissingError("skitter serve", "http") from error
    host, port = _host_and_port(options.bind)
    config = ServerConfig(
        frontier=options.frontier,
        host=host,
        port=port,
        token_file=options.token_file,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        client_ca=options.client_ca,
        run=_alerts(),
    )
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job="", verbose=options.verbose):
        return of_signal(run_loop(_serve(config)))


def _alerts() -> Run:
    """The alerts of the project file; no other setting of it is for a master."""
    import os
    from pathlib import Path

    from skitter.cli import settings_layers
    from skitter.settings import Run

    project = settings_layers.read_project(Path.cwd())
    if not project.alerts[1]:
        return Run()
    own = settings_layers.collect_run(project=project, environment=os.environ, config=None, overrides=())
    return Run(alerts=own.settings.run.alerts, coordinator=own.settings.run.coordinator)


async def _serve(config: object) -> int:
    """Serve until a signal comes; which one."""
    import asyncio
    import signal

    from skitter.node.process_rlimits import allow_open_files
    from skitter.web.server import MasterServer, ServerConfig, check_store

    assert isinstance(config, ServerConfig)
    allow_open_files()
    await check_store(config.frontier)
    master = MasterServer(config)
    came: list[int] = []

    def stop(number: int) -> None:
        came.append(number)
        master.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    await master.run()
    return came[0]


def _host_and_port(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"not HOST:PORT: --bind {bind}", hint=f"as in {DEFAULT_BIND} or [::1]:8601")
    return host.removeprefix("[").removesuffix("]"), int(port)
