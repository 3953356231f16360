"""Cookie files: Netscape's, which curl and wget read, and JSON as browsers and Playwright export it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from skitter import private_files
from skitter.errors import UsageError
from skitter.frontier.contract import Frontier
from skitter.model.cookie_lines import netscape_line, read_netscape_line
from skitter.model.session import DELETED, Cookie, CookieNews, JarRef
from skitter.policy.cookies import is_acceptable
from skitter.policy.public_suffixes import is_public_suffix, registrable_domain

MAX_FILE_BYTES = 16_777_216
_HEADER = "# Netscape HTTP Cookie File\n"
_HINT = "a Netscape cookie file, or a browser's JSON: a list of objects with name, value and domain"


async def export_cookies(frontier: Frontier, session: str, path: Path) -> int:
    """Write the cookies of a session to a private file; how many. ``.json``: as browsers have them."""
    domains = [one.domains for one in await frontier.sessions() if one.name == session]
    jars = await frontier.jars([JarRef(session, domain) for domain in (domains[0] if domains else [])])
    cookies = [cookie for jar in jars for cookie in jar.cookies]
    if path.suffix == ".json":
        text = msgspec.json.format(msgspec.json.encode([_as_json(cookie) for cookie in cookies])).decode() + "\n"
    else:
        # A tab would end a field of the line: only JSON has such cookies.
        cookies = [cookie for cookie in cookies if "\t" not in cookie.name + cookie.value + cookie.path]
        text = _HEADER + "".join(f"{netscape_line(cookie)}\n" for cookie in cookies)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private_files.FILE_MODE), "w") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"the file already exists: {path}", hint="choose another name: existing files are never overwritten"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot write: {path}: {error.strerror}", hint="check its folder") from error
    return len(cookies)


async def import_cookies(frontier: Frontier, session: str, path: Path) -> tuple[int, int]:
    """Put the cookies of a file into a session; how many, and how many were left out: expired, or none at all."""
    cookies, left_out = read_cookie_file(path)
    jars: dict[str, list[Cookie]] = {}
    for cookie in cookies:
        jars.setdefault(registrable_domain(cookie.domain), []).append(cookie)
    await frontier.add_cookies(
        [CookieNews(session=session, domain=domain, cookies=some) for domain, some in jars.items()]
    )
    return len(cookies), left_out


def read_cookie_file(path: Path) -> tuple[list[Cookie], int]:
    """The cookies of a file, and how many of its lines or objects are none that may be kept."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read: {path}: {error.strerror}", hint="give a cookie file") from error
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"more than {MAX_FILE_BYTES} bytes: {path}", hint=_HINT)
    found: Sequence[Cookie | None]
    if content.lstrip()[:1] in (b"[", b"{"):
        try:
            found = [_from_json(one) for one in _listed(msgspec.json.decode(content))]
        except msgspec.DecodeError as error:
            raise UsageError(f"not JSON: {path}", hint=_HINT) from error
    else:
        lines = [line for line in content.decode("latin-1").splitlines() if line.strip()]
        found = [
            read_netscape_line(line) for line in lines if not line.startswith("#") or line.startswith("#HttpOnly_")
        ]
        if lines and not any(found):
            raise UsageError(f"the file has no cookies: {path}", hint=_HINT)
    kept = [cookie for cookie in found if cookie is not None and _may_be_kept(cookie)]
    return kept, len(found) - len(kept)


def _may_be_kept(cookie: Cookie) -> bool:
    is_shared = cookie.host_only or not is_public_suffix(cookie.domain)
    return cookie.expires != DELETED and is_shared and is_acceptable(cookie, is_https=cookie.secure)


def _listed(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        value = value.get("cookies")
    if not isinstance(value, list):
        raise UsageError("it has no list of cookies", hint=_HINT)
    return value


def _from_json(value: Any) -> Cookie | None:
    if not isinstance(value, dict):
        return None
    name, text, domain = value.get("name"), value.get("value"), value.get("domain")
    expires = value.get("expirationDate", value.get("expires", 0))
    if not isinstance(name, str) or not isinstance(text, str) or not isinstance(domain, str) or not domain:
        return None
    path = value.get("path", "/")
    return Cookie(
        name,
        text,
        domain.lstrip(".").lower(),
        path if isinstance(path, str) else "/",
        int(expires) if isinstance(expires, (int, float)) and expires > 0 else 0,
        secure=value.get("secure") is True,
        http_only=value.get("httpOnly") is True,
        host_only=value.get("hostOnly", not domain.startswith(".")) is True,
    )


def _as_json(cookie: Cookie) -> dict[str, Any]:
    return {
        "name": cookie.name,
        "value": cookie.value,
        "domain": cookie.domain if cookie.host_only else f".{cookie.domain}",
        "path": cookie.path,
        "expirationDate": cookie.expires or None,
        "secure": cookie.secure,
        "httpOnly": cookie.http_only,
        "hostOnly": cookie.host_only,
        "session": not cookie.expires,
    }
