"""SQL that the databases have in common. Values never stand in it."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.errors import SinkError, UsageError
from skitter.sinks.targets import Target


def quoted(name: str, mark: str = '"') -> str:
    """A name in quotes, whatever it holds."""
    return mark + name.replace(mark, mark + mark) + mark


def names(columns: Sequence[str], mark: str = '"') -> str:
    return ", ".join(quoted(column, mark) for column in columns)


def on_conflict(key: Sequence[str], columns: Sequence[str]) -> str:
    """The end of an INSERT, as SQLite and PostgreSQL write it."""
    settings = ", ".join(f"{quoted(column)} = excluded.{quoted(column)}" for column in columns if column not in key)
    return f"ON CONFLICT ({names(key)}) DO " + (f"UPDATE SET {settings}" if settings else "NOTHING")


def table_of(target: Target) -> str:
    """The table that a target names."""
    if not target.fragment or "\0" in target.fragment:
        raise UsageError(f"no table is named: {target.name}", hint=f"put it behind #, as in {target.name}#items")
    return target.fragment


def told(target: Target, error: BaseException) -> str:
    """What a driver says, in one line, and without the password wherever a server may have put it."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.replace(target.password, "…") if target.password else text


def unbelieved(target: Target, error: BaseException, option: str) -> SinkError | None:
    """The error for a certificate that is refused; waiting does not help. None: it is something else."""
    _, found, reason = told(target, error).partition("certificate verify failed: ")
    if not found:
        return None
    return SinkError(
        f"the certificate of the server is refused: {target.name}: {reason.partition(' (_ssl')[0]}",
        hint=f"?{option}=FILE names the certificate authority to believe",
    )
