"""The page docs/reference/json-output.md: the fields that each command prints with ``--json``.

Fields of typed views are read from their classes. A command that prints a few values of its own is described here;
``tests/meta/test_reference_complete.py`` compares those with the source of the command.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

import python_reference

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "json-output.md"

HEAD = """\
# JSON output

<!-- Written by scripts/json_reference.py from the classes of the code. Change those, then run `make docs`. -->

Commands print JSON to standard output with `--json`: one object at the end, or one object per line. Everything else
goes to standard error. Times are seconds since 1970, durations are in seconds, sizes in bytes. Passwords in URLs are
never printed. Later versions may add fields.

```bash
skitter crawl http://127.0.0.1:8600/ --max-pages 5 --job shop --json > summary.json
skitter status --job shop --json > status.json
```

Events (`--log-format json`) are described in [Events](events.md), records of pages and items in
[Outputs](../how-to/outputs.md), and the REST API in [REST](rest.md).
"""

OBJECT = "One object."
LINES = "One object per line."
JOB = "The name of the job."
_STATE = {"job": JOB, "state": "The state of the job.", "run": "The number of the run."}
_STEERED = _STATE | {"reason": "Reason of the stop.", "workers": "Number of live workers."}


COMMON = {
    "action": "The action.",
    "actor": "User or program that did it.",
    "added_at": "When it was added.",
    "advice": "What to do.",
    "after": "The values after it.",
    "alive": "Whether it has sent a heartbeat recently.",
    "answers": "Responses received through it.",
    "at": "Time of the action.",
    "attempts": "Number of attempts.",
    "because": "How the value is derived.",
    "before": "The values before it.",
    "begun": "`new`, `resumed`, `rerun` or `joined`.",
    "blocked_by": "What blocks the job: `sink` (an output cannot be written), `proxy` (no proxy is free) or "
    "`paused hosts` (nothing else is left); empty if nothing does.",
    "blocked_seconds": "Remaining time for which the host is blocked.",
    "bottleneck": "What limits the crawl.",
    "broken": "Files that cannot be read.",
    "bytes": "Bytes received.",
    "calls": "Number of calls.",
    "catch_up": "What happens to ticks that were due while no scheduler ran.",
    "chains": "The chains of entries, one for each store.",
    "changed_at": "Time of the last change.",
    "claim": "Name that the client claims, in addition to the verified actor.",
    "code": "Code of the finding: see [Findings](findings.md).",
    "command": "The words of the command.",
    "cookies": "Number of cookies.",
    "cores": "Processor cores.",
    "cpu_us_per_page": "Microseconds of CPU per page.",
    "cron": "The cron expression; empty if the schedule runs at intervals.",
    "crowded": "The hosts with the longest queues.",
    "dead": "The former name of `failed`, until 0.3.",
    "dead_letters": "Messages that could not be read.",
    "delayed": "Requests that wait for a retry.",
    "depth": "Number of links from its seed.",
    "details": "Arguments of the action.",
    "doing": "What it is doing.",
    "domains": "The domains of its cookies.",
    "done": "Requests that ended with a page.",
    "draining": "Whether it gets no new requests.",
    "dropped": "Items that item functions have dropped.",
    "duplicates": "Links that the job had already seen.",
    "ended_at": "When it ended.",
    "entries": "Number of entries.",
    "error": "The error message.",
    "error_class": "The [error class](errors.md).",
    "errors": "Failed requests by class.",
    "every_seconds": "The interval.",
    "exact": "Whether all figures are from one instant; false for a busy job in shards.",
    "excluded": "Requests that a [rule](exclusion-rules.md) has excluded.",
    "exit_code": "The exit code of the command; negative: the signal that ended it.",
    "failed": "Failed requests.",
    "failed_logins": "Logins that failed in a row.",
    "failures": "Number of failures.",
    "file": "The file.",
    "found": "The value that was found.",
    "frontier": "The store, without a password.",
    "hash": "The hash of the entry.",
    "head": "The hash of the last entry.",
    "high": "The highest value.",
    "hint": "What to do.",
    "host": "The host.",
    "host_name": "The name of its machine.",
    "hosts": "Hosts, those with problems first.",
    "id": "The identifier.",
    "in_flight": "Requests in flight.",
    "items": "Number of items.",
    "jitter_seconds": "Maximum random delay of a tick.",
    "job": "The name of the job.",
    "key": "Scheme, host and port.",
    "latency_seconds": "Recent mean response time.",
    "leased": "Requests that are leased to workers.",
    "line": "Number of the line.",
    "lines": "Lines of the result.",
    "logins": "Number of logins.",
    "losses": "Number of times that its worker was lost with it.",
    "low": "The lowest value.",
    "machine": "The machine that was measured.",
    "manual": "Whether `skitter schedule run` added it.",
    "max_instances": "Maximum number of concurrent runs.",
    "meaning": "Description of the part.",
    "median": "The median.",
    "mended": "Whether it was repaired.",
    "name": "The name.",
    "ok": "Whether no problem was found.",
    "origin": "The file that defines the schedule; empty if it was added by command.",
    "outcome": "`done`, `failed`, `running`, `skipped` or `missed`.",
    "outputs": "The outputs of the job.",
    "overdue_seconds": "Age of the oldest expired lease that is not yet recovered.",
    "overlap": "What happens if an earlier run is still running.",
    "owner": "The process that writes it.",
    "pages": "Number of pages.",
    "pages_per_second": "Pages per second.",
    "part": "Part of the work.",
    "paused": "Whether it is paused.",
    "percent": "Its share of the CPU time.",
    "pid": "Its process id.",
    "priority": "The priority.",
    "problem": "The problem.",
    "problems": "Problems that were found.",
    "python": "The version of Python.",
    "queued": "Requests in the queue.",
    "reason": "The reason.",
    "redirected": "Requests that ended with a redirect.",
    "referrer": "The page that it was found on.",
    "rejected": "Items that could not be written.",
    "retries": "Number of times that a failed command is run again.",
    "retry_delay_seconds": "Delay before a retry.",
    "rounds": "Number of repetitions.",
    "rows": "The results.",
    "run": "The number of the run.",
    "samples": "Number of samples.",
    "schedule": "The schedule.",
    "scheduled_at": "Nominal time of the tick.",
    "seconds": "Duration.",
    "seeding": "Whether seeds are still being added.",
    "seeds": "The seeds.",
    "seen": "URLs that the job has seen.",
    "seq": "Number of the entry in its chain.",
    "silent_seconds": "Seconds since its last heartbeat.",
    "since": "Time when the session was created or last logged in.",
    "sinks": "The outputs.",
    "site": "The site that was crawled.",
    "sitemaps": "Sitemaps.",
    "skitter": "The version of skitter.",
    "slots": "Maximum number of requests in flight.",
    "source": "The source.",
    "spider": "The spider; empty for the built-in one.",
    "spiders": "The spiders.",
    "start_within_seconds": "Maximum delay of the start of a tick.",
    "started_at": "When it started.",
    "state": "The state.",
    "status": "The HTTP status.",
    "store": "The store.",
    "success_rate": "Recent share of successes, from 0 to 1.",
    "system": "The operating system.",
    "tally": "Counters: bytes, [exclusion rules](exclusion-rules.md), the counters of spiders and hooks, `duplicates` "
    "(links that were seen before) and `duplicates_sent` (of these, links that no worker knew by itself).",
    "target": "The output.",
    "timezone": "The time zone of the cron expression.",
    "undelivered": "Items that are not yet written.",
    "unfinished": "Requests that have not ended.",
    "unit": "The unit of the value.",
    "until": "End of the schedule.",
    "url": "The URL.",
    "us_per_page": "Microseconds per page.",
    "uses": "Number of uses.",
    "value": "The value.",
    "version": "The version of skitter.",
    "waits_for": "Why it has free slots; empty if it has none, or got all requests that it asked for.",
    "what": "The quantity that is wrong.",
    "worker": "The worker.",
    "worker_list": "The workers.",
    "where": "Location of the problem.",
    "requests": "Number of requests.",
    "leases_per_second": "Leases per second.",
    "commits_per_second": "Commits per second.",
}
"""Meanings of fields without a docstring in their class."""


class Output(NamedTuple):
    """What a command, or one action of it, prints."""

    shape: str
    type: str = ""
    """``module:Class`` of the view; empty: only ``fields``."""
    fields: Mapping[str, str] = MappingProxyType({})
    """Fields that the command adds, or all of them."""
    action: str = ""
    without: tuple[str, ...] = ()
    """Fields of the view that the command does not print."""


_DEAD = {"dead": "The former name of `failed`, until 0.3."}

OUTPUTS: dict[str, tuple[Output, ...]] = {
    "crawl": (Output(f"{OBJECT} The summary, at the end.", "skitter.app.summary:Summary", {"frontier": "The store."}),),
    "worker": (
        Output(f"{OBJECT} The summary, at the end.", "skitter.app.summary:Summary", {"frontier": "The store."}),
        Output(OBJECT, "skitter.app.fleet_node:FleetSummary", action="--every-job"),
    ),
    "submit": (Output(OBJECT, "skitter.app.submit:Submitted"),),
    "status": (Output(f"{OBJECT} With `--watch`, one per line.", "skitter.app.views.status:StatusView", _DEAD),),
    "jobs": (
        Output(LINES, "skitter.app.views.jobs:JobView", _DEAD),
        Output(
            f"{OBJECT} After the jobs.",
            fields={"jobs": "Number of jobs.", "distinct": "Estimated number of distinct URLs of all jobs."},
            action="--distinct",
        ),
    ),
    "failed": (Output(LINES, "skitter.model.job:FailedRequest"),),
    "why": (
        Output(
            OBJECT,
            "skitter.model.job:Trace",
            {
                "url": "The URL.",
                "state": "Its state; `unseen`: the job has never seen it; `known`: it is not due yet in this run.",
                "reasons": "Explanations, as sentences.",
                "fetched_at": "Time of its last fetch. This field and those below exist in jobs that recrawl.",
                "changed_at": "Time when it was last found changed.",
                "next_at": "Time when it is due again.",
                "visits": "Earlier visits.",
                "etag": "ETag of its last response.",
                "last_modified": "Last-Modified of its last response.",
            },
        ),
    ),
    "logs": (Output(f"{LINES} The events, as [Events](events.md) describes them."),),
    "add": (
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "added": "New requests.",
                "duplicates": "URLs that the job has already seen.",
                "known": "The former name of `duplicates`, until 0.3.",
                "bad": "Lines that are not valid URLs.",
            },
        ),
    ),
    "retry": (
        Output(OBJECT, fields={"job": JOB, "state": "Its state.", "retried": "Requests that are queued again."}),
    ),
    "pause": (Output(OBJECT, fields=_STEERED),),
    "resume": (Output(OBJECT, fields=_STEERED),),
    "stop": (Output(OBJECT, fields=_STEERED),),
    "set": (
        Output(
            OBJECT,
            fields=_STATE
            | {"settings": "Settings that were changed, with their new values.", "workers": "Number of live workers."},
        ),
    ),
    "hosts": (
        Output(LINES, "skitter.model.job:HostSeen", action="list"),
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "host": "The host.",
                "before": "The state before: `none`, `paused` or `given_up`.",
                "after": "The state now.",
            },
            action="pause, resume, give-up",
        ),
    ),
    "proxies": (
        Output(
            LINES,
            "skitter.model.proxy:ProxySeen",
            {"id": "Its id.", "proxy": "Its address, without a password.", "state": "Its state, as text."},
            "list",
            ("url",),
        ),
        Output(LINES, "skitter.app.proxy_test:ProxyTest", action="test"),
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "id": "The proxy.",
                "host": "The host at which it is banned; empty for all hosts.",
                "banned_seconds": "Duration of the ban; 0 if the ban has ended.",
            },
            action="ban, unban",
        ),
    ),
    "sessions": (
        Output(OBJECT, "", {"job": JOB, "sessions": "Objects with the fields of `SessionView`."}, "list"),
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "session": "Name of the session.",
                "file": "The file, for `export`.",
                "cookies": "Number of cookies.",
                "left_out": "Number of cookies that were not imported, for `import`.",
            },
            action="export, import",
        ),
    ),
    "deliver": (
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "delivered": "Items written.",
                "rejected": "Items rejected.",
                "outputs": "Names of the outputs.",
            },
        ),
    ),
    "items": (
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "source": "Source of the items.",
                "items": "Number of items read.",
                "undelivered": "Of these, items that are not yet in every output.",
                "fields": "For each field `filled` (the number of items with a value), `rate` and `types`.",
                "sample": "Sample items.",
            },
        ),
    ),
    "export": (
        Output(
            OBJECT,
            fields={"written": "Items written.", "rejected": "Items rejected.", "outputs": "Names of the outputs."},
        ),
    ),
    "audit": (
        Output(LINES, "skitter.model.audit:AuditRow"),
        Output(OBJECT, "skitter.app.audit:Verification", action="--verify"),
        Output(OBJECT, fields={"head": "The hash to store elsewhere.", "chains": "Number of chains."}, action="--head"),
        Output(
            OBJECT, fields={"removed": "Entries removed.", "head": "The hash to store elsewhere."}, action="--prune"
        ),
    ),
    "fsck": (
        Output(
            OBJECT,
            fields={
                "job": JOB,
                "consistent": "Whether no finding is left.",
                "found": "Number of findings.",
                "report": "An object with the fields of `Consistency`.",
            },
        ),
    ),
    "drop": (Output(OBJECT, fields={"job": JOB, "dropped": "Always true."}),),
    "schedule": (
        Output(LINES, "skitter.app.schedules:ScheduleView", action="list, and one object for add, show, pause, resume"),
        Output(LINES, "skitter.model.schedule:HistoryRow", action="history"),
        Output(
            OBJECT,
            fields={
                "name": "The schedule.",
                "scheduled_at": "Time of the tick.",
                "leader": "The scheduler that leads; empty if there is none.",
            },
            action="run",
        ),
        Output(OBJECT, fields={"name": "The schedule.", "removed": "Always true."}, action="remove"),
    ),
    "user": (
        Output(LINES, fields={"name": "The user.", "role": "Their role.", "jobs": "Their jobs."}, action="list"),
        Output(
            OBJECT,
            fields={"name": "The user.", "action": "The action.", "file": "The file of users."},
            action="add, password, remove",
        ),
    ),
    "new": (Output(OBJECT, fields={"created": "The files that were written."}),),
    "list": (Output(OBJECT, "skitter.spiders.spider_files:SpiderListing"),),
    "check": (
        Output(
            OBJECT,
            fields={
                "ok": "Whether no problem was found.",
                "spiders": "For each spider, `reference` and `ok`.",
                "findings": "Objects with the fields of `Finding`.",
                "warnings": "Warnings, as text.",
            },
        ),
    ),
    "shell": (Output("With `--code`: the value of the expression, or its text if it has no form in JSON."),),
    "fetch": (
        Output(
            OBJECT,
            fields={
                "url": "The URL of the page, after redirects.",
                "status": "The status.",
                "headers": "Pairs of name and value.",
                "bytes": "The size of the body.",
                "address": "IP address of the server.",
                "http_version": "HTTP version, such as `1.1` or `2`.",
                "seconds": "Duration.",
                "encoding": "The encoding of the text.",
                "text": "The body as text; null for other content.",
            },
        ),
    ),
    "parse": (
        Output(
            OBJECT,
            fields={
                "url": "The URL of the page.",
                "status": "Its status.",
                "callback": "The callback that was called.",
                "items": "The items.",
                "rejected": "Items that cannot be written, and why.",
                "requests": "The requests: `url`, `method`, `callback` and fields that are not the default.",
                "left_out": "Number of links and items that were left out, by rule or reason.",
                "error": "The traceback, if the callback failed.",
            },
        ),
    ),
    "settings": (
        Output(
            "An array with one object for each setting.",
            fields={
                "name": "The setting.",
                "group": "Its group.",
                "value": "Its value.",
                "layer": "Its origin: `default`, `project`, `config`, `spider`, `environment` or `command line`.",
                "place": "The file, variable or option that sets it.",
            },
        ),
    ),
    "plan": (Output(OBJECT, "skitter.policy.capacity_plan:Answer"),),
    "bench": (
        Output(OBJECT, "skitter.bench.crawl_bench:Report"),
        Output(OBJECT, "skitter.bench.frontier_bench:Report", action="frontier"),
        Output(OBJECT, "skitter.bench.profile:Report", action="--profile"),
    ),
}
MENTIONED = (
    "skitter.app.views.sessions:SessionView",
    "skitter.model.consistency:Consistency",
    "skitter.app.project_check:Finding",
)
"""Views inside objects that commands build themselves."""


def page() -> str:
    parts = [HEAD]
    seen: set[type] = set()
    for command, outputs in OUTPUTS.items():
        parts.append(f"\n## {command}\n")
        for output in outputs:
            parts.append(f"\n{f'`{output.action}`: ' if output.action else ''}{output.shape}\n")
            left_out = {*output.fields, *output.without}
            table: list[tuple[str, str, str]] = []
            if output.type:
                view = resolved(output.type)
                seen |= set(_nested(view))
                table += [row for row in rows_of(view) if row[0] not in left_out]
            table += [(name, "", text) for name, text in output.fields.items()]
            parts.append(_table(table))
    seen |= {view for name in MENTIONED for view in (resolved(name), *_nested(resolved(name)))}
    parts.append("\n## Objects inside others\n")
    names = Counter(view.__name__ for view in seen)
    for view in sorted(seen, key=lambda view: (view.__name__, view.__module__)):
        title = view.__name__ if names[view.__name__] == 1 else f"{view.__name__} (`{view.__module__}`)"
        parts.append(f"\n### {title}\n" + _table(rows_of(view)))
    return "".join(parts)


def resolved(name: str) -> type:
    module, _, attribute = name.partition(":")
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def rows_of(view: type) -> list[tuple[str, str, str]]:
    """Name, type and meaning of each field that is printed, inherited ones included."""
    found = {
        name: (name, annotation.replace("msgspec.", "").replace(" | UnsetType", ""), text or COMMON.get(name, ""))
        for base in reversed(view.__mro__)
        if base.__module__.startswith("skitter")
        for name, annotation, _, text in python_reference.fields(base)
    }
    return [found[name] for name in _names(view)]


def _names(view: type) -> list[str]:
    if issubclass(view, msgspec.Struct):
        return [field.encode_name for field in msgspec.structs.fields(view)]
    if dataclasses.is_dataclass(view):
        return [field.name for field in dataclasses.fields(view)]
    return list(view._fields)  # type: ignore[attr-defined]


def _nested(view: type) -> Iterator[type]:
    """The views that fields of a view have, however deep."""
    for hint in typing.get_type_hints(view).values():
        for found in _classes(hint):
            yield found
            yield from _nested(found)


def _classes(hint: Any) -> Iterator[type]:
    is_own = inspect.isclass(hint) and hint.__module__.startswith("skitter")
    if is_own and (issubclass(hint, msgspec.Struct) or dataclasses.is_dataclass(hint) or hasattr(hint, "_fields")):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def _table(rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    lines = [f"| `{name}` | {f'`{_cell(kind)}`' if kind else ''} | {_cell(text)} |\n" for name, kind, text in rows]
    return "\n| field | type | meaning |\n| --- | --- | --- |\n" + "".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
