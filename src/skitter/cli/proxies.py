"""``skitter proxies``: lists the proxies of a job's pool, tests them, and bans or unbans one by hand."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options, check_action
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app.proxy_test import ProxyTest
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier
    from skitter.model.proxy import ProxySeen

ACTIONS = ("list", "test", "ban", "unban")
BAN_SECONDS = 3600.0


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [ACTION] [PROXY] [options]",
        text="List the proxies of a job's pool with their state and figures, test them from this machine, or ban and\n"
        "unban one for all workers.",
        examples=[
            ("skitter proxies books", "List the proxies of a job"),
            ("skitter proxies books test --url http://127.0.0.1:8600/", "Fetch a page through each proxy"),
        ],
    )
    add_job_options(parser, ACTIONS)
    parser.add_argument(
        "action", nargs="?", default="list", metavar="ACTION", help=f"{', '.join(ACTIONS)} (default: list)"
    )
    parser.add_argument(
        "proxy", nargs="?", default="", metavar="PROXY", help="id of a proxy, as shown by list (test, ban, unban)"
    )
    parser.group("Actions").add_argument(
        "--host", default="", metavar="HOST", help="ban, unban: only for this host, e.g. http://127.0.0.1:8600"
    )
    parser.group("Actions").add_argument(
        "--seconds", type=float, metavar="N", help=f"ban: duration (default {BAN_SECONDS:g})"
    )
    parser.group("Actions").add_argument(
        "--url", default="", metavar="URL", help="test: fetch this page (default: the first seed of the job)"
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import ask, locate

    _check(options)
    job_ref = locate(options)
    if options.action == "list":
        return _list(options, job_ref, ask(job_ref, _proxies))
    if options.action == "test":
        return _test(options, job_ref)
    return _ban(options, job_ref)


async def _proxies(frontier: Frontier) -> list[ProxySeen]:
    return await frontier.proxies()


def _check(options: argparse.Namespace) -> None:
    """UsageError for what does not belong to the action: none is silently ignored."""
    action = options.action
    check_action(action, ACTIONS, "proxies")
    bans = action in ("ban", "unban")
    wrong = {"--host": bool(options.host) and not bans, "--seconds": options.seconds is not None and action != "ban"}
    wrong |= {"--url": bool(options.url) and action != "test", "PROXY": bool(options.proxy) and action == "list"}
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise UsageError(f"not for proxies {action}: {name}", hint="skitter proxies --help")
    if bans and not options.proxy:
        raise UsageError(f"no proxy given: proxies {action}", hint="give its id, as skitter proxies lists it")
    if options.seconds is not None and options.seconds <= 0:
        raise UsageError(f"not a duration: --seconds {options.seconds:g}", hint="skitter proxies unban ends a ban")


def _list(options: argparse.Namespace, job_ref: JobRef, proxies: list[ProxySeen]) -> int:
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import duration, number, size, table

    if options.json:
        for proxy in proxies:
            print_json(_as_json(proxy))
        return 0
    if not proxies:
        note(f"no proxies in {job_ref.job}; add some with crawl --proxies FILE")
        return 0
    rows: list[tuple[str, ...]] = [
        ("proxy", "address", "state", "in flight", "answers", "failures", "success", "latency", "traffic", "banned at")
    ]
    for proxy in proxies:
        figures = (number(proxy.in_flight), number(proxy.answers), number(proxy.failures))
        rates = (f"{100 * proxy.success_rate:.0f} %", f"{proxy.latency_seconds:.2f} s", size(proxy.bytes))
        bans = ", ".join(f"{host} ({duration(left)})" for host, left in sorted(proxy.banned_hosts.items())[:3])
        more = f" and {len(proxy.banned_hosts) - 3} more" if len(proxy.banned_hosts) > 3 else ""
        rows.append((proxy.id, proxy.shown, state_of(proxy), *figures, *rates, bans + more))
    print("\n".join(table(rows, right=[3, 4, 5, 6, 7, 8])))
    return 0


def state_of(proxy: ProxySeen) -> str:
    """In a word or two."""
    from skitter.cli.terminal_text import duration

    if proxy.draining:
        return "draining"
    if proxy.banned_seconds:
        return f"banned, {duration(proxy.banned_seconds)}"
    if proxy.resting_seconds:
        return f"resting, {duration(proxy.resting_seconds)} ({proxy.error})"
    return "ready" if proxy.answers else "new"


def _as_json(proxy: ProxySeen) -> dict[str, Any]:
    import msgspec

    told = msgspec.to_builtins(proxy)
    del told["url"]
    return {"id": proxy.id, "proxy": proxy.shown, "state": state_of(proxy), **told}


def _test(options: argparse.Namespace, job_ref: JobRef) -> int:
    from skitter.app.proxy_test import run_proxy_tests
    from skitter.app.worker_config import job_settings
    from skitter.cli.job_ref import ask
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import table

    async def test(frontier: Frontier) -> list[ProxyTest]:
        proxies, job = await frontier.proxies(), await frontier.job()
        if options.proxy:
            proxies = [proxy for proxy in proxies if proxy.id == options.proxy]
            if not proxies:
                raise _unknown(options.proxy)
        url = options.url or next(iter(job.spec.seeds), "")
        if not url:
            raise UsageError(
                f"no page to fetch: proxies {job_ref.job} test", hint="the job has no seeds: give --url URL"
            )
        return await run_proxy_tests(proxies, url, job_settings(job, {}).fetch)

    results = ask(job_ref, test)
    if options.json:
        for result in results:
            print_json(result)
    elif results:
        rows = [("proxy", "address", "answer")]
        rows += [(one.id, one.proxy, one.error or f"HTTP {one.status} in {one.seconds:.2f} s") for one in results]
        print("\n".join(table(rows)))
    else:
        note(f"no proxies in {job_ref.job}")
    return 1 if any(result.error for result in results) else 0


def _ban(options: argparse.Namespace, job_ref: JobRef) -> int:
    from skitter.cli.job_ref import act
    from skitter.cli.output import print_json

    seconds = (options.seconds or BAN_SECONDS) if options.action == "ban" else 0.0
    host = options.host.rstrip("/")

    async def ban(frontier: Frontier) -> bool:
        return await frontier.ban_proxy(options.proxy, host, seconds)

    if not act(job_ref, ban):
        raise _unknown(options.proxy)
    if options.json:
        print_json({"job": job_ref.job, "id": options.proxy, "host": host, "banned_seconds": seconds})
    else:
        where = f" at {host}" if host else ""
        print(
            f"{options.proxy}: banned{where} for {seconds:g} s"
            if seconds
            else f"{options.proxy}: no longer banned{where}"
        )
    return 0


def _unknown(proxy: str) -> UsageError:
    return UsageError(f"no such proxy: {proxy}", hint="skitter proxies lists their ids")
