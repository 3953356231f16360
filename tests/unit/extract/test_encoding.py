# ruff: noqa: RUF001 - the samples are in other scripts
"""Bodies become text in the browsers' order of belief, and no label and no bytes make that raise."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.extract.charset_guess import guess
from skitter.extract.charset_labels import CODECS, codec_of
from skitter.extract.encoding import decode, find_encoding
from skitter.extract.response import Response

LABELS = [
    ("iso-8859-1", "cp1252"),
    ("ISO_8859-1:1987", "cp1252"),
    ("US-ASCII", "cp1252"),
    ("latin1", "cp1252"),
    (" UTF8 ", "utf-8"),
    ("gb2312", "gb18030"),
    ("x-sjis", "cp932"),
    ("ks_c_5601-1987", "cp949"),
    ("windows-1251", "cp1251"),
    ("KOI8-R", "koi8_r"),
    ("unicode", "utf-16-le"),
]


@pytest.mark.parametrize(("label", "codec"), LABELS)
def test_label_means_what_browsers_made_of_it(label: str, codec: str) -> None:
    assert codec_of(label) == codec


@pytest.mark.parametrize(
    "label", ["utf-7", "utf-32", "rot13", "zlib", "hex", "idna", "hz-gb-2312", "", "nonsense", "é"]
)
def test_label_outside_the_table_is_unknown(label: str) -> None:
    assert codec_of(label) is None


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_the_table_exists_and_replaces_what_it_cannot_read(codec: str) -> None:
    codecs.lookup(codec)
    assert isinstance(decode(bytes(range(256)) * 3, codec), str)


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        (b"\xef\xbb\xbf<meta charset=koi8-r>", "text/html; charset=windows-1251", "utf-8"),
        ("\ufeff<p>é".encode("utf-16-le"), "text/html; charset=utf-8", "utf-16-le"),
        ("\ufeff<p>é".encode("utf-16-be"), "", "utf-16-be"),
        (b"<meta charset=koi8-r>", "text/html; charset=windows-1251", "cp1251"),
        (b"<meta charset=koi8-r>", 'text/html;CHARSET = "Windows-1251" ; x=y', "cp1251"),
        (b"<meta charset=koi8-r>", "text/html; charset=unheard-of", "koi8_r"),
        (b"<meta charset=koi8-r>", "text/html", "koi8_r"),
        (b"<META name=x content='a'><MeTa Charset = 'shift_jis' >", "text/html", "cp932"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=euc-kr">', "text/html", "cp949"),
        (b'<?xml version="1.0" encoding="ISO-8859-2"?><r/>', "text/html", "iso8859_2"),
        (b'<?xml version="1.0" encoding="ISO-8859-2"?><meta charset=koi8-r>', "text/html", "koi8_r"),
        (b'<meta content="text/html; charset=koi8-r"><meta charset=x-user-defined>', "text/html", "cp1252"),
        ('<?xml version="1.0"?><r/>'.encode("utf-16-le"), "text/html", "utf-16-le"),
        (b"x" * 1024 + b"<meta charset=koi8-r>\xc1\xd4", "text/html", "koi8_r"),
        (b"<p>" * 500 + b"<META http-equiv=content-type content='a; CHARSET=\"koi8-r\"'>", "text/html", "koi8_r"),
        (b" " * 70_000 + b"<meta charset=koi8-r>", "text/html", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=big5>", "text/html", "big5hkscs"),
        (b"<meta charset=utf-16>", "text/html", "utf-8"),
        (b"<meta charset=utf-7>+ADw-script+AD4-", "text/html", "utf-8"),
        (b" " * 1024 + b"<script>'<meta charset=koi8-r>'</script>", "text/html", "utf-8"),
        (b"<p>plain", "text/html; charset=utf-16", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_mark_then_header_then_declaration_then_guess(body: bytes, content_type: str, codec: str) -> None:
    assert find_encoding(body, content_type) == codec


@pytest.mark.parametrize(
    ("content_type", "codec"),
    [
        ("text/html; charset=koi8-r", "koi8_r"),
        ("text/html;charset='koi8-r'", "koi8_r"),
        ('text/html;charset="koi8-r"', "koi8_r"),
        ('text/html;charset="koi8\\-r"', "koi8_r"),
        ('text/html;charset="koi8-r', "koi8_r"),
        ("text/html;charset=koi8-r;charset=big5", "koi8_r"),
        ("text/html;charset=;charset=koi8-r", "koi8_r"),
        ("text/html charset=koi8-r", "koi8_r"),
        ("text/html, charset=koi8-r", "koi8_r"),
        ("text/html;q=1;\tCharSet\t=\tkoi8-r , text/plain", "koi8_r"),
        ("charset=koi8-r", "koi8_r"),
        ('text/html; x="a\\"; charset=big5"; charset=koi8-r', "koi8_r"),
        ("text/html; xcharset=koi8-r", "utf-8"),
        ("text/html; x-charset=koi8-r", "utf-8"),
        ("text/html; charsets=koi8-r", "utf-8"),
        ("text/html; charset", "utf-8"),
        ("text/html; charset:koi8-r", "utf-8"),
        ('text/html; x="charset=koi8-r"', "utf-8"),
        ('text/html; x="; charset=koi8-r"', "utf-8"),
        ("text/html; x=charset=koi8-r", "utf-8"),
        ("text/html; xcharset=koi8-r; charset=big5", "big5hkscs"),
    ],
)
def test_the_charset_of_a_header_is_a_parameter_of_that_name(content_type: str, codec: str) -> None:
    assert find_encoding(b"<p>plain", content_type) == codec


def test_a_meta_names_its_charset_anywhere_in_its_content_as_in_browsers() -> None:
    # The algorithm of the standard looks for the seven letters, and not for a parameter.
    assert find_encoding(b"<meta http-equiv=content-type content='text/html; xcharset=koi8-r'>") == "koi8_r"


@pytest.mark.parametrize(
    ("body", "content_type", "codec"),
    [
        ('"é"'.encode(), "application/json; charset=iso-8859-1", "utf-8"),
        ('"é"'.encode(), "application/json; charset=utf-16", "utf-8"),
        ('"é"'.encode(), "application/json", "utf-8"),
        (b'"e"', "application/json; charset=koi8-r", "utf-8"),
        (b"", "application/json; charset=koi8-r", "utf-8"),
        ('"é"'.encode("latin1"), "application/json; charset=iso-8859-1", "cp1252"),
        ('"ж"'.encode("koi8_r"), "application/problem+json; charset=koi8-r", "koi8_r"),
        ('"é"'.encode("latin1"), "application/json; charset=utf-8", "utf-8"),
        ('"é"'.encode("latin1"), "application/json; xcharset=koi8-r", "cp1252"),
        ("\ufeff" + '{"a": "é"}', "application/json; charset=koi8-r", "utf-8"),
        (codecs.BOM_UTF16_LE + '{"a": "é"}'.encode("utf-16-le"), "application/json; charset=utf-8", "utf-16-le"),
        (codecs.BOM_UTF16_BE + '{"a": "é"}'.encode("utf-16-be"), "text/json", "utf-16-be"),
        (codecs.BOM_UTF32_LE + '{"a": "é"}'.encode("utf-32-le"), "application/json", "utf-32"),
        (codecs.BOM_UTF32_BE + '{"a": "é"}'.encode("utf-32-be"), "application/ld+json", "utf-32"),
        ('{"a": "é"}'.encode("utf-16-le"), "application/json; charset=utf-8", "utf-16-le"),
        ('{"a": "é"}'.encode("utf-16-be"), "application/json; charset=utf-16", "utf-16-be"),
        ('{"a": "é"}'.encode("utf-32-be"), "application/json", "utf-32-be"),
    ],
)
def test_json_is_unicode_first_and_then_what_its_header_says(
    respond: Callable[..., Response], body: str | bytes, content_type: str, codec: str
) -> None:
    response = respond(body, content_type)
    assert response.encoding == codec
    assert response.text.isprintable()
    # The same without a type of JSON: whoever calls json() knows better.
    other = respond(body, content_type.replace("json", "octet-stream"))
    if body:
        assert response.json() == other.json() == json.loads(response.text)


def test_text_of_other_types_is_read_as_its_header_says(respond: Callable[..., Response]) -> None:
    response = respond('["é"]'.encode(), "text/plain; charset=iso-8859-1")
    assert (response.text, response.json(), response.jmespath("[0]").get()) == ('["Ã©"]', ["é"], "é")


def test_a_declaration_counts_in_markup_only() -> None:
    body = b'{"html": "<meta charset=koi8-r>"}'
    assert find_encoding(body, "application/json", "other") == "utf-8"


def test_xml_declares_its_encoding_in_its_declaration_alone() -> None:
    body = b'<?xml version="1.0" encoding="koi8-r"?><meta charset="big5"/>'
    assert find_encoding(body, "text/xml", "xml") == "koi8_r"
    assert find_encoding(b'<r><meta charset="big5"/></r>', "text/xml", "xml") == "utf-8"


def test_the_mark_is_not_part_of_the_text() -> None:
    assert decode(b"\xef\xbb\xbfabc", "utf-8") == "abc"
    assert decode("\ufeffabc".encode("utf-16-le"), "utf-16-le") == "abc"


RUSSIAN = "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью."
JAPANESE = "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。"
SAMPLES = [
    (RUSSIAN, "cp1251"),
    (RUSSIAN, "koi8_r"),
    (RUSSIAN, "cp866"),
    (RUSSIAN, "iso8859_5"),
    ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.", "cp1253"),
    ("כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון.", "cp1255"),
    ("يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا.", "cp1256"),
    ("มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ", "cp874"),
    (JAPANESE, "cp932"),
    (JAPANESE, "euc_jp"),
    (JAPANESE, "iso2022_jp"),
    ("中国新闻网是全国最大的网络新闻媒体之一，我们提供时政、国际、社会、财经等新闻。", "gb18030"),
    ("台灣新聞網提供最新的政治、社會、國際與財經新聞，我們的記者每天為您報導。", "big5hkscs"),
    ("모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.", "cp949"),
    ("Tous les êtres humains naissent libres et égaux en dignité. Où ça, à l'école?", "cp1252"),
    ("Die Würde des Menschen ist unantastbar. Straße, schön, Mädchen, Übung.", "cp1252"),
    ("Alle mennesker er født frie og lige i værdighed. De bør handle i broderskabets ånd.", "cp1252"),
    ("Müller GmbH", "cp1252"),
    ("It\u2019s a \u201csmart\u201d quote \u2013 no more\u2026", "cp1252"),
    ("Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.", "cp1250"),
    ("Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.", "iso8859_2"),
    ("Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana sahiptirler.", "cp1254"),
]


@pytest.mark.parametrize(("text", "codec"), SAMPLES)
def test_unlabelled_text_is_guessed(text: str, codec: str) -> None:
    body = f"<html><body class=main><p>{text}</p></body></html>".encode(codec)
    assert body.decode(guess(body)) == body.decode(codec)


def test_utf8_that_is_cut_or_has_a_stray_byte_is_still_utf8() -> None:
    assert guess(RUSSIAN.encode()[:-5] + b"\xd0") == "utf-8"
    assert guess(RUSSIAN.encode() + b" \xe9 " + RUSSIAN.encode()) == "utf-8"


def test_noise_falls_back_to_windows_1252() -> None:
    assert guess(b"x\x81y\x8dz\x9d") == "cp1252"


@given(st.binary(max_size=400), st.text(max_size=30), st.sampled_from(["", *CODECS, "utf-7", "rot13"]))
def test_no_bytes_and_no_label_raise(body: bytes, noise: str, label: str) -> None:
    for content_type in (noise, f"text/html; charset={label}{noise}", f"text/html; charset={label}"):
        text = decode(body, find_encoding(body, content_type))
        text.encode("utf-8")  # no lone surrogates come out
