"""``skitter egress``: a proxy of a job on a machine whose address changes, which redials and registers itself."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, add_metrics_options, seconds
from skitter.errors import UsageError

AT_LEAST_SECONDS = 60.0
DRAIN_SECONDS = 30.0
LIFETIME_SECONDS = 30.0
REDIAL_SECONDS = 120.0


def configure(parser: Parser) -> None:
    parser.describe(
        "JOB --frontier URL --listen [HOST:]PORT [options]",
        text="Run a proxy for a job on a machine whose address changes. It registers with the job's pool, leaves it\n"
        "before each redial, tests the new address and registers again. Runs until Ctrl-C or SIGTERM.",
        examples=[
            (
                "skitter egress books --frontier redis://10.0.0.2 --listen 10.0.0.9:3128",
                "Offer this machine as a proxy",
            ),
            (
                "skitter egress books --frontier redis://10.0.0.2 --listen 3128 --redial ./redial --every 600",
                "Change the address every ten minutes",
            ),
        ],
    )
    add_job_options(parser)
    parser.group("Proxy").add_argument(
        "--listen",
        default="",
        metavar="[HOST:]PORT",
        help="address of the proxy; without HOST, on all addresses; 0 picks a free port",
    )
    parser.group("Proxy").add_argument(
        "--proxy", default="", metavar="URL", help="use a proxy that already runs here instead"
    )
    parser.group("Proxy").add_argument(
        "--advertise",
        default="",
        metavar="HOST[:PORT]",
        help="the address for workers (default: the host of --listen, or the detected address)",
    )
    parser.group("Proxy").add_argument(
        "--address-url",
        default="",
        metavar="URL",
        help="a page that answers with the client's address; fetched through the proxy after each redial",
    )
    parser.group("Proxy").add_argument(
        "--source", default="", metavar="ADDRESS", help="local address of requests, until a redial prints another one"
    )
    parser.group("Redial").add_argument(
        "--redial",
        default="",
        metavar="COMMAND",
        help="shell command that changes the address; an IP address in its last line becomes the local address",
    )
    parser.group("Redial").add_argument(
        "--every", type=seconds, metavar="SECONDS", help="redial at this interval (default: only when banned)"
    )
    parser.group("Redial").add_argument(
        "--at-least",
        type=seconds,
        default=AT_LEAST_SECONDS,
        metavar="SECONDS",
        help=f"minimum time between two redials, also when banned (default {AT_LEAST_SECONDS:g})",
    )
    parser.group("Redial").add_argument(
        "--drain-seconds",
        type=seconds,
        default=DRAIN_SECONDS,
        metavar="SECONDS",
        help=f"wait this long for requests in flight before a redial (default {DRAIN_SECONDS:g})",
    )
    parser.group("Redial").add_argument(
        "--redial-seconds",
        type=seconds,
        default=REDIAL_SECONDS,
        metavar="SECONDS",
        help=f"kill the command after this time (default {REDIAL_SECONDS:g})",
    )
    parser.group("Proxy").add_argument(
        "--lifetime",
        type=seconds,
        default=LIFETIME_SECONDS,
        metavar="SECONDS",
        help=f"the pool removes a lost egress after this time (default {LIFETIME_SECONDS:g})",
    )
    parser.add_argument("--allow-private", action="store_true", help="forward requests to private addresses")
    add_metrics_options(parser)
    parser.add_argument(
        "--log", default="-", metavar="FILE", help='append event lines to this file; "-" is standard error (default)'
    )
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text (default) or json: one object per line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more, and tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.app.egress import EgressConfig, make_egress_node
    from skitter.app.frontiers import is_shared
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.job_ref import locate
    from skitter.cli.run_node import run_node
    from skitter.settings import Logging, Run

    _check(options)
    job_ref = locate(options, must_exist=False)
    if not is_shared(job_ref.frontier):
        raise UsageError(f"cannot be shared with another process: {job_ref.shown}", hint="use redis://… or sqlite:PATH")
    host, port = _host_and_port(options.listen) if options.listen else ("", 0)
    config = EgressConfig(
        frontier=job_ref.frontier,
        job=job_ref.job,
        host=host,
        port=port,
        proxy=options.proxy,
        advertise=options.advertise,
        source=options.source,
        address_url=options.address_url,
        redial=options.redial,
        redial_seconds=options.redial_seconds,
        every_seconds=options.every,
        at_least_seconds=options.at_least,
        drain_seconds=options.drain_seconds,
        lifetime_seconds=options.lifetime,
        allow_private=options.allow_private,
        run=Run(metrics=options.metrics, metrics_token_file=options.metrics_token_file),
    )
    settings = Logging(log_file=options.log, log_format=options.log_format)
    with event_log_lines(settings, None, job=job_ref.job, verbose=options.verbose) as log:
        _, number = run_node(make_egress_node(config, log.event), log.event)
    return of_signal(number) if number else 0


def _check(options: argparse.Namespace) -> None:
    from skitter.egress.redial import address_in
    from skitter.errors import UrlError
    from skitter.fetch.proxy import read_proxy
    from skitter.model.url import absolute

    if bool(options.listen) == bool(options.proxy):
        raise UsageError(
            "give either --listen or --proxy, not both",
            hint="--listen PORT starts a proxy, --proxy URL uses one that is running",
        )
    read_proxy(options.proxy)
    if options.every and not options.redial:
        raise UsageError("--every without --redial", hint="--redial COMMAND changes the address")
    if options.every and options.every < options.at_least:
        raise UsageError(
            f"more often than --at-least {options.at_least:g}: --every {options.every:g}",
            hint="lower --at-least too",
        )
    if options.source and (options.proxy or not address_in(options.source)):
        raise UsageError(
            f"not a local address for requests: --source {options.source}", hint="as in --source 192.0.2.7"
        )
    if options.address_url:
        try:
            options.address_url = absolute(options.address_url)
        except UrlError as error:
            raise UsageError(
                f"not a URL: --address-url {options.address_url}", hint="as in https://api.ipify.org/"
            ) from error
    if options.advertise:
        has_port = ":" in options.advertise.rpartition("]")[2]
        host, _ = _host_and_port(options.advertise if has_port else f"{options.advertise}:1")
        if not host or (":" in host) != options.advertise.startswith("["):
            raise UsageError(
                f"not HOST[:PORT]: --advertise {options.advertise}", hint="as in proxy7.example:3128 or [2001:db8::1]"
            )


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"not [HOST:]PORT: {text}", hint="as in 3128, 192.0.2.7:3128 or [::1]:3128")
    return host.removeprefix("[").removesuffix("]"), int(port)
