"""A password in an address that was mistyped is in nothing that is said about it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skitter.app import collect_outputs, open_frontier
from skitter.app.frontiers import is_redis
from skitter.cli import _explain, main
from skitter.cli.job_ref import JobRef
from skitter.cli.output import note
from skitter.cli.what_to_crawl import find_source
from skitter.fetch.proxy import read_proxy
from skitter.model.secrets import of_address, shown_address
from skitter.redis_driver.address import parse_address
from skitter.sinks.targets import shown, sink_of

MARKER = "HUNTERtwo2"
SIGNS = ":/@?#\\=&%.,;[]-+ \t\nx1"


def frontier(text: str) -> None:
    note(JobRef(text, "j").shown)
    if is_redis(text):
        note(str(parse_address(text)))
    else:
        open_frontier(text, "j", create=False)


def proxy(text: str) -> None:
    note(repr(read_proxy(text)))


def output(text: str) -> None:
    note(shown(text))
    for target in collect_outputs(typed=[(text, False)], job="j"):
        note(f"{target.name} {target!r}")
        sink_of(target)


def seed(text: str) -> None:
    # A URL that is one after all is crawled, and shown as URLs are.
    find_source([text], {}, Path("/nowhere"), ["spiders"])


def extra_word(text: str) -> None:
    main(["pause", text])


def command(text: str) -> None:
    main([text])


def setting(text: str) -> None:
    main(["crawl", "--set", text])


SERVERS = (
    "redis://user:{}@h:1/0",
    "redis://:{}@h:1",
    "rediss://:{}@h",
    "redis+sentinel://:{}@h:1/m",
    "unix://:{}@/run/x",
)
FRONTIERS = (*SERVERS, "redis+cluster://user:{}@h:1,g:2?shards=4", "redis+sentinel://u:{}@h:1,g:2/m/3")
PROXIES = ("http://user:{}@p.example:3128", "https://user:{}@p.example", "socks5h://u:{}@[::1]:1080")
OUTPUTS = (
    *(f"{server}#stream" for server in SERVERS),
    "postgresql://user:{}@h:5432/db#items",
    "postgres://user:{}@h/db?sslmode=require#items",
    "mysql://user:{}@h/db#items",
    "mongodb://user:{}@h:1,g:2/db?w=1#items",
    "mongodb+srv://user:{}@h/db#items",
    "amqp://user:{}@h:5672/vhost#exchange",
    "kafka+ssl://user:{}@h:1,g:2#topic",
)
SEEDS = ("https://user:{}@a.example/x", "http://user:{}@a.example:8080/x?y=1#z")
KINDS: list[tuple[Callable[[str], None], tuple[str, ...]]] = [
    (frontier, FRONTIERS),
    (proxy, PROXIES),
    (output, OUTPUTS),
    (seed, SEEDS),
    *((kind, (*FRONTIERS, *PROXIES, *OUTPUTS, *SEEDS)) for kind in (extra_word, command, setting)),
]
BY_ITSELF = (frontier, proxy, output)
"""What says nothing of the password, also where nobody knows what was typed: in a script."""


@st.composite
def mistyped(draw: st.DrawFn) -> tuple[Callable[[str], None], str]:
    """An address with one character too few, too many, doubled or in the place of its neighbour."""
    kind, forms = draw(st.sampled_from(KINDS))
    before, _, behind = draw(st.sampled_from(forms)).partition("{}")
    is_before = draw(st.booleans()) if behind else True
    part = before if is_before else behind
    place = draw(st.integers(0, len(part)))
    left, right = part[:place], part[place:]
    edits = {
        "delete": left + right[1:],
        "double": left + right[:1] + right,
        "swap": left + right[1:2] + right[:1] + right[2:],
        "insert": left + draw(st.sampled_from(SIGNS)) + right,
    }
    part = edits[draw(st.sampled_from(sorted(edits)))]
    return kind, f"{part}{MARKER}{behind}" if is_before else f"{before}{MARKER}{part}"


def said(kind: Callable[[str], None], text: str, arguments: list[str]) -> str:
    """All that comes out."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            kind(text)
        except Exception as error:  # noqa: BLE001  as the command line has it
            _explain(error, arguments)
    return out.getvalue()


@given(mistyped())
@example((frontier, f"redis:/:{MARKER}@h"))
@example((frontier, f"{MARKER}@h:6379"))
@example((output, f"postgres:u:{MARKER}@h/db"))
@example((output, f"amqp//u:{MARKER}@h"))
@example((output, f"mongodb+srv:u:{MARKER}@h/db"))
@example((proxy, f"http://u:{MARKER}p.example:3128"))
@example((proxy, f"http://u:1/{MARKER}@p.example:3128"))
@example((frontier, f"redis://u:1#{MARKER}@h/0"))
@example((setting, f"redis://u:1#{MARKER}@h/0"))
@example((output, f"postgres://u:12/{MARKER}@h/db"))
@example((seed, f"http:/u:{MARKER}@h/"))
@example((seed, f"https://u:{MARKER}h/"))
def test_a_mistyped_address_is_told_without_its_password(case: tuple[Callable[[str], None], str]) -> None:
    kind, text = case
    command_line = ["crawl", "-v", "--option", text]
    told = said(kind, text, command_line)
    assert MARKER.lower() not in told.lower(), (text, told)
    if kind in BY_ITSELF:
        told = said(kind, text, [])
        assert MARKER.lower() not in told.lower(), (text, told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("redis:/:hush@h", "redis:/***@h"),
        ("redis:///:hush@h", "redis:///***@h"),
        ("postgres:u:hush@h/db", "postgres:***@h/db"),
        ("amqp//u:hush@h", "amqp//***@h"),
        ("redis://:hushh:6379/0", "redis://***/0"),
        ("redis://:hu/sh@h", "redis://***@h"),
        ("http://u/:hush@p:1", "http://***@p:1"),
        ("http://u:hush@h/@page", "http://***@h/@page"),
        ("--set=proxy=http:/u:hush@h", "--set=proxy=http:/***@h"),
        ("redis+sentinel://a:1,b:2/m?sentinel_password=hush", "redis+sentinel://a:1,b:2/m?sentinel_password=***"),
        # Not addresses, or without a user.
        *(
            (text, text)
            for text in (
                "out@2x.jsonl",
                "results/out@2x.jsonl",
                "sqlite:dir@2/j.db",
                "https://medium.com/@user/post",
                "https://[::1]:8080/x",
                "redis://a:1,b:2/0",
                "s3://bucket/a@b-{job}-{part}.jsonl",
                "unix:///run/redis@6380.sock",
                "mail=me@example.com",
                "mailto:me@example.com",
                "python:module:Class",
                "books.py:Books",
                "",
                "@",
            )
        ),
    ],
)
def test_an_address_is_shown_as_far_as_it_may_be(text: str, told: str) -> None:
    assert shown_address(text) == told
    assert shown_address(told) == told
    if text == told:
        assert of_address(text) == []


@pytest.mark.parametrize("text", ["a@", ":", "://", "@", "a=", "--a=", "a,", "[", "a:1,", "//", "a+"])
def test_any_text_is_looked_at_in_proportion_to_its_length(text: str) -> None:
    long = (text * 200_000)[:200_000]
    for form in (long, f"redis://{long}", f"redis://{long}@h"):
        shown_address(form)  # minutes where it is quadratic; pytest-timeout ends it
        of_address(form)
