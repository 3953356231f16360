"""Pages that would cost the square of their length are cut; other pages are not touched."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.extract import pathological_markup
from skitter.extract.open_elements_scan import MAX_DEPTH
from skitter.extract.pathological_markup import cut_pathological
from skitter.extract.response import Response

Respond = Callable[..., Response]

BOMBS = {
    "deep": b"<div>" * 1_000_000,
    "deep and closed": b"<div>" * 200_000 + b"</div>" * 200_000,
    "deep lists": b"<ul><li>" * 200_000,
    "open formatting": b"".join(b"<p><font size=%d>" % n for n in range(20_000)),
    "words as attributes": b"if a <b then " + b" ".join(b"word%d" % n for n in range(200_000)),
    # Made to hide.
    "closed by what closes nothing": b"<div></x>" * 200_000,
    "closed in a comment": b"<div><!--</div>-->" * 100_000,
    "closed in a value": b"<div a='>' b='</div>'>" * 100_000,
    "closed in a script": b"<div><script></div></script>" * 100_000,
    "closed behind a wall": b"".join(b"<b x=%d><object></b></object><p>x" % n for n in range(50_000)),
    "self-closing, it seems": b"<div/>" * 200_000,
    "among honest markup": b"<p>some <a href=/y>text</a> and more</p><div>" * 50_000,
    "attributes that look like tags": b"<p " + b"".join(b'a%d="<p></p>" ' % n for n in range(200_000)),
    "attributes of one body": b"".join(b"<body a%d>" % n for n in range(100_000)),
    "attributes of an end tag": b"</p " + b" ".join(b"a%d" % n for n in range(200_000)),
    "attributes of a script": b"<script " + b" ".join(b"a%d" % n for n in range(200_000)),
    "names": b"".join(b"<t%d></t%d>" % (n, n) for n in range(200_000)),
    "names of attributes": b"".join(b"<p a%d>" % n for n in range(200_000)),
    "ends of formatting": b"".join(b"<b x=%d>" % n for n in range(2000)) + b"<div>" * 200 + b"</b>" * 100_000,
    "foreign": b"<svg><foreignObject>" * 100_000,
    "templates": b"<template>" * 200_000,
    "options with something in them": b"<optgroup><i a='>'>" * 50_000,
    "the same, closed behind a wall": b"<b><object></b></object>" * 50_000,
    "members of two lists": b"<dt><li>" * 100_000,
    "groups of nothing": b"<optgroup><!--</optgroup>-->" * 50_000,
    "annotations without their base": b"<rt><i x=1>" * 100_000,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_cut_and_what_stands_before_it_is_read(respond: Respond, bomb: bytes) -> None:
    started = time.process_time()
    response = respond(b"<title>t</title><a href=/x>x</a>" + bomb + b"<a href=/y>")
    assert response.title == "t"
    assert "http://site.test/x" in response.links()
    assert response.css("a")[0].text.startswith("x")
    response.css("div:has(b)")
    # Uncut, each takes from ten seconds to hours.
    assert time.process_time() - started < 10


HONEST = {
    "a table without end tags": b"<table>" + b"<tr><td>1<td>2<td>3\n" * 20_000,
    "lines": b"<pre>" + b"a line<br>\n" * 50_000,
    "a list without end tags": b"<ul>" + b"<li><a href=/x>x</a>\n" * 20_000,
    "paragraphs without end tags": b"<p>some text\n" * 50_000,
    "the same font, never closed": b"<p><font color=red>text\n" * 20_000,
    "images": b"<img src=x><input name=y>" * 20_000,
    "balanced": b"<div><p><b>x</b></p></div>" * 20_000,
    "a large attribute": b"<div data-state='" + b'{"a": [1, 2, 3], "b": "c d"} ' * 20_000 + b"'>x</div>",
    "a large script": b"<script>" + b"var a = 1; if (a) { b = c; } " * 20_000 + b"</script>",
    "a list of terms": b"<dl>" + b"<dt>a<dd>b <i>c</i>\n" * 20_000 + b"</dl>",
    "options": b"<select>" + b"<option value=1>one\n" * 20_000 + b"</select>",
    "groups of options": (b"<select>" + b"<optgroup><option>a<option>b" * 20 + b"</select>") * 500,
    "text": b"nothing but words " * 20_000,
    "nested as deep as allowed": b"<div>" * (MAX_DEPTH - 1),
}


@pytest.mark.parametrize("body", HONEST.values(), ids=HONEST)
def test_an_honest_page_is_not_cut(body: bytes) -> None:
    assert cut_pathological(b"<html><body>" + body) == b"<html><body>" + body


@pytest.mark.parametrize("seed", range(5))
def test_wherever_the_windows_lie(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bomb is seen, and no honest page is cut."""
    monkeypatch.setattr("skitter.extract.pathological_markup._random", random.Random(seed))
    for name, bomb in BOMBS.items():
        assert len(cut_pathological(bomb)) < len(bomb), name
    for name, body in HONEST.items():
        assert cut_pathological(body) is body, name


def test_nulls_are_dropped() -> None:
    assert cut_pathological(b"<p>a\0b\0" * 10) == b"<p>ab" * 10


def test_a_small_page_is_not_looked_at() -> None:
    body = b"<div>" * 3000
    assert cut_pathological(body) is body


TAGS = (
    b'<b>|<b class="x">|</b>|<B>|<div>|</div>|<body a>|</body>|<p>|</p>|<td>|<br/>|text'
    b'|<li>|</li>|</ul>|<option>|</option>|</select>|<i "x>|</i>'
).split(b"|")


@given(st.lists(st.sampled_from(TAGS), max_size=80).map(b"".join))
def test_the_short_look_never_spares_what_the_long_one_finds(window: bytes) -> None:
    opened: Counter[bytes] = Counter()
    crossed = pathological_markup._crossed(pathological_markup._TAG.findall(window), opened)
    if pathological_markup._has_few_tags(window):
        assert crossed + sum(map(abs, opened.values())) <= pathological_markup._SUSPICIOUS
