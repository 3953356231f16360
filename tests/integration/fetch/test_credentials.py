"""Credentials by origin, against servers that ask for them: who is given what, how often, and who is not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from rig.web import Seen
from rig.web_connection import Connection, tls_context
from rig.web_faults import response
from skitter.agent import Credential
from skitter.app.fetchers import check_fetcher, make_fetcher
from skitter.errors import SettingsError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.credentials import AuthenticatingFetcher
from skitter.fetch.engine import CurlFetcher
from skitter.model.page import Page
from skitter.settings import Fetch, Settings

USER, PASSWORD, TOKEN = "Jürgen", "s3cret w0rd", "t0ken-123"


async def get(fetcher: Any, url: str, **fields: Any) -> Page:
    page: Page = await fetcher.fetch(FetchRequest(url=url, trusted=True, **fields))
    return page


def authenticating(make: Callable[..., CurlFetcher], *credentials: dict[str, str], **options: Any) -> Any:
    return AuthenticatingFetcher(make(**options), [Credential(**fields) for fields in credentials])  # type: ignore[arg-type]


class AsksForDigest:
    """Asks for a digest, and takes each count of a nonce once; nonces are good for ``uses`` requests."""

    def __init__(self, *, algorithm: str = "SHA-256", uses: int = 1000, password: str = PASSWORD) -> None:
        self.algorithm, self.uses, self.password = algorithm, uses, password
        self.counts: dict[str, set[str]] = {}

    def __call__(self, seen: Seen, _: Connection) -> bytes:
        given = seen.headers.get("authorization", "")
        fields = {name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|([^\s,]+))', given)}
        nonce = fields.get("nonce", "")
        if given.startswith("Digest ") and nonce in self.counts and fields["response"] == self._expected(seen, fields):
            used = self.counts[nonce]
            assert fields["nc"] not in used, "a count was used twice"
            used.add(fields["nc"])
            if len(used) <= self.uses:
                return response()
            return self._challenge(stale=True)
        return self._challenge(stale=False)

    def _expected(self, seen: Seen, fields: dict[str, str]) -> str:
        def digest(*parts: str) -> str:
            make = hashlib.sha256 if self.algorithm.startswith("SHA-256") else hashlib.md5
            return make(":".join(parts).encode()).hexdigest()

        method, path, _ = seen.line.split(" ")
        assert fields["uri"] == path
        known = digest(USER, "here", self.password)
        if self.algorithm.endswith("-sess"):
            known = digest(known, fields["nonce"], fields["cnonce"])
        return digest(known, fields["nonce"], fields["nc"], fields["cnonce"], "auth", digest(method, path))

    def _challenge(self, *, stale: bool) -> bytes:
        nonce = f"nonce-{len(self.counts)}"
        self.counts[nonce] = set()
        fields = f'realm="here", nonce="{nonce}", qop="auth", algorithm={self.algorithm}, opaque="o"'
        return response(b"ok", f"WWW-Authenticate: Digest {fields}{', stale=true' if stale else ''}", status="401 No")


async def test_each_origin_is_given_its_own_credentials_and_others_none(serve: Any, make_fetcher: Any) -> None:
    sites = [serve(serve.answer()) for _ in range(3)]
    fetcher = authenticating(
        make_fetcher,
        {"origin": sites[0].url("").rstrip("/"), "kind": "basic", "user": USER, "password": PASSWORD},
        {"origin": sites[1].url("").rstrip("/"), "kind": "bearer", "token": TOKEN},
    )
    for site in sites:
        await get(fetcher, site.url("/robots.txt"))
        await get(fetcher, site.url(host="localhost"))
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    sent = [[seen.headers.get("authorization") for seen in site.seen] for site in sites]
    assert sent == [[f"Basic {basic}", None], [f"Bearer {TOKEN}", None], [None, None]]


async def test_what_a_request_says_itself_is_sent_instead(serve: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer())
    fetcher = authenticating(make_fetcher, {"origin": site.url("").rstrip("/"), "kind": "bearer", "token": TOKEN})
    await get(fetcher, site.url(), headers={"AUTHORIZATION": "Own this"})
    await get(fetcher, site.url().replace("//", "//me:mine@"))
    mine = base64.b64encode(b"me:mine").decode()
    assert [seen.headers["authorization"] for seen in site.seen] == ["Own this", f"Basic {mine}"]


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-256", "MD5-sess", "SHA-256-sess"])
async def test_a_digest_costs_one_more_request_for_each_nonce(serve: Any, make_fetcher: Any, algorithm: str) -> None:
    asking = AsksForDigest(algorithm=algorithm, uses=5)
    site = serve(asking)
    fetcher = authenticating(
        make_fetcher, {"origin": site.url("").rstrip("/"), "kind": "digest", "user": USER, "password": PASSWORD}
    )
    sent: list[str] = []
    for number in range(11):
        asked = {"method": "POST", "body": b"b"} if number % 2 else {}
        page = await get(fetcher, site.url(f"/a/{number}?q=1#part"), on_send=lambda: sent.append(""), **asked)
        assert page.status == 200
    # The first, and two more when a nonce was used up.
    assert len(site.seen) == len(sent) == 14
    assert [seen.body for seen in site.seen if seen.line.startswith("POST")][-1] == b"b"


async def test_many_requests_at_once_share_a_digest(serve: Any, make_fetcher: Any) -> None:
    site = serve(AsksForDigest(uses=25))
    fetcher = authenticating(
        make_fetcher, {"origin": site.url("").rstrip("/"), "kind": "digest", "user": USER, "password": PASSWORD}
    )
    pages = await asyncio.gather(*(get(fetcher, site.url(f"/{number}")) for number in range(30)))
    assert [page.status for page in pages] == [200] * 30


async def test_a_wrong_password_is_asked_for_once(serve: Any, make_fetcher: Any) -> None:
    site = serve(AsksForDigest(password="another"))
    fetcher = authenticating(
        make_fetcher, {"origin": site.url("").rstrip("/"), "kind": "digest", "user": USER, "password": PASSWORD}
    )
    assert [(await get(fetcher, site.url())).status for _ in range(3)] == [401] * 3
    assert len(site.seen) == 4


async def test_a_challenge_is_not_for_hooks(serve: Any, make_fetcher: Any) -> None:
    site = serve(AsksForDigest())
    fetcher = authenticating(
        make_fetcher, {"origin": site.url("").rstrip("/"), "kind": "digest", "user": USER, "password": PASSWORD}
    )
    statuses: list[int] = []

    def on_headers(page: Page) -> bool:
        statuses.append(page.status)
        return False

    page = await get(fetcher, site.url(), on_headers=on_headers)
    assert (page.status, page.body, statuses) == (200, b"", [200])


async def test_a_challenge_is_answered_for_its_origin_only(serve: Any, make_fetcher: Any) -> None:
    """Whatever another server asks for, it is not told."""
    asking = serve(AsksForDigest())
    fetcher = authenticating(
        make_fetcher, {"origin": "http://127.0.0.1:1", "kind": "digest", "user": USER, "password": PASSWORD}
    )
    assert (await get(fetcher, asking.url())).status == 401
    assert [seen.headers.get("authorization") for seen in asking.seen] == [None]


def certified_site(serve: Any, authority: Authority) -> tuple[Any, list[str]]:
    """A site that asks for certificates of one authority, and whose it was shown with each request."""
    shown: list[str] = []
    context = tls_context((), *authority.issue("server"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL

    def note_certificate(_seen: Seen, connection: Connection) -> bytes:
        found: Any = connection.socket.getpeercert() or {}  # type: ignore[attr-defined]
        shown.append(dict(pair for part in found.get("subject", ()) for pair in part).get("commonName", ""))
        return response()

    return serve(note_certificate, tls=context), shown


async def test_a_certificate_is_shown_to_its_origin_on_connections_of_its_own(
    tmp_path: Path, serve: Any, make_fetcher: Any
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("crawler")
    site, shown = certified_site(serve, authority)
    fields = {"origin": site.url("", "localhost"), "kind": "certificate"}
    files = {"certificate": str(certificate), "key": str(key)}
    options = {"settings": Fetch(http2=False), "ca_file": str(authority.file)}
    fetcher = authenticating(make_fetcher, fields | files, **options)
    both = authenticating(make_fetcher, fields | files | {"kind": "bearer", "token": TOKEN}, **options)
    for one in (fetcher, both):
        for host in ("localhost", "127.0.0.1", "localhost"):
            assert (await get(one, site.url(host=host))).status == 200
    # Of one engine: the plain one keeps a connection without a certificate, which the other does not use.
    plain = make_fetcher(**options)
    await get(plain, site.url(host="localhost"))
    await get(AuthenticatingFetcher(plain, [Credential(**fields, **files)]), site.url(host="localhost"))  # type: ignore[arg-type]
    await get(plain, site.url(host="localhost"))
    assert shown == ["crawler", "", "crawler"] * 2 + ["", "crawler", ""]


async def test_a_key_may_have_a_password(tmp_path: Path, serve: Any, make_fetcher: Any) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("crawler")
    locked = tmp_path / "locked.key"
    Authority._openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:right-one")
    locked.chmod(0o600)
    site, shown = certified_site(serve, authority)
    url = site.url("", "localhost")
    fields = {"origin": url, "kind": "certificate", "certificate": str(certificate), "key": str(locked)}
    options = {"ca_file": str(authority.file)}
    right = authenticating(make_fetcher, fields | {"key_password": "right-one"}, **options)
    assert (await get(right, f"{url}/")).status == 200
    assert shown == ["crawler"]


def test_a_certificate_that_cannot_be_used_ends_the_command(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("crawler")
    fields = {"origin": "https://a.example", "kind": "certificate", "certificate": str(certificate)}

    def settings(**more: str) -> Settings:
        return Settings.from_layers([("the test", {"credentials": [fields | more]})])

    check_fetcher(settings(key=str(key)))
    locked, others = tmp_path / "locked.key", Authority(tmp_path / "other").issue("other")[1]
    Authority._openssl("pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:right-one")
    check_fetcher(settings(key=str(locked), key_password="right-one"))
    wrong = [settings(key=str(locked), key_password=PASSWORD), settings(key=str(locked)), settings(key=str(others))]
    opened = key.with_name("open.key")
    opened.write_bytes(key.read_bytes())
    opened.chmod(0o640)
    wrong += [settings(), settings(key=str(opened)), settings(key=str(tmp_path / "none"))]
    for one in wrong:
        for use in (check_fetcher, make_fetcher):
            with pytest.raises(SettingsError) as caught:
                use(one)
            assert PASSWORD not in f"{caught.value}{caught.value.hint}"
