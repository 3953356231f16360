"""Adversarial input for a regular expression, made from the expression itself: a prefix, a pump many times, a suffix.

The engine of Python goes back and tries again. Where two parts of an expression can take the same text, or where a
search that failed at one place fails again at the next, its work grows with the square of the input, or faster. Such
input is found by trying: texts that lead to each repeat of the expression, pumped with what it repeats and with each
kind of character that the expression tells apart. The slowest ones are then timed at two sizes.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from itertools import product
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

FIRST_CHARS = (24, 34, 48, 68, 96)
"""Exponential work shows at one of these sizes before it takes for ever."""
SCREENING_CHARS = 600
SCREENING_SECONDS = 0.05
"""For so few characters, and for a few times as many, this is no linear work."""
SUSPICIOUS_SECONDS = 0.001
"""Linear work on so few characters takes a twentieth of it."""
SMALL_CHARS, LARGE_CHARS = 2_000, 8_000
GROWTH = 8.0
"""From small to large: 4 is linear, 16 quadratic."""
LARGE_SECONDS = 0.01
"""What is quicker at the large size is linear: half of 8,000 squared are 32 million steps."""
SLOWEST = 4
MAX_TRIED = 1_500

_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
_COMMON = " \t\n\r\f\v\0aZz059_.:;,=\"'`<>/\\?&#%@!$()[]{}*+-|~^\x7f\x85\xa0\xe9\u0130\u2028\u200b\ufeff\uff1d\ud800"
_WORD, _DIGIT, _SPACE = re.compile(r"\w"), re.compile(r"\d"), re.compile(r"\s")
_KINDS = {"WORD": _WORD, "DIGIT": _DIGIT, "SPACE": _SPACE}


class Pump(NamedTuple):
    """One family of inputs."""

    prefix: str
    pump: str
    suffix: str

    def of(self, chars: int) -> str:
        """The member of about this length."""
        return self.prefix + self.pump * max(1, chars // len(self.pump)) + self.suffix


class Finding(NamedTuple):
    """Input on which the work grows faster than its length."""

    pump: Pump
    operation: str
    small_seconds: float
    large_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.pump.prefix!r} + {self.pump.pump!r} * n + {self.pump.suffix!r}: "
            f"{self.small_seconds:.4f} s, then {self.large_seconds:.4f} s for four times the input"
        )


class Attack:
    """All inputs tried on one operation of an expression."""

    def __init__(self, pattern: re.Pattern[Any], operation: str, seed: int = 1) -> None:
        self._pattern = pattern
        self._operation = operation
        self._run = _run(pattern, operation)
        self._slowest: list[Pump] = []
        self.finding = self._find(seed)
        """The first input found on which the operation is not linear."""

    def longest(self, chars: int) -> tuple[float, Pump]:
        """The input that takes longest at this size, of those that took longest at a small one."""
        return max((self._seconds(pump, chars, 1), pump) for pump in self._slowest[:2])

    def _find(self, seed: int) -> Finding | None:
        screened: list[tuple[float, Pump]] = []
        for pump in pumps(self._pattern, seed):
            seconds = 0.0
            for chars in (*FIRST_CHARS, SCREENING_CHARS):
                seconds = self._seconds(pump, chars, 1)
                if seconds > SCREENING_SECONDS:
                    return Finding(pump, self._operation, 0.0, seconds)
            screened.append((seconds, pump))
            if seconds > SUSPICIOUS_SECONDS and (finding := self._confirmed(pump)):
                return finding
        self._slowest = [pump for _, pump in sorted(screened, reverse=True)[:SLOWEST]]
        return next(filter(None, map(self._confirmed, self._slowest)), None)

    def _confirmed(self, pump: Pump) -> Finding | None:
        small = self._seconds(pump, SMALL_CHARS, 2)
        if small > SCREENING_SECONDS:
            # Cubic work would take minutes at the large size.
            return Finding(pump, self._operation, 0.0, small)
        large = self._seconds(pump, LARGE_CHARS, 2)
        is_bad = large > LARGE_SECONDS and large > GROWTH * small
        return Finding(pump, self._operation, small, large) if is_bad else None

    def _seconds(self, pump: Pump, chars: int, times: int) -> float:
        """The least of some times, in seconds of this thread: what else the machine does is not counted."""
        text: Any = pump.of(chars)
        if isinstance(self._pattern.pattern, bytes):
            text = text.encode("latin-1", "replace")
        best = float("inf")
        for _ in range(times):
            began = time.thread_time()
            self._run(text)
            best = min(best, time.thread_time() - began)
        return best


def _run(pattern: re.Pattern[Any], operation: str) -> Callable[[Any], object]:
    if operation in ("match", "fullmatch", "search"):
        return getattr(pattern, operation)  # type: ignore[no-any-return]

    def everywhere(text: Any) -> None:
        for _ in pattern.finditer(text):
            pass

    return everywhere


# ---- what to try


def pumps(pattern: re.Pattern[Any], seed: int = 1) -> Iterator[Pump]:
    """Families of input for an expression: always the same ones for the same seed.

    All that lead to a repeat and pump what it may take, all that begin the expression again and again, and a sample of
    everything else.
    """
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    found = _Found()
    found.explore(list(tree), [""])
    alphabet = _alphabet(found.accepted)
    ends = ["", *(end for end in "\0!;" if end in alphabet), alphabet[-1]]
    pieces = sorted({*alphabet, *filter(None, found.samples)})
    certain = {Pump(*one) for one in product(found.repeats, pieces, dict.fromkeys(ends))}
    certain |= {Pump("", *one) for one in product(filter(None, found.ways), dict.fromkeys(ends))}
    chance = random.Random(seed)
    ways, more = list(found.ways), [*pieces, *("".join(pair) for pair in product(alphabet, repeat=2))]
    wanted = max(MAX_TRIED - len(certain), MAX_TRIED // 4)
    others = {Pump(*map(chance.choice, (ways, more, ["", *alphabet]))) for _ in range(wanted)}
    return iter(sorted(certain | others))


def _alphabet(accepted: list[_Characters]) -> list[str]:
    """One character of each kind: those that every part of the expression treats alike are one kind."""
    kinds: dict[tuple[bool, ...], str] = {}
    literals = (chr(code) for characters in accepted for code in characters.literals)
    for character in dict.fromkeys((*literals, *_COMMON)):
        kinds.setdefault(tuple(accepts(character) for accepts in accepted), character)
    return list(kinds.values())


class _Characters:
    """A set of an expression: what it names, and whether it takes a character."""

    def __init__(self, items: list[tuple[Any, Any]]) -> None:
        self._negated = bool(items) and items[0][0] is _constants.NEGATE
        self._items = items[1:] if self._negated else items
        self.literals = [av for op, av in self._items if op is _constants.LITERAL]
        self.literals += [end for op, av in self._items if op is _constants.RANGE for end in av]

    def __call__(self, character: str) -> bool:
        return any(_takes(item, character) for item in self._items) is not self._negated

    def one(self) -> str:
        """A character that it takes."""
        named = "" if self._negated else "".join(map(chr, self.literals))
        return next((each for each in named + "a1 " + _COMMON if self(each)), "")


def _takes(item: tuple[Any, Any], character: str) -> bool:
    op, value = item
    if op is _constants.LITERAL:
        return chr(value).lower() == character.lower()
    if op is _constants.RANGE:
        return value[0] <= ord(character) <= value[1]
    if op is _constants.CATEGORY:
        name = str(value).removeprefix("CATEGORY_")
        return bool(_KINDS[name.removeprefix("NOT_")].match(character)) is not name.startswith("NOT_")
    return True


class _Found:
    """What an expression is made of."""

    def __init__(self) -> None:
        self.ways: dict[str, None] = {"": None}
        """Texts that lead to its parts."""
        self.repeats: dict[str, None] = {}
        """Those that lead to a repeat."""
        self.samples: dict[str, None] = {}
        """What is repeated, once."""
        self.accepted: list[_Characters] = []

    def explore(self, nodes: list[tuple[Any, Any]], before: list[str]) -> list[str]:
        """The texts that lead behind these nodes, a few of them, where ``before`` lead to them."""
        for op, value in nodes:
            after = before
            if op in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY):
                taken = _characters(op, value)
                self.accepted.append(taken)
                after = [text + taken.one() for text in before]
            elif op in _REPEATS:
                after = self._repeated(*value, before)
            elif op is _constants.BRANCH:
                after = [text for branch in value[1] for text in self.explore(list(branch), before)]
            elif op is _constants.SUBPATTERN:
                after = self.explore(list(value[-1]), before)
            elif op is _constants.ATOMIC_GROUP:
                after = self.explore(list(value), before)
            elif op in (_constants.ASSERT, _constants.ASSERT_NOT):
                self.explore(list(value[1]), before)
            before = list(dict.fromkeys(after))[:12]
            self.ways.update(dict.fromkeys(before[:2]))
        return before

    def _repeated(self, low: int, high: int, inside: Any, before: list[str]) -> list[str]:
        if high > 4:
            # The shortest way, and one through all that may be left out.
            self.repeats.update(dict.fromkeys((min(before, key=len), max(before, key=len))))
        once = _Found().explore(list(inside), [""])
        self.samples.update(dict.fromkeys(once))
        through = self.explore(list(inside), before)
        after = [text + once[0] * max(low - 1, 0) for text in through]
        return after if low else [*before, *after]


def _characters(op: Any, value: Any) -> _Characters:
    if op is _constants.IN:
        return _Characters(value)
    if op is _constants.LITERAL:
        return _Characters([(op, value)])
    if op is _constants.NOT_LITERAL:
        return _Characters([(_constants.NEGATE, None), (_constants.LITERAL, value)])
    return _Characters([(_constants.NEGATE, None)])
