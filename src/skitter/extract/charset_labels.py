"""Encoding labels of pages, and the Python codec for each.

The labels are those of the WHATWG encoding standard. They are compared without case and
punctuation, which makes ``ISO_8859-1``, ``iso8859-1`` and ``iso-8859-1`` one row and forgives
spellings the standard does not list. As there, a label means what browsers made of it:
``iso-8859-1`` and ``ascii`` are windows-1252, ``gb2312`` is gb18030, ``shift_jis`` is cp932.

Everything that is not in the table is unknown, on purpose: UTF-7 and UTF-32 are not for the web,
and ``codecs.lookup`` would also find ``rot13`` and ``zlib``.
"""

from __future__ import annotations

import re

_LABELS = {
    "utf-8": "utf8 unicode11utf8 unicode20utf8 xunicode20utf8 utf8mb4",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859_2": "csisolatin2 iso88592 isoir101 l2 latin2",
    "iso8859_3": "csisolatin3 iso88593 isoir109 l3 latin3",
    "iso8859_4": "csisolatin4 iso88594 isoir110 l4 latin4",
    "iso8859_5": "csisolatincyrillic cyrillic iso88595 isoir144",
    "iso8859_6": "arabic asmo708 csiso88596e csiso88596i csisolatinarabic ecma114 iso88596 iso88596e iso88596i "
    "isoir127",
    "iso8859_7": "csisolatingreek ecma118 elot928 greek greek8 iso88597 isoir126 suneugreek",
    "iso8859_8": "csiso88598e csiso88598i csisolatinhebrew hebrew iso88598 iso88598e iso88598i isoir138 logical visual",
    "iso8859_10": "csisolatin6 iso885910 isoir157 l6 latin6",
    "iso8859_13": "iso885913",
    "iso8859_14": "iso885914",
    "iso8859_15": "csisolatin9 iso885915 l9 latin9",
    "iso8859_16": "iso885916",
    "koi8_r": "cskoi8r koi koi8 koi8r",
    "koi8_u": "koi8ru koi8u",
    "mac_roman": "csmacintosh mac macintosh xmacroman",
    "mac_cyrillic": "xmaccyrillic xmacukrainian",
    "cp874": "dos874 iso885911 tis620 windows874 cp874",
    "cp1250": "cp1250 windows1250 win1250 xcp1250",
    "cp1251": "cp1251 windows1251 win1251 xcp1251",
    "cp1252": "ansix341968 ascii cp1252 cp819 csisolatin1 ibm819 iso88591 isoir100 l1 latin1 usascii windows1252 "
    "win1252 xcp1252 xuserdefined",
    "cp1253": "cp1253 windows1253 win1253 xcp1253",
    "cp1254": "cp1254 csisolatin5 iso88599 isoir148 l5 latin5 windows1254 win1254 xcp1254",
    "cp1255": "cp1255 windows1255 win1255 xcp1255",
    "cp1256": "cp1256 windows1256 win1256 xcp1256",
    "cp1257": "cp1257 windows1257 win1257 xcp1257",
    "cp1258": "cp1258 windows1258 win1258 xcp1258",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb18030 gb2312 gb231280 gbk isoir58 xgbk cp936",
    "big5hkscs": "big5 big5hkscs cnbig5 csbig5 xxbig5 cp950",
    "euc_jp": "cseucpkdfmtjapanese eucjp xeucjp",
    "iso2022_jp": "csiso2022jp iso2022jp",
    "cp932": "csshiftjis ms932 mskanji shiftjis sjis windows31j xsjis cp932",
    "cp949": "cseuckr csksc56011987 euckr isoir149 korean ksc56011987 ksc56011989 ksc5601 windows949 cp949",
    "utf-16-be": "unicodefffe utf16be",
    "utf-16-le": "csunicode iso10646ucs2 ucs2 unicode unicodefeff utf16 utf16le",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_PUNCTUATION = re.compile(r"[_:.+-]")

CODECS = tuple(_LABELS)
"""Every codec that a page may be read with."""


def codec_of(label: str) -> str | None:
    """Return the Python codec of a label, or None."""
    # What follows a colon is the year of a standard: iso_8859-1:1987.
    return _CODECS.get(_PUNCTUATION.sub("", label.strip("\t\n\f\r ").lower().partition(":")[0]))


_NAMES = {
    "cp866": "IBM866",
    "cp932": "Shift_JIS",
    "cp949": "EUC-KR",
    "big5hkscs": "Big5",
    "gb18030": "gb18030",
    "mac_roman": "macintosh",
    "mac_cyrillic": "x-mac-cyrillic",
}


def name_of(codec: str) -> str:
    """Return the name of a codec in the standard, which forms may send."""
    if codec.startswith(("cp125", "cp874")):
        return codec.replace("cp", "windows-")
    return _NAMES.get(codec) or codec.upper().replace("ISO8859_", "ISO-8859-").replace("ISO2022", "ISO-2022").replace(
        "_", "-"
    )
