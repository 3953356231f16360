"""Two processes deliver to one target, and the one that has it stands still for longer than its ownership lasts.

The other takes over; the first, when it goes on, finds that out before it writes anything, and its progress is refused.
A batch that it was writing in that very instant comes to the target twice, which one with keys or transactions does
not show.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from test_sink_kill import committed

from rig.processes import HANG_SECONDS, ForkedProcess
from rig.soak import chance_of

OWNER = Path(__file__).with_name("sink_owner.py")


def start(frontier: Path, table: Path, name: str) -> subprocess.Popen[bytes]:
    words = [str(frontier), str(table), name]
    return ForkedProcess(str(OWNER), words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def heard(process: subprocess.Popen[bytes], letters: str) -> str:
    """What it says, up to the last of these letters in this order."""
    said = ""
    assert process.stdout
    for letter in letters:
        while (data := process.stdout.read(1).decode()) != letter:
            assert data, (said, process.communicate())
            said += data
        said += letter
    return said


def stand_still(process: subprocess.Popen[bytes], *files: Path) -> None:
    """Stop it, but not inside a transaction: SQLite would keep everybody waiting, and nobody could take over."""
    while True:
        process.send_signal(signal.SIGSTOP)
        # Until it really stands: the signal is on its way for a moment.
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("T", "Z"):
            pass
        if not any(map(is_locked, files)):
            return
        process.send_signal(signal.SIGCONT)


def is_locked(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        database.execute("ROLLBACK")
        return False


@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.soak)])
async def test_an_owner_that_stood_still_doubles_and_loses_nothing(tmp_path, rounds):
    chance = chance_of(f"owners {rounds}")
    frontier, table = tmp_path / "x.db", tmp_path / "table.db"
    expected = await committed(frontier, "table://", rounds * 60, chance)
    running = start(frontier, table, "owner 0")
    heard(running, "o.")
    lost = 0
    for number in range(1, rounds + 1):
        heard(running, "." * chance.randrange(1, 4))
        stand_still(running, frontier, table)
        other = start(frontier, table, f"owner {number}")
        # Mostly it has to wait ("w"); where it takes long to start, the ownership is over by then.
        heard(other, "o.")
        running.send_signal(signal.SIGCONT)
        out, errors = running.communicate(timeout=HANG_SECONDS)
        assert running.returncode == 0, errors
        assert out.endswith(b"l"), out
        lost += 1
        running = other
    out, errors = running.communicate(timeout=HANG_SECONDS)
    assert out.endswith(b"d"), (out, errors)
    with closing(sqlite3.connect(table)) as database:
        rows = [row for (row,) in database.execute("SELECT id FROM rows")]
        doubled = database.execute("SELECT key, count(*) n FROM log GROUP BY key HAVING n > 1").fetchall()
    assert sorted(rows) == sorted(record["id"] for record in expected)
    # At most the batch that each of them was in the middle of.
    assert len(doubled) <= 5 * lost
    assert all(count == 2 for _, count in doubled)
