"""Which methods of the frontier contract are mutations of an operator, and what their entries say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from skitter.errors import FormatError
from skitter.model.consistency import Consistency
from skitter.model.host import HostCommand
from skitter.model.intake import IntakeSeen
from skitter.model.job import Command, Counts, Job, JobSpec, JobState, StopReason
from skitter.model.proxy import ProxySeen
from skitter.model.request import Entry as RequestEntry
from skitter.model.request import decode
from skitter.model.session import CookieNews, SessionSeen
from skitter.settings import Settings

SHOWN = 5
"""Of URLs, seeds, domains and targets, how many an entry names; all are counted."""
Arguments = Mapping[str, Any]
Values = Mapping[str, Any]
"""What was read of the job, by the method that reads it: ``state``, ``counts``, ``job``, ``proxies``..."""


class Mutation(NamedTuple):
    """A method of the contract that leaves an entry."""

    action: Callable[[Arguments], str]
    """Empty: with these arguments it is no mutation of an operator."""
    details: Callable[[Arguments], dict[str, Any]]
    reads: tuple[str, ...]
    """Methods whose answers are the state before and after."""
    seen: Callable[[Arguments, Values], dict[str, Any]]
    answer: Callable[[Any], dict[str, Any]]
    """What the answer adds to the state after."""
    is_done: Callable[[Any], bool] = lambda _: True
    """Whether the answer says that it happened."""
    in_steps: Callable[[Arguments], bool] = lambda _: False
    """Whether a store makes it by several transactions."""


def _named(action: str) -> Callable[[Arguments], str]:
    return lambda _: action


def _nothing(_: Any) -> dict[str, Any]:
    return {}


def _state(_: Arguments, values: Values) -> dict[str, Any]:
    """State and counts, whichever were read."""
    seen: dict[str, Any] = {}
    if (state := values.get("state")) is not None:
        assert isinstance(state, JobState)
        seen |= {"state": str(state.state), "run": state.run} | ({"reason": state.reason} if state.reason else {})
    if (counts := values.get("counts")) is not None:
        assert isinstance(counts, Counts)
        seen |= {"queued": counts.queued, "failed": counts.failed}
    return seen


# ---- begin


def _begin_details(arguments: Arguments) -> dict[str, Any]:
    spec: JobSpec = arguments["spec"]
    told: dict[str, Any] = {"spider": spec.spider, "seeds": len(spec.seeds), "first_seeds": spec.seeds[:SHOWN]}
    told |= {"sitemaps": spec.sitemaps[:SHOWN], "arguments": spec.arguments, "run_key": "".join(spec.run_keys[:1])}
    told |= {"fresh": arguments.get("fresh", False), "sinks": list(arguments.get("sinks", ()))[:SHOWN]}
    return {name: value for name, value in told.items() if value or name == "seeds"}


def _job(_: Arguments, values: Values) -> dict[str, Any]:
    job = values.get("job")
    if job is None:
        return {}
    assert isinstance(job, Job)
    usual = Settings().job_wide()
    changed = {name: value for name, value in job.spec.settings.items() if usual.get(name) != value}
    return {"state": str(job.state), "run": job.run, "settings": changed}


# ---- add, retry


def _add_details(arguments: Arguments) -> dict[str, Any]:
    entries: Sequence[RequestEntry] = arguments["entries"]
    return {"requests": len(entries), "first_urls": [_url(entry) for entry in entries[:SHOWN]]}


def _url(entry: RequestEntry) -> str:
    try:
        return decode(entry.payload).url
    except (FormatError, ValueError, TypeError):
        return entry.host_key


def _revive_details(arguments: Arguments) -> dict[str, Any]:
    ids = arguments.get("ids") or ()
    return {"class": arguments.get("error_class", ""), "requests": len(ids) if ids else "all"}


# ---- commands and settings


def _command(arguments: Arguments) -> str:
    return str(Command(arguments["command"]))


def _command_details(arguments: Arguments) -> dict[str, Any]:
    reason = arguments.get("reason", StopReason.COMMAND)
    return {} if reason == StopReason.COMMAND else {"reason": str(reason)}


def _set_details(arguments: Arguments) -> dict[str, Any]:
    return {"settings": dict(arguments["values"])}


def _settings_named(arguments: Arguments, values: Values) -> dict[str, Any]:
    job = values.get("job")
    return {name: job.spec.settings.get(name) for name in arguments["values"]} if isinstance(job, Job) else {}


# ---- hosts


def _command_host(arguments: Arguments) -> str:
    return f"host.{HostCommand(arguments['command'])}"


# ---- fsck


def _fsck(arguments: Arguments) -> str:
    return "fsck" if arguments.get("repair") else ""


def _repaired(answer: Any) -> dict[str, Any]:
    assert isinstance(answer, Consistency)
    return {"found": answer.total, "mended": answer.mended}


# ---- proxies, sessions, targets, intakes


def _ban(arguments: Arguments) -> str:
    return "proxy.ban" if arguments.get("seconds") else "proxy.unban"


def _ban_details(arguments: Arguments) -> dict[str, Any]:
    told = {"proxy": arguments["proxy_id"], "host": arguments.get("host_key", ""), "seconds": arguments.get("seconds")}
    return {name: value for name, value in told.items() if value}


def _bans(arguments: Arguments, values: Values) -> dict[str, Any]:
    proxies: Sequence[ProxySeen] = values.get("proxies", ())
    for proxy in proxies:
        if proxy.id == arguments["proxy_id"]:
            hosts = {host: round(left, 1) for host, left in proxy.banned_hosts.items()}
            return {"proxy": proxy.shown, "banned_seconds": round(proxy.banned_seconds, 1), "banned_hosts": hosts}
    return {}


def _cookie_details(arguments: Arguments) -> dict[str, Any]:
    news: Sequence[CookieNews] = arguments["news"]
    domains = sorted({one.domain for one in news})
    return {
        "sessions": sorted({one.session for one in news})[:SHOWN],
        "domains": len(domains),
        "first_domains": domains[:SHOWN],
        "number": sum(len(one.cookies) for one in news),
    }


def _jars(arguments: Arguments, values: Values) -> dict[str, Any]:
    """How many cookies each session has; never the cookies."""
    named = {one.session for one in arguments["news"]}
    sessions: Sequence[SessionSeen] = values.get("sessions", ())
    return {"held": {one.name or "the job's own": one.cookies for one in sessions if one.name in named}}


def _forget(arguments: Arguments) -> str:
    return "target.forget" if arguments.get("forget") else ""


def _targets(_: Arguments, values: Values) -> dict[str, Any]:
    return {"targets": {sink.target: sink.undelivered for sink in values.get("sinks", ())}}


def _close_intake(arguments: Arguments) -> str:
    # A reader that has come to the end of its source closes it in its own name.
    return "" if arguments["owner"] else "intake.close"


def _intake(arguments: Arguments, values: Values) -> dict[str, Any]:
    intakes: Sequence[IntakeSeen] = values.get("intakes", ())
    return {"open": any(not one.closed for one in intakes if one.source == arguments["source"])}


MUTATIONS: Mapping[str, Mutation] = {
    "begin": Mutation(_named("begin"), _begin_details, ("job",), _job, lambda word: {"begun": str(word)}),
    "add": Mutation(_named("add"), _add_details, ("state", "counts"), _state, lambda new: {"added": new}),
    "revive": Mutation(
        *(_named("retry"), _revive_details, ("state", "counts"), _state, lambda number: {"retried": number}),
        in_steps=lambda arguments: not arguments.get("ids"),
    ),
    "command": Mutation(_command, _command_details, ("state",), _state, _nothing),
    "change_settings": Mutation(_named("set"), _set_details, ("job",), _settings_named, _nothing),
    "command_host": Mutation(
        _command_host,
        lambda arguments: {"host": arguments["host_key"]},
        ("state", "counts"),
        _state,
        lambda halt: {} if halt is None else {"was": halt.name.lower()},
        lambda halt: halt is not None,
    ),
    "check_consistency": Mutation(_fsck, _nothing, ("state", "counts"), _state, _repaired),
    "ban_proxy": Mutation(_ban, _ban_details, ("proxies",), _bans, _nothing, bool),
    "add_cookies": Mutation(_named("sessions.import"), _cookie_details, ("sessions",), _jars, _nothing),
    "close_sink": Mutation(_forget, lambda arguments: {"target": arguments["target"]}, ("sinks",), _targets, _nothing),
    "close_intake": Mutation(
        _close_intake, lambda arguments: {"source": arguments["source"]}, ("intakes",), _intake, _nothing
    ),
}
"""By the name of the method. A test compares this with the contract: a new method is in here or in ``NOT_RECORDED``."""
READING = frozenset(
    "capacity counts failures distinct_urls hosts intakes jars job known_pages page_record peek proxies report robots"
    " sessions sinks state trace workers".split()
)
WORKING = frozenset(
    "claim_close close commit count_distinct drain_proxy items items_done lease leave_intake log_in open_intake"
    " open_sink reap register_proxy release release_worker relieve_worker remove_proxy renew tell tell_intake".split()
)
"""What workers, readers of intakes, deliveries, egresses and providers of proxies do by themselves."""
STORE_ACTIONS = ("drop", "deliver")
"""Mutations that are no method of the contract."""
SCHEDULE_ACTIONS = ("add", "change", "remove", "pause", "resume", "run")
"""Of schedules; an entry has ``schedule.`` before it."""
USERS_CHANGE = "users.change"
"""The users of a master, in the trail of each of its stores."""
