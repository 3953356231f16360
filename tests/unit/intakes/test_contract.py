"""Files keep the contract of intakes, and so does the standard input as far as a pipe can."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from skitter.errors import IntakeError, RequestError, UsageError
from skitter.intakes.contract import DeadLetter, Intake
from skitter.intakes.file import LineIntake
from skitter.intakes.messages import MAX_BODY_BYTES, to_request
from skitter.intakes.sources import intake_of, parse_source
from skitter.testing import IntakeContract, IntakePlace


class FilePlace(IntakePlace):
    def __init__(self, folder: Path) -> None:
        self.path = folder / "urls.txt"
        self.path.touch()

    def intake(self) -> Intake:
        return intake_of(parse_source(f"file:{self.path}"))

    def put(self, *bodies: bytes) -> None:
        with self.path.open("ab") as file:
            file.writelines(body + b"\n" for body in bodies)

    def dead_letters(self) -> Sequence[tuple[bytes, str]]:
        letters = Path(f"{self.path}.dead-letters.jsonl").read_text(encoding="utf-8").splitlines()
        return [(letter["body"].encode(), letter["reason"]) for letter in map(json.loads, letters)]

    def kill(self, intake: Intake) -> None:
        # What the kernel does with the descriptors of a process that was killed.
        intake.close()


class FollowedFilePlace(FilePlace):
    def intake(self) -> Intake:
        return intake_of(parse_source(f"file:{self.path}?follow=yes"))


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> IntakePlace:
    made: IntakePlace = request.cls.place(tmp_path)
    return made


class TestFile(IntakeContract):
    place = FilePlace


class TestFollowedFile(IntakeContract):
    place = FollowedFilePlace


def opened(path: Path, mark: bytes = b"", query: str = "") -> Intake:
    intake = intake_of(parse_source(f"file:{path}{query}"))
    intake.open(mark)
    return intake


def test_blank_lines_and_comments_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"\n# a list\r\nhttps://a.example/\r\n   \nhttps://b.example/ \n")
    intake = opened(path)
    assert [message.body for message in intake.read(10, 1.0)] == [b"https://a.example/", b"https://b.example/"]
    assert intake.is_exhausted
    intake.close()


def test_a_last_line_without_an_end_is_read_and_the_file_may_grow_later(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"https://a.example/\nhttps://b.example/")
    intake = opened(path)
    mark = intake.ack(intake.read(10, 1.0))
    intake.close()
    with path.open("ab") as file:
        file.write(b"\nhttps://c.example/\n")
    intake = opened(path, mark)
    assert [message.body for message in intake.read(10, 1.0)] == [b"https://c.example/"]
    intake.close()


def test_of_a_followed_file_an_unfinished_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"https://a.example/\nhttps://b.")
    intake = opened(path, query="?follow=yes")
    assert [message.body for message in intake.read(10, 0.1)] == [b"https://a.example/"]
    assert intake.read(10, 0.1) == []
    assert not intake.is_exhausted
    with path.open("ab") as file:
        file.write(b"example/\n")
    assert [message.body for message in intake.read(10, 1.0)] == [b"https://b.example/"]
    intake.close()


def test_one_process_at_a_time_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.touch()
    intake = opened(path)
    with pytest.raises(IntakeError, match="another process is reading this file"):
        opened(path)
    intake.close()
    opened(path).close()


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"https://a.example/\n")
    with pytest.raises(IntakeError, match="shorter than the part already read"):
        opened(path, b"20")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(IntakeError, match=r"cannot be read|not a regular file"):
        opened(path)


def test_of_a_line_that_is_too_long_only_the_beginning_is_held(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"x" * (5 * MAX_BODY_BYTES) + b"\nhttps://a.example/\n")
    intake = opened(path)
    long, following = [*intake.read(1, 5.0), *intake.read(1, 5.0)]
    with pytest.raises(RequestError, match="longer than"):
        to_request(long)
    assert len(long.body) == MAX_BODY_BYTES + 1
    assert (following.body, following.id) == (b"https://a.example/", str(5 * MAX_BODY_BYTES + 1))
    intake.close()


def test_dead_letters_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"nonsense\n")
    Path(f"{path}.dead-letters.jsonl").mkdir()
    intake = opened(path)
    (message,) = intake.read(10, 1.0)
    with pytest.raises(IntakeError, match="dead letters cannot be written"):
        intake.dead_letter([DeadLetter(message, "not a URL")])
    intake.close()


def test_a_dead_letter_that_is_no_text_is_kept_in_base64(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(b"\xff\xfe\n")
    intake = opened(path)
    (message,) = intake.read(10, 1.0)
    intake.dead_letter([DeadLetter(message, "not UTF-8")])
    letter = json.loads(Path(f"{path}.dead-letters.jsonl").read_text())
    assert (letter["body_base64"], letter["reason"], letter["id"]) == ("//4=", "not UTF-8", "0")
    intake.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def test_of_a_pipe_what_was_not_acknowledged_comes_again_when_it_is_opened_again(
    pipe: tuple[int, int], tmp_path: Path
) -> None:
    reading, writing = pipe
    intake = LineIntake("-", lambda _: reading, tmp_path / "letters")
    intake.open(b"")
    os.write(writing, b"https://a.example/\nhttps://b.exa")
    found = intake.read(10, 1.0)
    assert [message.body for message in found] == [b"https://a.example/"]
    assert intake.read(10, 0.05) == []
    intake.open(b"")
    os.write(writing, b"mple/\n")
    os.close(writing)
    found = [*intake.read(1, 1.0), *intake.read(10, 1.0)]
    assert [message.body for message in found] == [b"https://a.example/", b"https://b.example/"]
    assert intake.read(10, 1.0) == []
    assert intake.is_exhausted
    assert intake.ack(found) == b""


def test_an_option_that_a_file_does_not_have_is_refused(tmp_path: Path) -> None:
    for query in ("?follow=maybe", "?fallow=yes"):
        with pytest.raises(UsageError):
            intake_of(parse_source(f"file:{tmp_path}/urls{query}"))
