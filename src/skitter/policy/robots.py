"""Parser and matcher of robots.txt by RFC 9309, and the meaning of a missing or unreadable file.

Pure: the bytes come from elsewhere, and so does the decision to fetch them again. Never raises, whatever a
server calls its robots.txt. Why the parser is skitter's own: docs/adr/0022-robots-sitemaps-and-directives.md.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from skitter.agent import product_token

MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a file that are read (RFC 9309 2.5)."""
MAX_CRAWL_DELAY_SECONDS = 86_400.0
"""A file may slow the crawl to a page a day, not stop it: that is what Disallow is for."""
MAX_RULES = 25_000
"""Different ones for this crawler. A file of 500 KB has 20,000 lines of usual length; one with more rules than this is
not searched for those that count: it forbids everything."""
MAX_WORK = 5_000_000
"""For one question to the rules with wildcards: about a character that is compared, or a few nanoseconds. It is enough
for 10,000 such rules and a URL of 200 characters."""
_WORK_PER_PART = 64
_WORK_PER_CHAR = 16
"""A character of the path is compared with a sixteenth of a part's characters, or fewer."""
ROBOTS_PATH = "/robots.txt"

_NAME = re.compile(r"[A-Za-z_-]+")
_WIDER_NAME = re.compile(r"[^\s/();,*]+")
"""The product token of a User-agent line (RFC 9309 2.2.1), and that of a crawler whose name has digits: ``mybot2``."""
_EVERYBODY = re.compile(r"\*(?!\S)")
_UTF_16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_LINE_END = re.compile(r"\r\n|\n|\r")
"""Not ``splitlines``, for which a form feed in a comment ends the line and what follows is a rule."""
_FIELD = re.compile(r"(user[\s-]?agent|[a-z-]+)\s*(?::|\s)(.*)", re.IGNORECASE | re.DOTALL)
_FIELDS = {
    "user-agent": "agent",
    "useragent": "agent",
    "user agent": "agent",
    "allow": "allow",
    "disallow": "disallow",
    "dissallow": "disallow",
    "dissalow": "disallow",
    "disalow": "disallow",
    "diasllow": "disallow",
    "disallaw": "disallow",
    "crawl-delay": "delay",
    "crawldelay": "delay",
    "sitemap": "sitemap",
    "site-map": "sitemap",
}
"""Field names, common misspellings such as ``Dissallow`` included."""
_MAX_SHOWN = 100


class RobotsVerdict(msgspec.Struct, frozen=True):
    """Result of an attempt to read robots.txt; ``text`` is kept for ``rules`` only."""

    kind: Literal["rules", "allow_all", "unknown"]
    """``unknown``: nothing of the host may be fetched until a later attempt says more."""
    text: bytes = b""


def robots_verdict(status: int | None, body: bytes = b"") -> RobotsVerdict:
    """Return the verdict for a status, or for None when the host could not be reached.

    A redirect counts as absent: the caller has already followed the chain as far as it would. A 304 says that some
    copy is still good; nobody asked for that, and it tells nothing of what the copy says.
    """
    if status is None or status in (304, 429) or status >= 500:
        return RobotsVerdict("unknown")
    if 200 <= status < 300:
        return RobotsVerdict("rules", _capped(body))
    return RobotsVerdict("allow_all")


class Rule(NamedTuple):
    """One parsed Allow or Disallow line."""

    octets: int
    """Of its pattern: among rules that match, the longest decides."""
    allow: bool
    rest: tuple[str, ...]
    """What must follow its literal beginning, in this order, with anything between."""
    ends: bool
    """The last of ``rest`` must be the end of the path (``$``)."""
    line: int
    text: str
    group: str

    def __str__(self) -> str:
        return f"robots.txt line {self.line}: {self.text} (group: {self.group})"

    def work(self, path_chars: int) -> int:
        """What ``matches`` may take for so much of a path, in the unit of MAX_WORK."""
        if not self.rest:
            return 1
        return _WORK_PER_PART * len(self.rest) + path_chars * (1 + self.octets // _WORK_PER_CHAR)

    def matches(self, path: str, start: int) -> bool:
        """Whether the path goes on as the rule wants; its literal beginning, ``start`` characters, was found."""
        if not self.rest:
            return not self.ends or start == len(path)
        *middle, last = self.rest
        for part in middle:
            # The leftmost place leaves most for what follows: no pattern can make this go back and try again.
            start = path.find(part, start)
            if start == -1:
                return False
            start += len(part)
        return path.endswith(last, start) if self.ends else path.find(last, start) != -1


class Robots:
    """The rules of one robots.txt for one crawler."""

    __slots__ = ("_lengths", "_rules", "_work", "_work_per_char", "crawl_delay", "sitemaps", "size")

    def __init__(self) -> None:
        self.crawl_delay: float | None = None
        self.sitemaps: list[str] = []
        self.size = 0
        """How many rules there are: each is some hundred bytes."""
        # By literal beginning, those that count more first. A file may have ten thousand rules, and a path is asked
        # about with one look for each length that beginnings have, which are no longer together than the file.
        self._rules: dict[str, list[Rule]] = {}
        self._lengths: list[int] = []
        # Of all rules with wildcards: few files have so many that a question need count what it takes.
        self._work = self._work_per_char = 0

    @classmethod
    def parse(cls, text: bytes | str, user_agent: str) -> Robots:
        """Rules from a file's content; what cannot be understood forbids nothing."""
        if isinstance(text, bytes):
            text = _capped(text).decode("utf-8-sig", "replace")
        robots = cls()
        robots._read(text, product_token(user_agent).lower())
        return robots

    @classmethod
    def allow_all(cls) -> Robots:
        """Return the rules of a host without a robots.txt."""
        return cls()

    def allows(self, url: str) -> bool:
        """Whether this crawler may fetch the URL."""
        rule = self.deciding(url)
        return rule is None or rule.allow

    def deciding(self, url: str) -> Rule | None:
        """Return the rule that decides about this URL; None if no rule matches, so it is allowed.

        Where that would take more than ``MAX_WORK``, the URL is forbidden, by what was found or by a rule that says so.
        """
        if not self._rules:
            return None
        path = _path_of(url)
        if path == ROBOTS_PATH:
            return None
        best: Rule | None = None
        counted = self._work + self._work_per_char * len(path) > MAX_WORK
        work = 0
        # The longest beginnings first: what is found there leaves less to look at.
        for place in range(bisect_right(self._lengths, len(path)) - 1, -1, -1):
            length = self._lengths[place]
            for rule in self._rules.get(path[:length], ()):
                # Of equally long ones an Allow wins (RFC 9309 2.2.2).
                if best is not None and rule[:2] <= best[:2]:
                    break
                if counted:
                    work += rule.work(len(path) - length)
                    if work > MAX_WORK:
                        return best if best is not None and not best.allow else _unread(rule, "too many rules with *")
                if rule.matches(path, length):
                    best = rule
                    break
        return best

    def _read(self, text: str, token: str) -> None:
        """All groups of our name are one; those of ``*`` count where there is none."""
        rules: dict[str, dict[tuple[str, bool], tuple[int, str, str]]] = {}
        delays: dict[str, float] = {}
        agents: dict[str, str] = {}
        in_rules = False
        for number, field, value, line in _lines(text):
            if field == "agent":
                if in_rules:
                    agents, in_rules = {}, False
                for name in (_EVERYBODY.match(value), _NAME.match(value), _WIDER_NAME.match(value)):
                    if name and (agent := name[0].lower()) in (token, "*"):
                        agents[agent] = name[0]
                        rules.setdefault(agent, {})
            elif field == "sitemap":
                self.sitemaps.append(value)
            elif field == "delay":
                # For those named so far, and not the end of the list of names: other records do not interfere.
                if (seconds := _seconds(value)) is not None:
                    for agent in agents:
                        delays[agent] = max(seconds, delays.get(agent, 0.0))
            else:
                in_rules = True
                if not value:
                    continue
                for agent, shown in agents.items():
                    rules[agent].setdefault((value, field == "allow"), (number, line, shown))
        ours = token if token in rules else "*"
        self.crawl_delay = delays.get(ours)
        self._keep(rules.get(ours, {}))

    def _keep(self, rules: dict[tuple[str, bool], tuple[int, str, str]]) -> None:
        for (pattern, allow), (number, line, group) in rules.items():
            beginning, rule = _rule(pattern, allow, number, line, group)
            if len(rules) > MAX_RULES:
                self._rules = {"": [_unread(rule, f"more than {MAX_RULES} rules")]}
                break
            self._rules.setdefault(beginning, []).append(rule)
            if rule.rest:
                self._work += rule.work(0)
                self._work_per_char += rule.work(1) - rule.work(0)
        for found in self._rules.values():
            if len(found) > 1:
                found.sort(key=_precedence, reverse=True)
        self.size = sum(map(len, self._rules.values()))
        self._lengths = sorted({len(beginning) for beginning in self._rules})


def _precedence(rule: Rule) -> tuple[int, bool]:
    return rule[:2]


def _unread(rule: Rule, reason: str) -> Rule:
    """What stands for rules that were not read to their end, from this one on: they may forbid."""
    return rule._replace(octets=0, allow=False, rest=(), ends=False, text=f"{reason}, which count as Disallow: /")


def _lines(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Number, field, value and text of every line that means something."""
    for number, line in enumerate(_LINE_END.split(text), 1):
        said = line.partition("#")[0].strip()
        match = _FIELD.match(said) if said else None
        field = _FIELDS.get(" ".join(match[1].lower().split())) if match else None
        if match and field:
            yield number, field, match[2].strip(), said


def _rule(pattern: str, allow: bool, number: int, line: str, group: str) -> tuple[str, Rule]:
    """A rule by its literal beginning."""
    ends = pattern.endswith("$")
    parts, in_query = [], False
    for part in (pattern[:-1] if ends else pattern).split("*"):
        parts.append(_normal(part, in_query=in_query))
        in_query = in_query or "?" in part
    beginning, *rest = parts
    octets = len(beginning) + sum(map(len, rest)) + len(rest) + ends
    # Two asterisks say what one says.
    rest = [*filter(None, rest[:-1]), *rest[-1:]]
    shown = line if len(line) <= _MAX_SHOWN else line[:_MAX_SHOWN] + "…"
    return beginning, Rule(octets, allow, tuple(rest), ends, number, shown, group)


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, MAX_CRAWL_DELAY_SECONDS) if math.isfinite(seconds) and seconds >= 0 else None


def _capped(text: bytes) -> bytes:
    """Return the part of the file that is read, in UTF-8."""
    read = text[:MAX_ROBOTS_BYTES]
    if codec := _UTF_16.get(read[:2]):
        read = read[2:].decode(codec, "replace").encode()
    if len(text) <= MAX_ROBOTS_BYTES and len(read) <= MAX_ROBOTS_BYTES:
        return read
    # A line cut in two would say something else: "Disallow: /private" must not become "Disallow: /".
    end = max(read.rfind(b"\n", 0, MAX_ROBOTS_BYTES), read.rfind(b"\r", 0, MAX_ROBOTS_BYTES))
    return read[: end + 1]


# ---- the one form in which paths and patterns are compared

_PLAIN = re.compile(r"[A-Za-z0-9\-._~/!&'()+,;=:@?]*", re.ASCII)
_TO_NORMALISE = re.compile(r"(?:%[0-9A-Fa-f]{2})++|[^A-Za-z0-9\-._~/!&'()+,;=:@?%]++|%", re.ASCII)
_ESCAPES = tuple(f"%{octet:02X}" for octet in range(256))
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_NORMAL = tuple(chr(octet) if octet in _UNRESERVED else escape for octet, escape in enumerate(_ESCAPES))
"""What an escaped octet becomes."""
_SAME_IN_QUERY = ("/", ":", "?", "@")
"""Escaped or not, these say the same in a query: RFC 9309 2.2.2 has https:// as an example."""


def _path_of(url: str) -> str:
    """What robots.txt is asked about: path and query of an absolute URL, in the normal form."""
    slash = url.find("/", 8)
    return _normal(url[slash:].partition("#")[0]) if slash != -1 else "/"


def _normal(text: str, *, in_query: bool = False) -> str:
    """Escapes of what needs none undone, all others in capitals, everything else that is not plain escaped.

    ``*`` and ``$`` come out escaped: where they mean something, they were taken out before.
    """
    if _PLAIN.fullmatch(text):
        return text
    text = _TO_NORMALISE.sub(_normal_octets, text)
    path, mark, query = ("", "", text) if in_query else text.partition("?")
    if "%" in query:
        for character in _SAME_IN_QUERY:
            query = query.replace(_ESCAPES[ord(character)], character)
    return path + mark + query


def _normal_octets(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == "%" and len(found) > 1:
        return "".join([_NORMAL[octet] for octet in bytes.fromhex(found.replace("%", ""))])
    return "".join([_ESCAPES[octet] for octet in found.encode("utf-8", "replace")])
