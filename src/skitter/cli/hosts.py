"""``skitter hosts``: lists the hosts of a job, and pauses, resumes or gives up one of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options, check_action
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier
    from skitter.model.host import Halt
    from skitter.model.job import HostSeen

ACTIONS = ("list", "pause", "resume", "give-up")
STATES = ("all", "paused", "blocked", "given-up", "deep")
DEEP_HOSTS = 100
_DONE = {
    "pause": "paused: no requests are sent to it until skitter hosts resume",
    "resume": "resumed",
    "give-up": "given up: its queued requests fail (class given_up); skitter retry queues them again",
}


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [ACTION] [HOST] [options]",
        text="List the hosts of a job with their queues and states, or pause, resume or give up one for all workers.",
        examples=[
            ("skitter hosts books --state paused", "List the hosts that an operator has paused"),
            ("skitter hosts books pause http://127.0.0.1:8600", "Send no requests to a host until resume"),
        ],
    )
    add_job_options(parser, ACTIONS)
    parser.add_argument(
        "action", nargs="?", default="list", metavar="ACTION", help=f"{', '.join(ACTIONS)} (default: list)"
    )
    parser.add_argument(
        "host",
        nargs="?",
        default="",
        metavar="HOST",
        help="the host, as shown by list: https://shop.example (pause, resume, give-up)",
    )
    parser.add_argument(
        "--state",
        choices=STATES,
        metavar="STATE",
        help=f"list: {', '.join(STATES)} (default: all); deep lists the longest queues",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import locate

    _check(options)
    job_ref = locate(options)
    return _list(options, job_ref) if options.action == "list" else _command(options, job_ref)


def _check(options: argparse.Namespace) -> None:
    """UsageError for what does not belong to the action: none is silently ignored."""
    action = options.action
    check_action(action, ACTIONS, "hosts")
    if action == "list" and options.host:
        raise UsageError("not for hosts list: HOST", hint="skitter hosts --help")
    if action != "list" and options.state:
        raise UsageError(f"not for hosts {action}: --state", hint="skitter hosts --help")
    if action != "list" and not options.host:
        raise UsageError(
            f"no host given: hosts {action}", hint="name it as skitter hosts shows it: https://shop.example"
        )


def _list(options: argparse.Namespace, job_ref: JobRef) -> int:
    from skitter.app.host_list import sorted_hosts
    from skitter.cli.job_ref import ask
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import clean, duration, number, table
    from skitter.model.host import HostFilter

    state = options.state or "all"

    async def read(frontier: Frontier) -> list[HostSeen]:
        if state == "deep":
            return (await frontier.report(0, DEEP_HOSTS)).crowded
        return await sorted_hosts(frontier, HostFilter(state.replace("-", "_")))

    hosts = ask(job_ref, read)
    if options.json:
        for host in hosts:
            print_json(host)
        return 0
    if not hosts:
        note(f"no hosts in {job_ref.job}" + (f" are {state}" if state != "all" else ""))
        return 0
    rows = [("host", "state", "queued", "in flight", "pages", "latency", "last error")]
    rows += [
        (
            *(clean(host.key), state_of(host), number(host.queued), number(host.in_flight), number(host.pages)),
            duration(host.latency_seconds) if host.latency_seconds else "-",
            f"{clean(host.error_class)} ({host.strikes} in a row)" if host.strikes else "-",
        )
        for host in hosts
    ]
    print("\n".join(table(rows, right=[2, 3, 4, 5])))
    return 0


def state_of(host: HostSeen) -> str:
    """In a word or two."""
    from skitter.cli.terminal_text import duration

    if host.paused:
        return "paused"
    if host.given_up:
        return "given up"
    if host.stopped_by:
        return f"stopped ({host.stopped_by})"
    if host.blocked_seconds:
        return f"blocked, {duration(host.blocked_seconds)}"
    return "active" if host.queued or host.in_flight else "idle"


def _command(options: argparse.Namespace, job_ref: JobRef) -> int:
    from skitter.app.host_list import key_of
    from skitter.cli.job_ref import act
    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import clean
    from skitter.model.host import HostCommand

    key, command = key_of(options.host), HostCommand(options.action.replace("-", "_"))

    async def tell(frontier: Frontier) -> Halt | None:
        return await frontier.command_host(key, command)

    before = act(job_ref, tell)
    if before is None:
        raise UsageError(f"no such host in {job_ref.job}: {key}", hint="skitter hosts lists the existing ones")
    if options.json:
        print_json({"job": job_ref.job, "host": key, "before": before.name.lower(), "after": command.halt.name.lower()})
    else:
        print(f"{clean(key)}: {_DONE[options.action]}")
    return 0
