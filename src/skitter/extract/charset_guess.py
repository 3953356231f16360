"""Guess of the encoding of a body that does not declare one.

Valid UTF-8 is UTF-8: other encodings almost never look like it by accident. What is left is
decoded on trial with the encodings that unlabelled pages are found in, and the one whose text has
the most of its languages' frequent letters wins; windows-1252 when none is convincing. A few
kilobytes of sample are enough, so a guess costs about a millisecond, on the rare pages that need
one. A label always wins over it. Icelandic, Hungarian and Baltic pages that lack a label lose by it.
"""

from __future__ import annotations

import re

FALLBACK = "cp1252"
SAMPLE_BYTES = 4096
CONVINCING = 0.5
"""The share of the expected frequent letters below which a trial does not count."""

# Codec: frequent letters of its languages, and what part of a text's non-ASCII characters they make
# up. In a tie the first one stays.
_LATIN: dict[str, tuple[str, float]] = {
    "cp1252": ("éèàùâêîôûçëïìòäöüßñóíáúãõåæøœ\u2019\u2018“”«»©®\u2013—…·¿¡°£ªº\u00a0ÉÀÄÖÜÅØ", 1.0),
    "cp1250": ("ąćęłńśźżčďěňřšťůžőűáéíóúýäöüôâîășțŁŚŻČŠŽ„”\u2019\u2013\u00a0", 1.0),
    "iso8859_2": ("ąćęłńśźżčďěňřšťůžőűáéíóúýäöüôâîŁŚŻČŠŽ\u00a0", 1.0),
    "cp1254": ("ışğİŞüöçâîÜÖÇ\u2019“”\u00a0", 1.0),
}
_OTHER: dict[str, tuple[str, float]] = {
    "cp1251": ("оеаинтсрвлкмдпуя", 0.78),
    "koi8_r": ("оеаинтсрвлкмдпуя", 0.78),
    "cp866": ("оеаинтсрвлкмдпуя", 0.78),
    "iso8859_5": ("оеаинтсрвлкмдпуя", 0.78),
    "cp1253": ("αοιετνσηρκςπυμλίό", 0.78),
    "cp1255": ("יוהלאמרתבשנכ", 0.75),
    "cp1256": ("اليمنتروبهعدسفكق", 0.78),
    "cp874": ("านรอกเงยลมดทสวตคไห่้ี", 0.7),
    "cp932": ("のにはをたがでてとしれさるいなもこりうまかっらくすあンスーイルトア、。", 0.5),
    "euc_jp": ("のにはをたがでてとしれさるいなもこりうまかっらくすあンスーイルトア、。", 0.5),
    "gb18030": ("的一是不了在人有我他这为之大来以个中上们国到说和地也子时道出\uff0c。、", 0.25),
    "big5hkscs": ("的一是不了在人有我他這為之大來以個中上們國到說和地也子時道出\uff0c。、", 0.25),
    "cp949": ("이다는을의에가고하지한로를도은사기인어시리스아자있그대나", 0.4),
}
# A run starts at a byte that is not ASCII and takes the ASCII that may be second bytes in Shift_JIS and Big5.
_RUN = re.compile(rb"[\x80-\xff][\x40-\x7e\x80-\xff]*")
_HIGH = re.compile(rb"[\x80-\xff]")
_HIGH_BEFORE_HIGH = re.compile(rb"[\x80-\xff](?=.?[\x80-\xff])", re.DOTALL)


def guess(body: bytes) -> str:
    """Return the most likely codec of a body without a label."""
    if body.isascii():
        return "iso2022_jp" if b"\x1b$" in body and b"\x1b(" in body else "utf-8"
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return "utf-8" if _is_damaged_utf8(body) else _by_letters(_sample(body))
    return "utf-8"


def _is_damaged_utf8(body: bytes) -> bool:
    # A page cut in the middle of a character, or one old comment inside a UTF-8 forum.
    text = body.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    return _beyond_ascii(text) - damaged > 4 * damaged


def _beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _sample(body: bytes) -> bytes:
    runs: list[bytes] = []
    size = 0
    for match in _RUN.finditer(body):
        run = match[0][:SAMPLE_BYTES]
        runs.append(run)
        size += len(run)
        if size >= SAMPLE_BYTES:
            break
    # The spaces keep a run that ends inside a character from taking the next run's first byte with it.
    return b"   ".join(runs)


def _by_letters(sample: bytes) -> str:
    # Latin text has its accents scattered between ASCII letters; every other script has them in a row.
    clustered = len(_HIGH_BEFORE_HIGH.findall(sample)) * 2 > len(_HIGH.findall(sample))
    best, best_score = FALLBACK, CONVINCING
    for codec, (letters, expected) in (_OTHER if clustered else _LATIN).items():
        text = sample.decode(codec, "replace")
        total = _beyond_ascii(text)
        if total == 0 or text.count("\ufffd") * 20 > total:
            continue
        score = sum(map(text.count, letters)) / total / expected
        if score > best_score:
            best, best_score = codec, score
    return best
