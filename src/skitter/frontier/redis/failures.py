"""What a Redis may answer instead of an answer: in words, with what to do, and whether waiting helps."""

from __future__ import annotations

from typing import NamedTuple

from redis import exceptions

from skitter.errors import FormatError, FrontierError


class Failure(NamedTuple):
    """A driver's error as the frontier tells it."""

    error: FrontierError
    passes: bool
    """It may be over by itself: a frontier that has worked before waits for that."""


_BY_WORD: dict[str, tuple[str, str, bool]] = {
    # The first word of an error reply: (what happened, hint, passes).
    "NOAUTH": ("asks for a password", "give one: redis://:PASSWORD@HOST, or redis://USER:PASSWORD@HOST", False),
    "WRONGPASS": ("refuses the user or the password", "check redis://USER:PASSWORD@HOST", False),
    "NOPERM": (
        "does not let this user do what skitter needs",
        "allow it EVALSHA, SCRIPT and the keys skitter:*",
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
    "NOMASTER": ("has sentinels that know no such master", "check redis+sentinel://HOST,HOST/MASTER", False),
}


def explain(error: Exception, where: str) -> Failure:
    """The error of the driver, mapped. ``where`` is the address without its password."""
    if isinstance(error, exceptions.ResponseError | exceptions.AuthenticationError | exceptions.BusyLoadingError):
        return _reply(error, where)
    if isinstance(error, exceptions.InvalidResponse) or "Protocol error" in str(error):
        return Failure(FrontierError(f"not a Redis: {where}", hint="check host and port of --frontier"), False)
    reason = _reason(error)
    hint = "is it running? check host, port and network" if "TLS" not in reason else "redis:// speaks without TLS"
    return Failure(FrontierError(f"the frontier cannot be reached: {where}: {reason}", hint=hint), True)


def _reply(error: Exception, where: str) -> Failure:
    text = str(error)
    word = _word_of(error, text)
    if word in _BY_WORD:
        what, hint, passes = _BY_WORD[word]
        return Failure(FrontierError(f"the Redis at {where} {what}", hint=hint), passes)
    if "unknown command" in text.lower():
        return Failure(
            FrontierError(
                f"a server without what skitter needs: {where}: {text}",
                hint="Redis 6.2 or newer, or Valkey; of sentinels, redis+sentinel://HOST,HOST/MASTER",
            ),
            False,
        )
    if word == "WRONGTYPE" or "user_script" in text or "Error running script" in text:
        return Failure(
            FormatError(f"what lies there was not written by this skitter: {where}: {text}", hint="use another /DB"),
            False,
        )
    return Failure(FrontierError(f"Redis says: {text}: {where}", hint="run with -v for the details"), False)


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
    if isinstance(error, exceptions.AuthenticationError):
        return "WRONGPASS" if "invalid" in text.lower() or "wrongpass" in text.lower() else "NOAUTH"
    return text.partition(" ")[0]


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    if isinstance(error, exceptions.TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
