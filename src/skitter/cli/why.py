"""``skitter why``: explains the state of one URL."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options
from skitter.cli.terminal_text import clean, count, duration, first_line, instant
from skitter.errors import UrlError, UsageError

if TYPE_CHECKING:
    from skitter.app.views.why import Reason, WhyView
    from skitter.cli.job_ref import JobRef

HOW_TO_IGNORE = "to fetch it anyway: --ignore-robots"
_STATES = {"unseen": "never seen", "known": "recorded by an earlier run"}
RULES = {
    "guard": "it leads to a private address that is not the host of a seed (--allow-private)",
}


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] URL [options]",
        text="Explain what a job knows about a URL: queued, in flight, done, failed or excluded, by which rule, and\n"
        "on which page it was found. For a URL that was never seen, the rules are checked again.",
        examples=[
            ("skitter why books http://127.0.0.1:8600/private/", "Explain why a page was not fetched"),
            (
                "skitter why books http://127.0.0.1:8600/books/1.html --frontier redis://127.0.0.1:6379 --json",
                "Print the same as JSON",
            ),
        ],
    )
    add_job_options(parser)
    parser.add_argument("url", metavar="URL", nargs="?", default="", help="the URL, as in a page or in the results")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.app.views.why import why_refused, why_url
    from skitter.cli.job_ref import ask, locate
    from skitter.cli.output import print_json

    if not options.url:
        raise UsageError("which URL?", hint="skitter why [JOB] URL; a URL begins with https:// or http://")
    job_ref = locate(options)
    try:
        view = why_refused(options.url) or ask(job_ref, lambda frontier: why_url(frontier, options.url))
    except UrlError as flaw:
        raise UsageError(str(flaw), hint=flaw.hint) from flaw
    reasons = in_words(view, job_ref)
    if options.json:
        print_json(_as_json(view, reasons))
    else:
        print(f"{clean(view.url)}: {_STATES.get(view.state, view.state)}")
        print("\n".join(f"  {clean(reason)}" for reason in reasons))
    return 0


def _as_json(view: WhyView, reasons: list[str]) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(view.trace) if view.trace else {}
    if view.page is not None:
        page = view.page
        visits = [msgspec.structs.asdict(visit) for visit in page.visits]
        fields |= {"fetched_at": page.fetched_at, "changed_at": page.changed_at, "next_at": page.next_at}
        fields |= {"visits": visits, "etag": page.etag, "last_modified": page.last_modified}
    return fields | {"url": view.url, "state": view.state, "reasons": reasons}


def in_words(view: WhyView, job_ref: JobRef) -> list[str]:
    """Return each reason as a sentence, and the command that shows more or helps."""
    return [sentence for reason in view.reasons for sentence in _sentences(reason, view, job_ref)]


def _sentences(reason: Reason, view: WhyView, job_ref: JobRef) -> list[str]:
    sentences = [_WORDS[reason.kind](reason.values)]
    if reason.kind == "spent":
        url = view.trace.url if view.trace else view.url
        sentences.append(f"full error: {job_ref.command('failed', '--url', url)}")
        sentences.append(f"to try again: {job_ref.command('retry', url)}")
    elif reason.kind == "robots_rule" or (reason.kind == "excluded" and reason.values["error_class"] == "robots"):
        sentences.append(HOW_TO_IGNORE)
    return sentences


# ---- the words of each kind


def _origin(values: dict[str, Any]) -> str:
    origin = f"found on {values['referrer']}" if values["referrer"] else "a seed"
    added = f", added {instant(values['added_at'])}" if values["added_at"] else ""
    return f"{origin}{added}, depth {values['depth']}, priority {_priority(values['priority'])}"


def _priority(number: int) -> str:
    from skitter.model.request import Priority

    name = {one.value: one.name.lower() for one in Priority}.get(number)
    return f"{number} ({name})" if name else f"{number}"


def _tried(values: dict[str, Any]) -> str:
    last = f", last: {values['error_class']}: {first_line(values['error'])}" if values["error_class"] else ""
    return f"{count(values['attempts'], 'attempt')} so far, lost {values['losses']} times with its worker{last}"


def _job_not_running(values: dict[str, Any]) -> str:
    why = f" by {values['reason']}" if values["reason"] else ""
    return f"the job is {values['state']}{why}: no requests are started"


def _host_blocked(values: dict[str, Any]) -> str:
    trouble = f" after {values['error_class']}" if values["error_class"] else ""
    return f"its host is blocked for {duration(values['seconds'])}{trouble}"


def _host_budget(values: dict[str, Any]) -> str:
    budget = f"its budget of {count(values['pages'], 'page')} ({values['stopped_by']})"
    return f"its host has reached {budget}: it will be excluded"


def _need(values: dict[str, Any]) -> str:
    workers = values["workers"]
    if not workers:
        return f"no worker can serve its need {values['need']}"
    return f"it needs {values['need']}, which {count(workers, 'worker')} can serve now"


def _host_queue(values: dict[str, Any]) -> str:
    return f"its host has {count(values['queued'], 'request')} queued and {values['in_flight']} in flight"


def _failed(values: dict[str, Any]) -> str:
    status = f", status {values['status']}" if values["status"] else ""
    error = f"{values['error_class']}{status}: {first_line(values['error'])}"
    return f"failed {instant(values['ended_at'])}: {error}"


def _spent(values: dict[str, Any]) -> str:
    lost = f", lost {values['losses']} times with its worker" if values["losses"] else ""
    return f"{count(values['attempts'], 'attempt')}{lost}"


def _excluded(values: dict[str, Any]) -> str:
    when, rule = instant(values["ended_at"]), values["error_class"]
    if rule == "robots":
        return f"excluded {when} by {first_line(values['error'])}"
    return f"excluded {when} by rule {rule}: {RULES.get(rule, first_line(values['error']))}"


def _redirected(values: dict[str, Any]) -> str:
    return f"{_status(values)}{instant(values['ended_at'])}; its destination is a separate request"


def _fetched(values: dict[str, Any]) -> str:
    return f"fetched {instant(values['ended_at'])}, {_status(values)}{count(values['attempts'], 'attempt')}"


def _status(values: dict[str, Any]) -> str:
    return f"status {values['status']}, " if values["status"] else ""


def _history(values: dict[str, Any]) -> str:
    due = f"due {instant(values['next_at'])}"
    if not values["visits"]:
        return f"fetched {instant(values['fetched_at'])} once; {due}"
    found = ", ".join(f"after {_span(seconds)} {'yes' if yes else 'no'}" for seconds, yes in values["visits"])
    every = f"about every {_span(1 / values['rate'])}"
    return (
        f"fetched {instant(values['fetched_at'])}, changed {instant(values['changed_at'])}; "
        f"changed at its last visits: {found}; {every}; {due}"
    )


def _span(seconds: float) -> str:
    return f"{seconds / 86_400:.1f} days" if seconds >= 86_400 else duration(seconds)


def _outside_scope(values: dict[str, Any]) -> str:
    return (
        f"outside the scope: {values['host']} is not among the seeds' hosts ({', '.join(values['hosts'])})"
        " or, as far as is known, a host that a seed was redirected to"
    )


def _link_pattern(values: dict[str, Any]) -> str:
    patterns = " ".join(values["patterns"])
    if values["rule"] == "include":
        return f"links to it are not followed: no match for --include: {patterns}"
    return f"links to it are not followed: matches --exclude: {patterns}"


def _trap(values: dict[str, Any], where: str = "") -> str:
    from skitter.policy.traps import RULES as TRAPS

    return f"rule {values['rule']}{where}: {TRAPS[values['rule']]}"


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "never_crawled": lambda values: f"it can never be crawled: {values['problem']}",
    "origin": _origin,
    "tried": _tried,
    "job_not_running": _job_not_running,
    "no_worker": lambda _: "no worker is running",
    "need": _need,
    "blocked_by_sink": lambda values: f"the outbox is full: blocked by the output {values['target']}",
    "host_paused": lambda _: "an operator has paused its host; skitter hosts resume ends the pause",
    "host_blocked": _host_blocked,
    "host_budget": _host_budget,
    "host_queue": _host_queue,
    "not_before": lambda values: f"not before {duration(values['seconds'])} from now",
    "address_full": lambda values: (
        f"it waits for its IP address: {values['address']} has as many requests in flight as per_ip allows"
    ),
    "ready": lambda _: "it can be fetched now, when its turn comes",
    "leased": lambda values: f"being fetched by worker {values['worker']}, attempt {values['attempt']}",
    "failed": _failed,
    "spent": _spent,
    "excluded": _excluded,
    "ended": lambda _: "done or redirected; this frontier keeps no details of ended requests",
    "delivered": lambda _: "an earlier run has delivered its items, so this run does not fetch it (dedup_scope=job)",
    "maybe_seen": lambda values: (
        "possibly a duplicate: the Bloom filter of done pages contains it, as it does"
        f" {100 * values['error_rate']:.2g} % of pages that were never seen (dedup=bloom)"
    ),
    "redirected": _redirected,
    "fetched": _fetched,
    "history": _history,
    "outside_scope": _outside_scope,
    "link_pattern": _link_pattern,
    "robots_rule": lambda values: f"excluded by {values['rule']}",
    "trap": _trap,
    "trap_if_deep": lambda values: _trap(values, ", if it was found far from a seed"),
    "not_found": lambda _: "no link to it has been found, or the spider did not follow it",
    "max_depth": lambda values: (
        f"links more than {values['max_depth']} steps from a seed are not followed (--max-depth)"
    ),
    "nofollow": lambda _: "links marked nofollow are not followed (obey_nofollow)",
    "not_finished": lambda _: "the job is not finished: it may still be found",
    "job_ended": lambda values: (
        f"the job is {values['state']} by {values['reason']}, after {duration(values['seconds'])}"
    ),
}
