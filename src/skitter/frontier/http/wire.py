"""The wire format between a master and its clients: calls of the contract as msgpack, and errors as themselves.

A call is ``POST /v1/jobs/JOB/METHOD`` with a map of its arguments by name; the answer is what the method returns. Types
come from the annotations of the contract, so that a method is described once.
"""

from __future__ import annotations

import enum
import hashlib
import inspect
import typing

import msgspec

from skitter import errors
from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.secrets import without_secrets

VERSION = "5"
"""Raised with every change that an older client or master would misread."""
VERSION_HEADER = "Skitter-Wire"
CALL_HEADER = "Skitter-Call"
"""An id of the call, the same each time it is sent, where the store has no token to know it by."""
SPEC_HEADER = "Skitter-Spec"
"""The specification that a client knows (``spec_tag``). A report is then sent without it."""
LARGE_SPEC_BYTES = 16_384
"""Of a report whose specification a client keeps: it may have a hundred thousand seeds, and reports are polled."""
ACTOR_HEADER = "Skitter-Actor"
"""Who a client says it is. The audit trail has it beside the name of the credential, and nothing depends on it."""
CONTENT_TYPE = "application/msgpack"
JOBS_PATH = "/v1/jobs"
AUDIT_PATH = "/v1/audit"
WAIT = "wait_for_work"
"""The long poll: a route beside the methods of the contract."""
DROP = "drop"
MAX_POLL_SECONDS = 50.0
"""Less than the idle time of the usual reverse proxy, which is a minute."""
CALL_SECONDS = 55.0
"""How long a master works at a call. Most take milliseconds; a store that is unavailable takes them all."""
LONG_CALL_SECONDS = 3_600.0
MAX_BODY_BYTES = 64 * 1024 * 1024
"""Of a call or an answer: 100,000 seeds are 10 MB, and a worker commits a batch of pages in much less."""


class Role(enum.IntEnum):
    """What a credential may do. Each may do what those before it may."""

    VIEWER = 1
    """Read."""
    WORKER = 2
    """Work on jobs and deliver their items, under names of its own."""
    OPERATOR = 3
    """Begin jobs, add to them and command them."""
    ADMIN = 4
    """Drop and repair jobs."""


ROLES = {
    # What is not here is not served. A test compares it with the contract.
    **dict.fromkeys(
        (
            *(
                "capacity",
                "counts",
                "failures",
                "distinct_urls",
                "hosts",
                "intakes",
                "job",
                "page_record",
                "peek",
                "report",
                "sinks",
            ),
            *("sessions", "state", "trace", "workers"),
        ),
        Role.VIEWER,
    ),
    **dict.fromkeys(
        (
            *("lease", "renew", "commit", "release", "tell", "robots", "proxies", "jars", "log_in"),
            *("known_pages", "count_distinct"),
        ),
        Role.WORKER,
    ),
    **dict.fromkeys(("release_worker", "relieve_worker", "reap"), Role.WORKER),
    **dict.fromkeys(("open_sink", "items", "items_done", "close_sink", "claim_close"), Role.WORKER),
    **dict.fromkeys(("register_proxy", "drain_proxy", "remove_proxy", "ban_proxy"), Role.OPERATOR),
    **dict.fromkeys(("open_intake", "tell_intake", "leave_intake", "close_intake"), Role.OPERATOR),
    **dict.fromkeys(
        ("begin", "add", "add_cookies", "command", "change_settings", "revive", "check_consistency"), Role.OPERATOR
    ),
    "command_host": Role.OPERATOR,
}
OPTION_ROLES = {("check_consistency", "repair"): Role.ADMIN, ("close_sink", "forget"): Role.OPERATOR}
"""Options of methods that need more than the method."""
_LONG_CALLS = frozenset(("check_consistency", "revive"))


class Method:
    """One method of the contract, as it is sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.role = ROLES[name]
        self.is_long = name in _LONG_CALLS
        self.timeout_seconds = LONG_CALL_SECONDS if self.is_long else CALL_SECONDS
        function = getattr(Frontier, name)
        hints = typing.get_type_hints(function)
        fields = [
            (parameter.name, hints[parameter.name])
            if parameter.default is parameter.empty
            else (parameter.name, hints[parameter.name], parameter.default)
            for parameter in list(inspect.signature(function).parameters.values())[1:]
        ]
        self.arguments: type[msgspec.Struct] = msgspec.defstruct(name, fields, forbid_unknown_fields=True)
        self.names = tuple(field[0] for field in fields)
        self.read_arguments = msgspec.msgpack.Decoder(self.arguments).decode
        self.read_answer = msgspec.msgpack.Decoder(hints["return"]).decode

    def role_for(self, arguments: msgspec.Struct) -> Role:
        """The role that a call with these arguments needs."""
        options = [
            role for (name, option), role in OPTION_ROLES.items() if name == self.name and getattr(arguments, option)
        ]
        return max([self.role, *options])


METHODS = {name: Method(name) for name in ROLES}
encode = msgspec.msgpack.Encoder().encode


class WaitForWork(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of the long poll."""

    worker: str
    timeout_seconds: float


read_wait = msgspec.msgpack.Decoder(WaitForWork).decode
read_names = msgspec.msgpack.Decoder(list[str]).decode
read_flag = msgspec.msgpack.Decoder(bool).decode

NO_SPEC = JobSpec(name="", spider="")
"""Stands for the specification that the client knows."""


def spec_tag(spec: JobSpec) -> str:
    """A name for a specification: another one has another name."""
    return hashlib.blake2b(encode(spec), digest_size=16).hexdigest()


# ---- errors


class WireError(msgspec.Struct):
    """An error on its way to a client."""

    kind: str
    message: str
    hint: str = ""


_KINDS = {
    kind.__name__: kind
    for kind in (
        *(errors.UsageError, errors.SettingsError, errors.SpiderError, errors.JobError),
        errors.MissingJobError,
        *(errors.BackendError, errors.FrontierError, errors.FormatError, errors.DamageError),
        *(errors.ContradictionError, errors.VanishedError, errors.DedupError, errors.SinkError),
    )
}
_read_error = msgspec.msgpack.Decoder(WireError).decode


def pack_error(error: errors.SkitterError) -> bytes:
    """An error as the nearest kind that every client knows."""
    kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _KINDS), "FrontierError")
    return encode(WireError(kind, without_secrets(str(error)), without_secrets(error.hint)))


def unpack_error(body: bytes) -> errors.SkitterError | None:
    """The error of an answer; None: it is none of a master."""
    try:
        told = _read_error(body)
    except msgspec.MsgspecError:
        return None
    return _KINDS.get(told.kind, errors.FrontierError)(told.message, hint=told.hint)
