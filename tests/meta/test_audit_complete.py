"""A mutation that leaves no entry in the audit trail would be found by nobody."""

from __future__ import annotations

import inspect

from skitter.app.schedules import Schedules
from skitter.audit.mutations import MUTATIONS, READING, SCHEDULE_ACTIONS, STORE_ACTIONS, USERS_CHANGE, WORKING
from skitter.cli import COMMANDS
from skitter.frontier.contract import Frontier, FrontierBackend
from skitter.frontier.http import wire
from skitter.frontier.http.wire import Role

RECORDED = {
    "crawl": {"begin", "close_sink", "close_intake"},
    "submit": {"begin", "close_intake"},
    "worker": {"close_intake"},
    "add": {"add"},
    "retry": {"revive"},
    "pause": {"command"},
    "resume": {"command"},
    "stop": {"command"},
    "set": {"change_settings"},
    "hosts": {"command_host"},
    "proxies": {"ban_proxy"},
    "sessions": {"add_cookies"},
    "fsck": {"check_consistency"},
    "drop": {"drop"},
    "deliver": {"deliver"},
    "schedule": set(SCHEDULE_ACTIONS),
    "scheduler": {"command", "add", "change"},
    "audit": {"audit.prune"},
    # By the master that serves the users.
    "user": {USERS_CHANGE},
}
"""Commands that change what is stored, and by which mutations."""
READ = set(
    "new list check shell fetch parse settings status failed items export why jobs logs serve egress plan completion"
    " bench demo".split()
)
"""Commands that change nothing of a job, or what no operator does: a master records for its clients, and an egress
renews its own proxy."""


def test_every_method_of_the_contract_is_recorded_or_known_not_to_be() -> None:
    methods = {name for name in dir(Frontier) if not name.startswith("_")}
    kinds = (set(MUTATIONS), set(READING), set(WORKING))
    assert set.union(*kinds) == methods, "give a new method an entry in audit/mutations.py"
    assert sum(map(len, kinds)) == len(methods), "one kind each"


def test_what_an_operator_alone_may_do_through_a_master_is_recorded() -> None:
    by_machines = {"register_proxy", "drain_proxy", "remove_proxy", "open_intake", "tell_intake", "leave_intake"}
    operators = {name for name, role in wire.ROLES.items() if role >= Role.OPERATOR}
    operators |= {name for (name, _), role in wire.OPTION_ROLES.items() if role >= Role.OPERATOR}
    assert operators - by_machines == set(MUTATIONS)


def test_every_command_is_recorded_or_known_to_change_nothing() -> None:
    assert RECORDED.keys() | READ == set(COMMANDS), "say which mutations a new command makes"
    assert not RECORDED.keys() & READ
    made = set().union(*RECORDED.values()) - {"audit.prune", USERS_CHANGE}
    assert made == set(MUTATIONS) | set(STORE_ACTIONS) | set(SCHEDULE_ACTIONS)


def test_every_method_of_schedules_is_recorded_or_reads() -> None:
    methods = {name for name, _ in inspect.getmembers(Schedules, inspect.isfunction) if not name.startswith("_")}
    # ``add`` and ``apply`` add or change.
    assert methods == {"list", "get", "history", "leader"} | (set(SCHEDULE_ACTIONS) - {"change"}) | {"apply"}


def test_everything_that_a_store_can_do_to_a_job_as_a_whole_is_known() -> None:
    assert set(FrontierBackend.__struct_fields__) == {"open", "shared", "list_jobs", "drop_job", "drop_job_as"}
