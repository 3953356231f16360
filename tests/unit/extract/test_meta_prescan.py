"""The encoding that a page declares is found as browsers find it: html5lib's cases, and the standard's own steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skitter.extract.charset_labels import codec_of
from skitter.extract.encoding import decode, find_encoding
from skitter.extract.meta_prescan import PRESCAN_BYTES, late_declaration, prescan

FOLDER = Path(__file__).parent / "html5lib_encoding"
FALLBACK = "cp1252"
"""What those cases expect where nothing is declared. Here such a page is guessed."""


def cases() -> list[tuple[str, bytes, str]]:
    found = []
    for file in sorted(FOLDER.glob("*.dat")):
        for number, case in enumerate(file.read_bytes().split(b"#data\n")[1:]):
            data, _, name = case.partition(b"\n#encoding\n")
            codec = codec_of(name.decode())
            assert codec is not None
            found.append((f"{file.stem}-{number}", data, codec))
    return found


CASES = cases()
BY_SCRIPT = [name for name, data, _ in CASES if b"ISO-8859-' + '2" in data]
"""Scripts are not run, so what they put together declares nothing."""


def test_all_cases_are_there() -> None:
    assert (len(CASES), len(BY_SCRIPT)) == (83, 1)


@pytest.mark.parametrize(("name", "data", "codec"), [pytest.param(*case, id=case[0]) for case in CASES])
def test_case_of_html5lib(name: str, data: bytes, codec: str) -> None:
    found = prescan(data) or late_declaration(data)
    if name in BY_SCRIPT:
        assert found is None
    elif codec == FALLBACK and found is None:
        assert decode(data, find_encoding(data)) == data.decode(FALLBACK)
    else:
        assert find_encoding(data) == codec


def test_the_prescan_itself_ends_after_its_bytes() -> None:
    late = [(data, codec) for _, data, codec in CASES if len(data) > 1100 and codec != FALLBACK]
    assert len(late) >= 7
    for data, codec in late:
        assert (prescan(data), late_declaration(data)) == (None, codec)


# ---- the steps of the standard, byte by byte

SPACE = b"\t\n\f\r "


class EndedError(Exception):
    """The text is over: the prescan is given up."""


class Steps:
    """The prescan as the standard words it."""

    def __init__(self, data: bytes) -> None:
        self.data = data[:PRESCAN_BYTES]
        self.position = 0

    def byte(self) -> bytes:
        if self.position >= len(self.data):
            raise EndedError
        return self.data[self.position : self.position + 1]

    def skip(self, which: bytes) -> None:
        while self.byte() in [bytes([each]) for each in which]:
            self.position += 1

    def run(self) -> str | None:
        try:
            while True:
                if (codec := self.step()) is not None:
                    return codec
                self.position += 1
        except EndedError:
            return None

    def step(self) -> str | None:
        rest = self.data[self.position :].lower()
        self.byte()
        if rest.startswith(b"<!--"):
            end = self.data.find(b"-->", self.position + 2)
            if end == -1:
                raise EndedError
            self.position = end + 2
        elif rest[:5] == b"<meta" and rest[5:6] and rest[5:6] in [bytes([each]) for each in SPACE + b"/"]:
            self.position += 5
            return self.meta()
        elif rest[:1] == b"<" and rest[1:].removeprefix(b"/")[:1].isalpha():
            while self.byte() not in [bytes([each]) for each in SPACE + b">"]:
                self.position += 1
            while self.attribute() is not None:
                pass
        elif rest[:2] in (b"<!", b"</", b"<?"):
            while self.byte() != b">":
                self.position += 1
        return None

    def meta(self) -> str | None:
        seen: set[bytes] = set()
        got_pragma, need_pragma, charset = False, None, ""
        while (attribute := self.attribute()) is not None:
            name, value = attribute
            if name in seen:
                continue
            seen.add(name)
            if name == b"http-equiv":
                got_pragma = got_pragma or value == b"content-type"
            elif name == b"content" and charset == "" and (found := of_content(value)) is not None:
                charset, need_pragma = found, True
            elif name == b"charset":
                charset, need_pragma = codec_of(value.decode("latin-1")) or "failure", False
        if need_pragma is None or (need_pragma and not got_pragma) or charset == "failure":
            return None
        return "utf-8" if charset.startswith("utf-16") else charset

    def attribute(self) -> tuple[bytes, bytes] | None:
        self.skip(SPACE + b"/")
        if self.byte() == b">":
            return None
        name = value = b""
        while True:
            if self.byte() == b"=" and name:
                break
            if self.byte() in (b"\t", b"\n", b"\f", b"\r", b" "):
                self.skip(SPACE)
                if self.byte() != b"=":
                    return name, value
                break
            if self.byte() in (b"/", b">"):
                return name, value
            name += self.byte().lower()
            self.position += 1
        self.position += 1
        self.skip(SPACE)
        quote = self.byte()
        if quote in (b'"', b"'"):
            self.position += 1
            while self.byte() != quote:
                value += self.byte().lower()
                self.position += 1
            self.position += 1
            return name, value
        while self.byte() not in [bytes([each]) for each in SPACE + b">"]:
            value += self.byte().lower()
            self.position += 1
        return name, value


def of_content(value: bytes) -> str | None:
    position = 0
    while (found := value.find(b"charset", position)) != -1:
        rest = value[found + 7 :].lstrip(SPACE)
        position = found + 7
        if not rest.startswith(b"="):
            continue
        rest = rest[1:].lstrip(SPACE)
        if rest[:1] in (b'"', b"'"):
            label, quote, _ = rest[1:].partition(rest[:1])
            return codec_of(label.decode("latin-1")) if quote else None
        for end in SPACE + b";":
            rest = rest.partition(bytes([end]))[0]
        return codec_of(rest.decode("latin-1"))
    return None


PIECES = [
    *(
        b"<meta",
        b"<META/",
        b"<metal",
        b"</meta ",
        b" charset",
        b"charset",
        b"=",
        b" = ",
        b'"',
        b"'",
        b"koi8-r",
        b"UTF-16",
        b">",
    ),
    *(
        b"/",
        b" ",
        b"\n",
        b"\f",
        b"<",
        b"<!--",
        b"-->",
        b"--",
        b"-",
        b"<!",
        b"<?xml",
        b"</",
        b"</ ",
        b"<p",
        b" a=",
        b"x",
        b"\x00",
    ),
    *(
        b" http-equiv=",
        b"Content-Type",
        b" content=",
        b'"text/html; charset=big5"',
        b"charset=euc-kr",
        b";",
        b"<meta charset=bogus>",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=25))
@example([b"<p", b" a=", b"'", b"<meta", b" charset", b"=", b"koi8-r", b">"])
@example([b"<!--", b">", b"<meta", b" charset", b"=", b"koi8-r", b">"])
def test_the_prescan_takes_the_steps_of_the_standard(pieces: list[bytes]) -> None:
    for data in (b"".join(pieces), b"<!DOCTYPE html>" + b"".join(pieces) + b"\"'> -->><meta charset=big5>"):
        expected = Steps(data).run()
        if expected is not None or not data.startswith(b"<?xml"):
            assert prescan(data) == expected


@given(st.binary(max_size=1500), st.integers(0, 1100))
def test_no_bytes_make_it_raise(noise: bytes, place: int) -> None:
    for data in (noise, b"<meta " * (place // 6) + noise, noise[:place] + b"<meta charset=" + noise[place:]):
        assert isinstance(find_encoding(data), str)
