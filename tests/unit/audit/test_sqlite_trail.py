"""The trail in a SQLite file: what somebody has put where no entry belongs is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skitter.app.audit import TrailFilter, Trails
from skitter.audit.entry import DONE, Draft, sealed
from skitter.audit.sqlite_table import BEFORE_ALL, TABLE
from skitter.errors import TrailMissingError
from skitter.frontier.sqlite import sqlite_frontier
from skitter.model.audit import Actor

DRAFT = Draft(actor=Actor("cli:ada@desk"), action="pause", outcome=DONE)


@pytest.mark.parametrize("seq", [0, -7, BEFORE_ALL + 1, BEFORE_ALL])
async def test_no_reader_sees_an_entry_before_the_first_that_a_verification_does_not(tmp_path: Path, seq: int) -> None:
    file = tmp_path / "jobs.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(TABLE)
    async with Trails(f"sqlite:{file}") as trails:
        await trails.append(DRAFT)
        assert (await trails.verify()).ok
        forged = sealed(DRAFT, None, 0.0)
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("INSERT INTO audit VALUES (?, ?, ?)", (seq, forged.body, forged.hash))
        shown = [row.seq for row in await trails.rows(TrailFilter())]
        verified = await trails.verify()
        assert seq not in shown if verified.ok else verified.problems
        assert verified.ok == (seq == BEFORE_ALL)


@pytest.mark.parametrize("is_made", [False, True], ids=["no file", "a file without tables"])
async def test_a_store_that_is_being_made_is_left_alone(tmp_path: Path, is_made: bool) -> None:
    """A frontier makes its file first and its tables after that: with another table in it, it would be refused."""
    file = tmp_path / "jobs.db"
    if is_made:
        file.touch()
    async with Trails(f"sqlite:{file}") as trails:
        with pytest.raises(TrailMissingError, match="no store yet"):
            await trails.append(DRAFT)
        frontier = sqlite_frontier(file, "shop")
        await trails.append(DRAFT)
        assert [row.action for row in await trails.rows(TrailFilter())] == ["pause"]
        await frontier.close()
