"""``skitter egress``: a proxy of a job on a machine whose address changes, which redials and registers itself."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_job_options, seconds
from skitter.errors import UsageError

AT_LEAST_SECONDS = 60.0
DRAIN_SECONDS = 30.0
LIFETIME_SECONDS = 30.0
REDIAL_SECONDS = 120.0


def configure(parser: Parser) -> None:
    add_job_options(parser)
    parser.add_argument(
        "--listen", default="", metavar="[HOST:]PORT", help="where to be a proxy; 0 is any port that is free"
    )
    parser.add_argument("--proxy", default="", metavar="URL", help="a proxy that runs here already, instead")
    parser.add_argument(
        "--advertise",
        default="",
        metavar="HOST[:PORT]",
        help="by which workers reach it; default: the host of --listen, or the address that is found out",
    )
    parser.add_argument(
        "--address-url",
        default="",
        metavar="URL",
        help="asked through the proxy after each redial: it answers with the address that it is asked from",
    )
    parser.add_argument(
        "--source", default="", metavar="ADDRESS", help="to go out from, until a redial prints another one"
    )
    parser.add_argument(
        "--redial", default="", metavar="COMMAND", help="run in a shell; an address in its last line is gone out from"
    )
    parser.add_argument("--every", type=seconds, metavar="SECONDS", help="redial so often; default: when banned only")
    parser.add_argument(
        "--at-least",
        type=seconds,
        default=AT_LEAST_SECONDS,
        metavar="SECONDS",
        help=f"between two redials, also when banned; default: {AT_LEAST_SECONDS:g}",
    )
    parser.add_argument(
        "--drain-seconds",
        type=seconds,
        default=DRAIN_SECONDS,
        metavar="SECONDS",
        help=f"to wait for what is in flight before a redial; default: {DRAIN_SECONDS:g}",
    )
    parser.add_argument(
        "--redial-seconds",
        type=seconds,
        default=REDIAL_SECONDS,
        metavar="SECONDS",
        help=f"after which the command is killed; default: {REDIAL_SECONDS:g}",
    )
    parser.add_argument(
        "--lifetime",
        type=seconds,
        default=LIFETIME_SECONDS,
        metavar="SECONDS",
        help=f"after which a lost egress is out of the pool; default: {LIFETIME_SECONDS:g}",
    )
    parser.add_argument("--allow-private", action="store_true", help="let requests lead to private addresses")
    parser.add_argument("--log", default="-", metavar="FILE", help='where event lines go; "-" is stderr, the default')
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="text, the default, or json: one object a line"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more; tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.app.egress import EgressConfig, make_egress_node
    from skitter.app.frontiers import is_shared
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.exit_codes import of_signal
    from skitter.cli.job_ref import locate
    from skitter.cli.run_node import run_node
    from skitter.settings import Logging

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
            "one of them: --listen and --proxy", hint="--listen PORT is a proxy of its own, --proxy URL one that runs"
        )
    read_proxy(options.proxy)
    if options.every and not options.redial:
        raise UsageError("nothing to do then: --every without --redial", hint="--redial COMMAND changes the address")
    if options.every and options.every < options.at_least:
        raise UsageError(
            f"more often than --at-least {options.at_least:g}: --every {options.every:g}",
            hint="give --at-least a smaller number as well",
        )
    if options.source and (options.proxy or not address_in(options.source)):
        raise UsageError(
            f"not an address that --listen can go out from: --source {options.source}", hint="as in --source 192.0.2.7"
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
