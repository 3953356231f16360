"""SQL fragments and driver messages that the databases share. The SQL never contains values."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.errors import SinkError, UsageError
from skitter.sinks.targets import Target


def quoted(name: str, mark: str = '"') -> str:
    """Quote a name."""
    return mark + name.replace(mark, mark + mark) + mark


def names(columns: Sequence[str], mark: str = '"') -> str:
    return ", ".join(quoted(column, mark) for column in columns)


def on_conflict(key: Sequence[str], columns: Sequence[str]) -> str:
    """Return the ON CONFLICT clause of SQLite and PostgreSQL."""
    settings = ", ".join(f"{quoted(column)} = excluded.{quoted(column)}" for column in columns if column not in key)
    return f"ON CONFLICT ({names(key)}) DO " + (f"UPDATE SET {settings}" if settings else "NOTHING")


def table_of(target: Target) -> str:
    """Return the table that a target names."""
    if not target.fragment or "\0" in target.fragment:
        raise UsageError(f"no table is named: {target.name}", hint=f"put it after #, as in {target.name}#items")
    return target.fragment


def driver_message(target: Target, error: BaseException) -> str:
    """Return a driver's message in one line, without the password."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.replace(target.password, "…") if target.password else text


def certificate_error(target: Target, error: BaseException, option: str) -> SinkError | None:
    """Return the error for a refused certificate, which waiting does not help; None for another error."""
    _, found, reason = driver_message(target, error).partition("certificate verify failed: ")
    if not found:
        return None
    return SinkError(
        f"the certificate of the server is refused: {target.name}: {reason.partition(' (_ssl')[0]}",
        hint=f"?{option}=FILE names the certificate authority to trust",
    )
