"""HTTP digest authentication (RFC 7616): a server's challenge, and the answers to it."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from itertools import count

_HASHES = {"sha-256": hashlib.sha256, "md5": hashlib.md5}
"""The better one first; each also in its form "-sess"."""
_MAX_CHARS = 4096
"""Of a header with challenges; what is longer is not read to its end."""
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"  # noqa: S105  the grammar's word
_PART = re.compile(
    # From the beginning of a word: a long one would be tried from each of its letters.
    rf"(?<!{_TOKEN.removesuffix('++')})(?:(?P<scheme>{_TOKEN})\s++(?={_TOKEN}\s*+=))?(?P<name>{_TOKEN})\s*+=\s*+"
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<token>[^\s,"]++))'
)
_ESCAPE = re.compile(r"\\(.)")


class Challenge:
    """What one origin has asked for. It is answered again and again, with a rising count, until there is another."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.nonce = fields["nonce"]
        self.is_stale = fields.get("stale", "").lower() == "true"
        self._fields = fields
        self._algorithm = fields.get("algorithm", "MD5")
        self._has_qop = bool(fields.get("qop"))
        self._counts = count(1)
        # One for all answers: the session of an algorithm "-sess" is made with it.
        self._cnonce = secrets.token_hex(16)

    def answer(self, user: str, password: str, method: str, target: str) -> str:
        """Return the header ``Authorization`` of one request. ``target``: its path and query."""
        realm, nonce, cnonce = self._fields.get("realm", ""), self.nonce, self._cnonce
        name = self._algorithm.lower()
        credentials = self._hash(f"{user}:{realm}:{password}")
        if name.endswith("-sess"):
            credentials = self._hash(f"{credentials}:{nonce}:{cnonce}")
        request = self._hash(f"{method}:{target}")
        number = f"{next(self._counts):08x}"
        middle = f"{nonce}:{number}:{cnonce}:auth" if self._has_qop else nonce
        fields = [f"username={_quoted(user)}", f"realm={_quoted(realm)}", f"nonce={_quoted(nonce)}"]
        fields += [f"uri={_quoted(target)}", f'response="{self._hash(f"{credentials}:{middle}:{request}")}"']
        if "algorithm" in self._fields:
            fields.append(f"algorithm={self._algorithm}")
        if self._has_qop:
            fields += ["qop=auth", f"nc={number}", f'cnonce="{cnonce}"']
        if (opaque := self._fields.get("opaque")) is not None:
            fields.append(f"opaque={_quoted(opaque)}")
        return f"Digest {', '.join(fields)}"

    def _hash(self, text: str) -> str:
        make = _HASHES[self._algorithm.lower().removesuffix("-sess")]
        return make(text.encode()).hexdigest()


def find_challenge(headers: Iterable[tuple[str, str]]) -> Challenge | None:
    """Return the best challenge of an answer's headers that can be answered, or None."""
    known = list(_HASHES)
    usable: list[tuple[int, dict[str, str]]] = []
    for fields in _challenges(headers):
        algorithm = fields.get("algorithm", "md5").lower().removesuffix("-sess")
        qop = {word.strip() for word in fields.get("qop", "auth").lower().split(",")}
        if algorithm in known and "auth" in qop and fields.get("nonce"):
            usable.append((known.index(algorithm), fields))
    return Challenge(min(usable, key=lambda one: one[0])[1]) if usable else None


def _challenges(headers: Iterable[tuple[str, str]]) -> Iterable[dict[str, str]]:
    """Return the fields of each digest challenge; one header may have several, of other schemes as well."""
    found: list[dict[str, str]] = []
    for name, value in headers:
        if name != "www-authenticate":
            continue
        fields: dict[str, str] = {}
        for part in _PART.finditer(value[:_MAX_CHARS]):
            if scheme := part["scheme"]:
                fields = {}
                if scheme.lower() == "digest":
                    found.append(fields)
            quoted = part["quoted"]
            fields[part["name"].lower()] = part["token"] if quoted is None else _ESCAPE.sub(r"\1", quoted)
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
