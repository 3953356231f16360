"""Errors of the Redis driver, classified: what the server reports, what to do, and whether waiting helps.

The frontier and the stream sink make errors of their own out of them.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from redis import exceptions

from skitter.redis_driver.address import HostPort, format_host


class Remedy(Enum):
    """What ends a trouble."""

    WAIT = "wait"
    """Time, or the operator of the server: the same call may be made again."""
    CREDENTIALS = "credentials"
    """Another user or password: they may just be being changed at the server."""
    CHANGE = "change"
    """Another address, or another setup of the server: waiting does not help."""


class Trouble(NamedTuple):
    """An error reply that is known."""

    text: str
    """The predicate of a sentence about the server: ``is out of memory``."""
    hint: str
    remedy: Remedy = Remedy.WAIT
    failing_over: bool = False
    """Where several servers replace each other, it may last only until one of them is the master."""


_GIVE_MASTER = "give the address of the master"
_GIVE_NODES = "give some of its nodes: redis+cluster://HOST,HOST"
TROUBLES = {
    # By the code of an error reply, which is its first word.
    "NOAUTH": Trouble(
        "asks for a password",
        "give a password: redis://USER:PASSWORD@HOST, redis://:PASSWORD@HOST or ?password_file=FILE",
        Remedy.CREDENTIALS,
    ),
    "WRONGPASS": Trouble(
        "refuses the user or the password", "check user and password: redis://USER:PASSWORD@HOST", Remedy.CREDENTIALS
    ),
    "NOPERM": Trouble(
        "does not allow this user the commands that skitter needs",
        "ACL: ~skitter:* -@all +@read +@write -@dangerous +@connection +eval +evalsha +info +time +wait +cluster|nodes",
        Remedy.CHANGE,
    ),
    "LOADING": Trouble("is still loading its data", "wait until it is ready", failing_over=True),
    "READONLY": Trouble("is a read-only replica", _GIVE_MASTER, failing_over=True),
    "OOM": Trouble(
        "is out of memory", "raise maxmemory, or free memory with skitter jobs and skitter drop; nothing is lost"
    ),
    "MISCONF": Trouble("cannot save to its disk and accepts no writes", "free some disk space there; nothing is lost"),
    "MASTERDOWN": Trouble("is a replica that has lost its master", _GIVE_MASTER, failing_over=True),
    "CLUSTERDOWN": Trouble("is part of a cluster that is down", "wait until the cluster is up", failing_over=True),
    "TRYAGAIN": Trouble("is moving these keys", "wait", failing_over=True),
    "NOREPLICAS": Trouble("has too few replicas to accept writes", "see min-replicas-to-write in its configuration"),
    "BUSY": Trouble("is busy with a script", "wait, or use SCRIPT KILL there"),
    "MOVED": Trouble("is a node of a Redis Cluster", _GIVE_NODES, Remedy.CHANGE),
    "ASK": Trouble("is moving these keys to another node", "wait", failing_over=True),
    "CROSSSLOT": Trouble("is a node of a Redis Cluster", _GIVE_NODES, Remedy.CHANGE),
    "MAXCLIENTS": Trouble("has too many clients", "raise maxclients there, or start fewer workers"),
    # The codes of CheckFailedError.
    "NOMASTER": Trouble("has sentinels that do not know this master", "check redis+sentinel://HOST,HOST/MASTER"),
    "SENTINELAUTH": Trouble(
        "has sentinels that refuse the password", "give ?sentinel_password_file=FILE", Remedy.CREDENTIALS
    ),
    "ISSENTINEL": Trouble("is a sentinel", "name the master too: redis+sentinel://HOST,HOST/MASTER", Remedy.CHANGE),
    "NOCLUSTER": Trouble("is not a node of a Redis Cluster", "name other nodes, or use redis://HOST", Remedy.CHANGE),
    "TOOOLD": Trouble("is too old", "use Redis 6.2 or newer, or Valkey", Remedy.CHANGE),
    "FEWREPLICAS": Trouble(
        "has too few replicas that are up to date",
        "start the replicas again: redis-cli INFO replication on the master lists those that it has, and their lag",
    ),
}
WRONG_TYPE = "WRONGTYPE"
"""The code of a command for another type of key: what that means, the callers know."""
_CODES_BY_CLASS: list[tuple[type[Exception], str]] = [
    # The driver has taken the code off these replies and made a class of it.
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.OutOfMemoryError, "OOM"),
    (exceptions.NoPermissionError, "NOPERM"),
    (exceptions.MasterDownError, "MASTERDOWN"),
    (exceptions.ClusterDownError, "CLUSTERDOWN"),
    (exceptions.TryAgainError, "TRYAGAIN"),
    (exceptions.MovedError, "MOVED"),
    (exceptions.AskError, "ASK"),
    (exceptions.AuthenticationWrongNumberOfArgsError, "WRONGPASS"),
]
_CODES_BY_TEXT = {
    # How the error of a script says what one of its commands was refused for.
    "non local key in a cluster": "TRYAGAIN",
    "while the cluster is down": "CLUSTERDOWN",
    "while the cluster is in readonly": "CLUSTERDOWN",
    "The user executing the script can't": "NOPERM",
    "ACL failure in script": "NOPERM",
}
_NO_ANSWER = "no answer in time"
_CLOSED = "it closed the connection"
_CHECK_SERVER = "is it running? check host, port and network"
_GIVE_CERTIFICATE = "give one that it trusts: ?cert=FILE&key=FILE"
_TLS_HINTS = {
    # A server without TLS takes a TLS greeting for the beginning of a command, and waits for the rest.
    _NO_ANSWER: "is it running, and does it use TLS? use redis:// without TLS",
    # Its alert may be lost with the connection.
    _CLOSED: f"does it require a client certificate? {_GIVE_CERTIFICATE}",
}


class CheckFailedError(exceptions.ResponseError):
    """A server that answers and cannot be used, as skitter has found out by asking it. ``code`` is one of TROUBLES."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(text)
        self.code = code


class NodesFailedError(exceptions.ConnectionError):
    """None of the hosts that were tried can be used."""

    def __init__(self, failures: Mapping[HostPort, Exception], prefix: str = "", *, any_answered: bool) -> None:
        """``any_answered``: a sentinel or a node answers, so the cause may be a failover."""
        super().__init__(prefix + ", ".join(map(format_host, failures)))
        self.failures = failures
        self.prefix = prefix
        self.any_answered = any_answered


def is_reply(error: Exception) -> bool:
    """Whether the server has answered, with an error."""
    return isinstance(error, exceptions.ResponseError | exceptions.AuthenticationError | exceptions.BusyLoadingError)


def reply_code(error: Exception) -> str:
    """The code of an error reply, known or not; empty: the error is none."""
    text = str(error)
    if isinstance(error, CheckFailedError):
        return error.code
    if not is_reply(error):
        # The driver makes a connection error of this reply.
        return "MAXCLIENTS" if "max number of clients" in text else ""
    for kind, code in _CODES_BY_CLASS:
        if isinstance(error, kind):
            return code
    for code in (*TROUBLES, WRONG_TYPE):
        # A script's error quotes the reply that a command inside it got.
        if text.startswith((code, f"-{code}")) or f" -{code} " in text or f": {code} " in text:
            return code
    for words, code in _CODES_BY_TEXT.items():
        if words in text:
            return code
    if isinstance(error, exceptions.AuthenticationError):
        return "NOAUTH" if "required" in text.lower() else "WRONGPASS"
    return text.partition(" ")[0]


def is_not_redis(error: Exception) -> bool:
    """Whether what answered does not speak the protocol of Redis."""
    return isinstance(error, exceptions.InvalidResponse) or "Protocol error" in str(error)


def connection_trouble(error: Exception, *, tls: bool) -> tuple[str, str]:
    """The reason why there is no connection, and a hint."""
    if isinstance(error, NodesFailedError):
        parts = [(host, connection_trouble(each, tls=tls)) for host, each in sorted(error.failures.items())]
        return error.prefix + "; ".join(f"{format_host(host)}: {part[0]}" for host, part in parts), parts[0][1][1]
    if (trouble := TROUBLES.get(reply_code(error))) is not None:
        return trouble.text, trouble.hint
    reason, hint = _connection_trouble(error)
    return reason, _TLS_HINTS.get(reason, hint) if tls else hint


def _connection_trouble(error: Exception) -> tuple[str, str]:
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return _NO_ANSWER, _CHECK_SERVER
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message}", "?ca=FILE names the certificate authority"
    if isinstance(cause, ssl.SSLError):
        return _tls_trouble(cause)
    if isinstance(cause, ConnectionResetError) or "closed by server" in str(error):
        return _CLOSED, "is it a Redis server? with TLS, use rediss://HOST"
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused", _CHECK_SERVER
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror, _CHECK_SERVER
    return str(error) or type(error).__name__, _CHECK_SERVER


def _tls_trouble(error: ssl.SSLError) -> tuple[str, str]:
    text = str(error).lower().replace("_", " ")
    if "wrong version number" in text or "record layer failure" in text:
        return "it does not use TLS", "use redis:// without TLS"
    wants_certificate = ("certificate required", "handshake failure", "unknown ca", "bad certificate")
    if any(words in text for words in wants_certificate):
        return "it requires a client certificate", _GIVE_CERTIFICATE
    return f"TLS: {error.reason or error}", "check its certificate and its TLS versions"
