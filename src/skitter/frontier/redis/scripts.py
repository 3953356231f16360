"""The scripts, as the server gets them: a method's own file after those that all of them share.

Names for numbers and texts are replaced by them: Lua has room for 200 locals, and a number is faster than one. They
come from ``constants``, which hands over what Python and Lua share, and from lines of the Lua files such as
``local SEQ, HOST = 1, 2``.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from skitter.dedup import hyperloglog
from skitter.dedup.lua_files import lua
from skitter.frontier import contract, damage_errors, tables
from skitter.frontier.redis import codec
from skitter.frontier.tables import RequestState
from skitter.model import counters, host, session
from skitter.model.item import COUNTERS, ItemKind
from skitter.model.lease import Work
from skitter.model.proxy import ProxyFault, ProxyState
from skitter.policy import cookies, generations, host_budgets, lost_leases, politeness, proxy_choice, sessions, shares

SETS = ("exact", "bloom", "expiring")
"""The Lua files of ``skitter.dedup``, which come first."""
SHARED = (
    "1_job",
    "2_hosts",
    "3_requests",
    "4_leases",
    "5_outbox",
    "6_shards",
    "7_needs",
    "8_proxies",
    "9_jars",
    "10_sessions",
)
CONSISTENCY = frozenset(
    "check_hosts check_queues check_requests check_members check_holds check_in_flight check_job count_places"
    " count_bits mend_host mend_request mend_lease mend_job".split()
)
"""Scripts of the consistency check, which have ``consistency.lua`` before them."""
INTAKES = frozenset("open_intake tell_intake leave_intake".split())
"""Scripts of intakes, which have ``intake_records.lua`` before them."""
_BEFORE = {**dict.fromkeys(CONSISTENCY, "consistency"), **dict.fromkeys(INTAKES, "intake_records")}
# A shard sends its status with every answer. A function of Lua may use 60 names from outside and have 200 locals;
# tests/integration/frontier/test_lua_scripts.py shows how many each script has left.
_ANSWER = """
local function answer()
{own}
end
local told = answer()
if told and J and J.shards then return with_status(told) end
return told
"""
_LITERAL = r"(?:[0-9.]+|'[^',]*')"
DEFINITION = re.compile(rf"^local ([A-Z_]+(?:, [A-Z_]+)*) = ({_LITERAL}(?:, {_LITERAL})*)$", re.MULTILINE)
# Comments and texts are matched first, so that no word inside them is taken for a name. After a dot stands a field.
_TOKEN = re.compile(
    r"""--\[(?P<comment>=*)\[.*?\](?P=comment)\] | --[^\n]* | \[(?P<text>=*)\[.*?\](?P=text)\]
    | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | (?<![\w.:])(?P<name>[A-Z][A-Z_]+)(?!\w)""",
    re.DOTALL | re.VERBOSE,
)


def constants() -> dict[str, int | float | str]:
    """What the rules in Python and in Lua share, by its name in Lua. It is written in Python alone."""
    return {
        "BATCH": contract.BATCH,
        "POLL_SECONDS": contract.POLL_SECONDS,
        "SUSPECTS_TRIED": contract.SUSPECTS_TRIED,
        "NOTABLE_HOSTS": contract.NOTABLE_HOSTS,
        "RATE_SAMPLE_SECONDS": contract.RATE_SAMPLE_SECONDS,
        "FIRST_START_SECONDS": host.FIRST_START_SECONDS,
        "MAX_START_SECONDS": politeness.MAX_START_SECONDS,
        "MAX_PAUSE_SECONDS": politeness.MAX_PAUSE_SECONDS,
        "MAX_RECONNECT_SECONDS": politeness.MAX_RECONNECT_SECONDS,
        "MAX_DOUBLINGS": politeness.MAX_DOUBLINGS,
        "LAST_COPY_SECONDS": politeness.LAST_COPY_SECONDS,
        "BLOCK_LIMIT": politeness.BLOCK_LIMIT,
        "LATENCY_WEIGHT": politeness.LATENCY_WEIGHT,
        "MAX_PACE_SECONDS": politeness.MAX_PACE_SECONDS,
        "PACE_WINDOW_SECONDS": politeness.PACE_WINDOW_SECONDS,
        "AHEAD_SECONDS": politeness.AHEAD_SECONDS,
        "PER_HOST": politeness.PER_HOST,
        "PUBLIC_PER_HOST": politeness.PUBLIC_PER_HOST,
        "PUBLIC_DELAY_SECONDS": politeness.PUBLIC_DELAY_SECONDS,
        "PRIVATE_NAMES": politeness.PRIVATE_NAMES,
        "SHORT_SECONDS": shares.SHORT_SECONDS,
        "SHORT_WORKERS": shares.SHORT_WORKERS,
        "SHARED_POLL_SECONDS": shares.SHARED_POLL_SECONDS,
        "IDLE_PART": shares.IDLE_PART,
        "MAX_HELD_SECONDS": shares.MAX_HELD_SECONDS,
        "OUTCOMES_AVERAGED": shares.OUTCOMES_AVERAGED,
        "LEAST_QUALITY": shares.LEAST_QUALITY,
        "GOLDEN_RATIO": shares.GOLDEN_RATIO,
        "BURST_RANK": host.BURST_RANK,
        "HELD_CLASS": politeness.HELD_CLASS,
        "LOSSES_BEFORE_ALONE": lost_leases.LOSSES_BEFORE_ALONE,
        "LOSSES_WHILE_ALONE": lost_leases.LOSSES_WHILE_ALONE,
        "LOSSES_IN_ALL": lost_leases.LOSSES_IN_ALL,
        "HOST_BUDGET": host_budgets.HOST_BUDGET,
        "STOPPED_SCORE": host_budgets.STOPPED_SCORE,
        "LATEST": damage_errors.LATEST,
        "MAX_PROXIES": contract.MAX_PROXIES,
        "HOST_PROXY_SECONDS": contract.HOST_PROXY_SECONDS,
        "DEFAULT_POOL": codec.DEFAULT_POOL,
        **{
            name: getattr(proxy_choice, name)
            for name in (
                *("PROBES", "REST_FAILURES", "FIRST_REST_SECONDS", "MAX_REST_SECONDS", "PAIR_FAILURES"),
                *("MAX_BAN_SECONDS", "PAIR_MEMORY_SECONDS", "MAX_PROXY_DOUBLINGS", "PROXY_WEIGHT"),
                *("PROXY_FAILURES_LIMIT", "PROXY_MEMORY_SECONDS", "DRAW_FACTOR", "DRAW_MODULUS"),
            )
        },
        "PROXY_ACTIVE": ProxyState.ACTIVE.value,
        "PROXY_REMOVED": ProxyState.REMOVED.value,
        "FAULT_NONE": ProxyFault.NONE.value,
        "FAULT_UNSURE": ProxyFault.UNSURE.value,
        "FAULT_BANNED": ProxyFault.BANNED.value,
        "FAULT_UNWANTED": ProxyFault.UNWANTED.value,
        "GENERATIONS": generations.GENERATIONS,
        "CHANGE_BYTES": hyperloglog.CHANGE_BYTES,
        "REGISTERS": hyperloglog.REGISTERS,
        "FORMAT": codec.FORMAT,
        "MAX_COUNTERS": counters.MAX_COUNTERS,
        "OTHER": counters.OTHER,
        "DELIVERED_EARLIER": tables.DELIVERED_EARLIER,
        "LOST_LINKS": tables.LOST_LINKS,
        "LEASE_FIELDS": codec.LEASE_FIELDS,
        "MAX_PRIORITY": contract.MAX_PRIORITY,
        "MAX_JARS": cookies.MAX_JARS,
        "MAX_JAR_COOKIES": cookies.MAX_JAR_COOKIES,
        "MAX_JAR_BYTES": cookies.MAX_JAR_BYTES,
        "NAMED_RANK": cookies.NAMED_RANK,
        "DELETED": session.DELETED,
        "POOL": session.POOL,
        "SESSION_WORD": codec.SESSION_WORD,
        "LOGIN_WORD": codec.LOGIN_WORD,
        **{f"SESSION_{state.name}": state.value for state in session.SessionState},
        "LOGIN_ASK_SECONDS": sessions.LOGIN_ASK_SECONDS,
        "LOGIN_SECONDS": sessions.LOGIN_SECONDS,
        "LOGIN_RETRY_SECONDS": sessions.LOGIN_RETRY_SECONDS,
        "MAX_LOGIN_FAILURES": sessions.MAX_LOGIN_FAILURES,
        "MAX_NEEDS": sessions.MAX_NEEDS,
        **{f"AT_{state.name}": state.value for state in RequestState},
        **{phase.name: phase.value for phase in host.Phase},
        **{f"HALT_{halt.name}": halt.value for halt in host.Halt if halt},
        "GIVEN_UP_CLASS": politeness.GIVEN_UP_CLASS,
        "GIVEN_UP_REASON": politeness.GIVEN_UP_REASON,
        "HOST_DOWN": politeness.HOST_DOWN,
        "PAUSED_HOSTS": contract.PAUSED_HOSTS,
        **{work.name: work.value for work in Work},
        **{f"{kind.name}_KIND": kind.value for kind in ItemKind},
        **{f"{kind.name}_COUNTER": COUNTERS[kind] for kind in ItemKind},
    }


@cache
def script(name: str) -> tuple[bytes, str]:
    """A script and its hash."""
    shared, values = _shared()
    own = read(_BEFORE[name]) + read(name) if name in _BEFORE else read(name)
    final = (shared + inline(_ANSWER.format(own=own), dict(values))).encode()
    return final, hashlib.sha1(final, usedforsecurity=False).hexdigest()


@cache
def _shared() -> tuple[str, dict[str, str]]:
    """What all have in common, and its names for numbers: made once, as each process uses a dozen scripts."""
    # Python writes numbers, and texts without quotes or backslashes in them, as Lua does.
    values = {name: repr(value) for name, value in constants().items()}
    return inline("\n".join([*map(lua, SETS), *map(read, SHARED)]), values), values


def read(part: str) -> str:
    """A Lua file as it lies there."""
    return Path(__file__).with_name("lua").joinpath(f"{part}.lua").read_text()


def inline(source: str, values: dict[str, str]) -> str:
    """The source with the names in ``values`` replaced; those that it defines join them.

    Lines keep their places, so that an error's line number means something.
    """

    def define(found: re.Match[str]) -> str:
        values.update(zip(found[1].split(", "), found[2].split(", "), strict=True))
        return ""

    def replace(found: re.Match[str]) -> str:
        return values.get(found["name"], found[0])

    return _TOKEN.sub(replace, DEFINITION.sub(define, source))
