"""The sample of mutants changes the inside of functions, and puts the changed code in the place of the old."""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from pathlib import Path
from types import FunctionType

from mutation_sample import changed_code, chosen_tests, codes, mutants_of, put_in_place

SOURCE = """
LIMIT = 3

class Room:
    def has(self, guests, is_open=True):
        if not is_open:
            self.close()
            return guests + 1
        return guests < 5 and is_open
"""
CHANGES = {
    (6, "not removed"), (7, "call removed"), (8, "return None"), (8, "Add -> Sub"), (8, "1 -> 2"), (8, "1 -> 0"),
    (9, "return None"), (9, "And -> Or"), (9, "Lt -> LtE"), (9, "5 -> 6"), (9, "5 -> 4"),
}  # fmt: skip


def test_mutants_are_inside_of_functions_and_every_one_has_other_code(tmp_path: Path) -> None:
    file = tmp_path / "room.py"
    file.write_text(SOURCE)
    mutants = mutants_of(file, "src/skitter/sinks/room.py")
    assert {(mutant.line, mutant.change) for mutant in mutants} == CHANGES
    before = dict(codes(compile(ast.parse(SOURCE), str(file), "exec")))
    assert list(before) == [("Room.has", 5)]
    for mutant in mutants:
        assert changed_code(file, mutant) != before


def test_a_mutant_is_what_runs_once_it_is_in_place(tmp_path: Path) -> None:
    file = tmp_path / "room.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("room", file)
    assert spec is not None
    assert spec.loader is not None
    room = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(room)
    has: FunctionType = room.Room.has
    functions = {(str(file), "Room.has", 5): [has]}
    mutant = next(each for each in mutants_of(file, "src/skitter/sinks/room.py") if each.change == "Lt -> LtE")
    assert not room.Room().has(5)
    assert put_in_place(str(file), changed_code(file, mutant), functions)
    assert room.Room().has(5)
    assert not put_in_place(str(file), {("Room.lost", 1): has.__code__}, functions)


def test_a_tree_without_the_line_of_a_mutant_has_no_code_of_it(tmp_path: Path) -> None:
    file = tmp_path / "room.py"
    file.write_text(SOURCE)
    mutant = mutants_of(file, "src/skitter/sinks/room.py")[0]
    file.write_text("def has(): ...\n")
    assert changed_code(file, mutant) == {}


def test_tests_that_execute_few_lines_run_first_and_the_time_is_limited() -> None:
    seconds = {"slow": 30.0, "wide": 1.0, "narrow": 1.0}
    assert chosen_tests(list(seconds), Counter(slow=9, wide=5, narrow=2), seconds) == ["narrow", "wide"]
