"""Several processes open the same new SQLite file at the same moment; errors name the disk that is at fault."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skitter import sqlite_driver
from skitter.cluster.sqlite_file import SqliteFile
from skitter.sqlite_driver import error_text, use_wal


async def test_a_coordinator_is_opened_while_another_process_makes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locks"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as maker:
        path.chmod(0o600)
        maker.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(sqlite_driver.time, "sleep", lambda _: maker.execute("ROLLBACK"))
        file = SqliteFile(path)
        await file.open()
        await file.close()
        assert not maker.in_transaction, "it was opened after the other had ended its transaction"


def test_a_file_that_stays_busy_is_given_up_in_time(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as holder,
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other,
    ):
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use_wal(other, 0.1)
        assert time.monotonic() - began >= 0.1
        holder.execute("ROLLBACK")
        use_wal(other, 0.1)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize(
    ("name", "trouble", "text"),
    [
        # What SQLite says where the memory that its processes share finds no room.
        ("SQLITE_IOERR_SHMSIZE", errno.ENOSPC, "the disk is full"),
        ("SQLITE_CANTOPEN", errno.EDQUOT, "the disk is full"),
        ("SQLITE_IOERR_WRITE", errno.EROFS, "the disk is read-only"),
        ("SQLITE_IOERR_READ", None, "disk I/O error"),
        ("SQLITE_FULL", None, "the disk is full"),
        ("SQLITE_BUSY", errno.ENOSPC, "disk I/O error"),
    ],
)
def test_an_error_names_the_disk_that_is_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, trouble: int | None, text: str
) -> None:
    made = tempfile.TemporaryFile

    def written(**options: Any) -> Any:
        if trouble is not None:
            raise OSError(trouble, os.strerror(trouble))
        return made(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", written)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = name
    assert error_text(error, tmp_path) == text
