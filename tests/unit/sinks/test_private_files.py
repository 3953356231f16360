"""Files that sinks make for themselves are not put where somebody else has prepared the place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from skitter.errors import SinkError
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.rejects_file import RejectsFile

STRANGER = 65534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")


def test_rejects_do_not_follow_a_link_that_was_planted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / ".skitter").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SinkError, match="a symbolic link instead of a private file or folder"):
        RejectsFile(".skitter/j.rejects.jsonl").add([])
    assert list((tmp_path / "elsewhere").iterdir()) == []


@is_root
def test_locks_are_not_taken_in_a_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"skitter-locks-{os.getuid()}"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    with pytest.raises(SinkError, match="belongs to another user"):
        MachineLock("j", "postgresql://x").take()
    assert list(folder.iterdir()) == []
