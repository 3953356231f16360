"""What a Redis may answer instead of an answer: in words, with what to do, and whether waiting helps."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from redis import exceptions

from skitter.errors import DamageError, FormatError, FrontierError


class OtherFormatError(FormatError):
    """The job was written by another version: whole, but not for this one to read."""


class Failure(NamedTuple):
    """A driver's error as the frontier tells it."""

    error: FrontierError
    passes: bool
    """It may be over by itself, or somebody mends it: a frontier that has worked before waits for that."""


_BY_WORD: dict[str, tuple[str, str, bool]] = {
    # The first word of an error reply: (what happened, hint, passes).
    "NOAUTH": ("asks for a password", "give one: redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST", True),
    "WRONGPASS": ("refuses the user or the password", "check redis://USER:PASSWORD@HOST", True),
    "NOPERM": (
        "does not let this user do what skitter needs",
        "ACL: ~skitter:* -@all +@read +@write -@dangerous +@connection +eval +evalsha +info +time +wait +cluster|nodes",
        False,
    ),
    "LOADING": ("is still loading its data", "wait until it is up", True),
    "READONLY": ("is a read-only replica", "give the address of the master", True),
    "OOM": ("is out of memory", "raise maxmemory, or free some: skitter jobs, skitter drop; nothing is lost", True),
    "MISCONF": ("cannot save to its disk and takes no writes", "free some disk space there; nothing is lost", True),
    "MASTERDOWN": ("is a replica that has lost its master", "give the address of the master", True),
    "CLUSTERDOWN": ("is part of a cluster that is down", "wait until the cluster is up", True),
    "TRYAGAIN": ("is moving these keys", "wait", True),
    "NOREPLICAS": ("has too few replicas to take writes", "see min-replicas-to-write there", True),
    "BUSY": ("is busy with a script", "wait, or look at SCRIPT KILL there", True),
    "MOVED": ("is a node of a Redis Cluster", "name some of its nodes: redis+cluster://HOST,HOST", False),
    "ASK": ("is moving these keys to another node", "wait", True),
    "CROSSSLOT": ("is a node of a Redis Cluster", "name some of its nodes: redis+cluster://HOST,HOST", False),
    "MAXCLIENTS": ("has too many clients", "raise maxclients there, or start fewer workers", True),
    # The words below are skitter's own.
    "NOMASTER": ("has sentinels that know no such master", "check redis+sentinel://HOST,HOST/MASTER", True),
    "SENTINELAUTH": ("has sentinels that refuse the password", "give ?sentinel_password_file=FILE", True),
    "ISSENTINEL": ("is a sentinel", "name the master too: redis+sentinel://HOST,HOST/MASTER", False),
    "TOOOLD": ("is too old", "Redis 6.2 or newer, or Valkey", False),
    "FEWREPLICAS": (
        "has too few replicas that keep up",
        "lower ?wait_replicas=, or look at INFO replication there",
        True,
    ),
}
_SILENT = "no answer in time"
_HINT = "is it running? check host, port and network"
_CLOSED = "it closes the connection"
_TLS_HINTS = {
    # A server without TLS takes a TLS greeting for the beginning of a command, and waits for the rest.
    _SILENT: "is it running, and does it speak TLS? redis:// speaks without",
    # Its alert may be lost with the connection.
    _CLOSED: "does it ask for a certificate of the client? give one that it believes: ?cert=FILE&key=FILE",
}
_TOLD = ("NOPERM", "TOOOLD", "FEWREPLICAS")
"""Whose own words help."""
_INSIDE_SCRIPTS = {
    # What a script's command was refused for, as the error of the script says it.
    "non local key in a cluster": "TRYAGAIN",
    "while the cluster is down": "CLUSTERDOWN",
    "while the cluster is in readonly": "CLUSTERDOWN",
    "The user executing the script can't": "NOPERM",
    "ACL failure in script": "NOPERM",
}


def explain(error: Exception, where: str) -> Failure:
    """The error of the driver, mapped. ``where`` is the address without its password."""
    if isinstance(error, exceptions.ResponseError | exceptions.AuthenticationError | exceptions.BusyLoadingError):
        return _reply(error, where)
    text = str(error)
    if "max number of clients" in text:
        return _known("MAXCLIENTS", text, where)
    if isinstance(error, exceptions.InvalidResponse) or "Protocol error" in text:
        # While a job runs, somebody else may have its place for a moment: a proxy, or a neighbour's server.
        return Failure(FrontierError(f"not a Redis: {where}", hint="check host and port of --frontier"), True)
    reason, hint = _reason(error)
    if where.startswith("rediss"):
        hint = _TLS_HINTS.get(reason, hint)
    return Failure(FrontierError(f"the frontier cannot be reached: {where}: {reason}", hint=hint), True)


def _reply(error: Exception, where: str) -> Failure:
    text = str(error)
    word = _word_of(error, text)
    if word in _BY_WORD:
        return _known(word, text, where)
    if "unknown command" in text.lower():
        return Failure(
            FrontierError(
                f"a server without what skitter needs: {where}: {text}",
                hint="Redis 6.2 or newer, or Valkey; of sentinels, redis+sentinel://HOST,HOST/MASTER",
            ),
            False,
        )
    if word == "WRONGTYPE" or "user_script" in text or "Error running script" in text:
        # Words of 1_job.lua. Any other failure of a script is due to what it has read.
        kind = OtherFormatError if "the job has another format" in text else DamageError
        return Failure(
            kind(f"what lies there was not written by this skitter: {where}: {text}", hint="use another /DB"), False
        )
    return Failure(FrontierError(f"Redis says: {text}: {where}", hint="run with -v for the details"), False)


def _known(word: str, text: str, where: str) -> Failure:
    what, hint, passes = _BY_WORD[word]
    told = f": {text.removeprefix(word).strip()}" if word in _TOLD else ""
    return Failure(FrontierError(f"the Redis at {where} {what}{told}", hint=hint), passes)


def _word_of(error: Exception, text: str) -> str:
    """The driver has taken the first word off some replies and made a class of it."""
    kinds: list[tuple[type[Exception], str]] = [
        (exceptions.BusyLoadingError, "LOADING"),
        (exceptions.ReadOnlyError, "READONLY"),
        (exceptions.OutOfMemoryError, "OOM"),
        (exceptions.NoPermissionError, "NOPERM"),
        (exceptions.MasterDownError, "MASTERDOWN"),
        (exceptions.ClusterDownError, "CLUSTERDOWN"),
        (exceptions.TryAgainError, "TRYAGAIN"),
        (exceptions.MovedError, "MOVED"),
        (exceptions.AskError, "ASK"),
    ]
    for kind, word in kinds:
        if isinstance(error, kind):
            return word
    # A script's error quotes the reply that a command inside it got.
    for word in _BY_WORD:
        if text.startswith((word, f"-{word}")) or f" -{word} " in text or f": {word} " in text:
            return word
    for words, word in _INSIDE_SCRIPTS.items():
        if words in text:
            return word
    if isinstance(error, exceptions.AuthenticationError):
        return "WRONGPASS" if "invalid" in text.lower() or "wrongpass" in text.lower() else "NOAUTH"
    return text.partition(" ")[0]


def _reason(error: Exception) -> tuple[str, str]:
    """Why there is no connection, and what to do."""
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return _SILENT, _HINT
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, exceptions.RedisError) and (cause.__cause__ or cause.__context__):
        # The sentinels' own trouble.
        return _reason(cause)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message}", "?ca=FILE names the certificate authority"
    if isinstance(cause, ssl.SSLError):
        return _tls_reason(cause)
    if isinstance(cause, ConnectionResetError) or "closed by server" in str(error):
        return _CLOSED, "is it a Redis? one with TLS is rediss://HOST"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror, _HINT
    return str(error) or type(error).__name__, _HINT


def _tls_reason(error: ssl.SSLError) -> tuple[str, str]:
    text = str(error).lower().replace("_", " ")
    if "wrong version number" in text or "record layer failure" in text:
        return "it does not speak TLS", "redis:// speaks without TLS"
    if (
        "certificate required" in text
        or "handshake failure" in text
        or "unknown ca" in text
        or "bad certificate" in text
    ):
        return "it asks for a certificate of the client", "give one that it believes: ?cert=FILE&key=FILE"
    return f"TLS: {error.reason or error}", "check its certificate and its TLS versions"
