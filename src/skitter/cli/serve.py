"""``skitter serve``: the master, which serves stores to browsers, programs, workers and commands elsewhere."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, host_and_port
from skitter.errors import ExtraMissingError

if TYPE_CHECKING:
    from skitter.cli.settings_layers import Project
    from skitter.settings import Run
    from skitter.web.server import ServerConfig

DEFAULT_BIND = "127.0.0.1:8601"


def configure(parser: Parser) -> None:
    parser.describe(
        "[--frontier [NAME=]URL]... [--bind HOST:PORT] [options]",
        text="Run a master: the dashboard and the REST API for the jobs of one or several stores, and a frontier\n"
        "https://HOST:PORT for workers and commands on other machines. Runs until Ctrl-C or SIGTERM.",
        examples=[
            ("skitter serve --open", "Show the jobs of this folder in a browser"),
            (
                "skitter serve --frontier redis://127.0.0.1:6379 --bind 0.0.0.0:8601 --token-file tokens",
                "Serve a Redis store to other machines",
            ),
        ],
    )
    parser.group("Server").add_argument(
        "--frontier",
        action="append",
        default=[],
        metavar="[NAME=]URL",
        help="a store to serve, any but memory:, such as sqlite:PATH or redis://HOST:PORT (repeatable; default: the"
        " jobs of .skitter)",
    )
    parser.group("Server").add_argument(
        "--bind",
        default=DEFAULT_BIND,
        metavar="HOST:PORT",
        help=f"listen here (default {DEFAULT_BIND}); a public address needs --token-file or users; 0: a free port",
    )
    parser.group("Access and TLS").add_argument(
        "--token-file",
        default="",
        metavar="FILE",
        help="file with one token for everything, or with lines ROLE TOKEN [JOB...]; mode 600",
    )
    parser.group("Access and TLS").add_argument(
        "--users",
        default="",
        metavar="FILE",
        help="users who log in with a password, written by skitter user (default: .skitter/users, if it exists)",
    )
    parser.group("Access and TLS").add_argument(
        "--trusted-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address or network of a reverse proxy whose X-Forwarded headers are trusted (repeatable)",
    )
    parser.group("Access and TLS").add_argument(
        "--allow-submit",
        action="store_true",
        help='take jobs and URLs from operators, not only from admins: [remote] allow = ["submit"] of skitter.toml',
    )
    parser.group("Server").add_argument("--open", action="store_true", help="open the dashboard in a browser")
    parser.group("Access and TLS").add_argument(
        "--tls-cert", default="", metavar="FILE", help="TLS certificate with its chain"
    )
    parser.group("Access and TLS").add_argument("--tls-key", default="", metavar="FILE", help="key of the certificate")
    parser.group("Access and TLS").add_argument(
        "--client-ca",
        default="",
        metavar="FILE",
        help="authority of client certificates; --token-file has their roles in lines ROLE cert:NAME [JOB...]",
    )
    parser.add_argument(
        "--log", default="-", metavar="FILE", help='append event lines to this file; "-" is standard error (default)'
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text (default) or json: one object per line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more, and tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.run_node import run_loop
    from skitter.cli.settings_layers import read_project
    from skitter.settings import Logging

    try:
        from skitter.web.server import ServerConfig
        from skitter.web.users import DEFAULT_FILE
    except ImportError as error:
        raise ExtraMissingError("skitter serve", "http") from error
    project = read_project(Path.cwd())
    host, port = host_and_port(options.bind, option="--bind", example=DEFAULT_BIND)
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
        allow=frozenset((*project.allow, *(["submit"] if options.allow_submit else []))),
        run=_alerts(project),
    )
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job="", verbose=options.verbose):
        number = run_loop(_serve(config, is_opened=options.open))
    # SIGTERM is how a server is asked to end: in order, and so with 0.
    return 0 if number == signal.SIGTERM else of_signal(number)


def _alerts(project: Project) -> Run:
    """The alerts of the project file; no setting of it is for a master."""
    import os

    from skitter.cli import settings_layers
    from skitter.settings import Run

    if not project.alerts[1]:
        return Run()
    own = settings_layers.collect_run(project=project, environment=os.environ, config=None, overrides=())
    return Run(alerts=own.settings.run.alerts, coordinator=own.settings.run.coordinator)


async def _serve(config: ServerConfig, *, is_opened: bool) -> int:
    """Serve until a signal comes; which one."""
    import asyncio

    from skitter.cli.scheduled_command import check_remote_command
    from skitter.node.process_rlimits import allow_open_files
    from skitter.web.server import MasterServer

    allow_open_files()
    master = MasterServer(config, check_command=check_remote_command)
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
