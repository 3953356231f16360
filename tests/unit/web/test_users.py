"""The file of users: changed by several commands at once, and on a disk without room."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import UsageError
from skitter.web import file_changes
from skitter.web.users import UserFile

PASSWORD = "correct horse battery"


def test_two_commands_that_begin_together_lose_no_user_and_end_no_session(tmp_path: Path) -> None:
    path = tmp_path / "users"
    first, second = UserFile(path, create=True), UserFile(path, create=True)
    first.put("anna", PASSWORD, "admin", [])
    anna = UserFile(path).check_password("anna", PASSWORD)
    assert anna is not None
    cookie = UserFile(path).begin_session(anna)
    second.put("ben", PASSWORD, "viewer", ["shop-*"])
    assert [user.name for user in UserFile(path).users] == ["anna", "ben"]
    assert UserFile(path).session_of(cookie) is not None
    assert first.remove("ben")
    assert not second.remove("ben")


def test_a_disk_without_room_keeps_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users"
    users = UserFile(path, create=True)
    users.put("anna", PASSWORD, "admin", [])
    before = path.read_bytes()

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"the users cannot be written: .*No space left"):
        users.put("ben", PASSWORD, "viewer", [])
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["users", "users.lock"]


def test_a_master_reads_a_file_that_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_changes, "LOOK_SECONDS", 0.0)
    path = tmp_path / "users"
    command = UserFile(path, create=True)
    command.put("anna", PASSWORD, "admin", [])
    master = UserFile(path)
    anna = master.check_password("anna", PASSWORD)
    assert anna is not None
    cookie = master.begin_session(anna)
    command.put("anna", "another password", "viewer", [])
    assert master.session_of(cookie) is None
    assert master.check_password("anna", PASSWORD) is None
