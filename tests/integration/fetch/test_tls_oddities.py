"""TLS servers that misbehave: each page ends in time and with a class that says what it was, and nothing is believed.

The servers are ``rig/tls_attacks.py``. All run at once against one process, which is measured.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from certificates import Authority
from rig.measured_fetches import measure
from rig.tls_attacks import PAGE, TLS_ATTACKS, OpenSsl, old_context, pages
from rig.web_connection import CERTIFICATE, Attack, Server, tls_context

TIMEOUT_SECONDS = 4.0
AT_TIMEOUT = {"tls", "timeout"}
CUT_OFF = {"protocol", "truncated"}
ENDINGS: dict[str, set[str]] = {
    "half a body, cut off": CUT_OFF,
    "half a body, ended by TLS": {"truncated"},
    "a body without a length, cut off": CUT_OFF,
    "half a chunked body, cut off": CUT_OFF,
    "nothing, cut off": CUT_OFF,
    "flood of keys": {"timeout", "protocol"},
    "flood of tickets": {"timeout", "protocol"},
    "flood of renegotiation": {"timeout", "protocol", "tls"},
    "a good certificate": {"200"},
    "a certificate of 3,500 names": {"200"},
    "a chain of 90": {"200"},
}
"""How a page may end; others are ``tls``."""


def _certificates(folder: Path) -> tuple[Path, dict[str, Attack]]:
    """A file of trusted authorities, and servers whose certificates are odd."""
    authority = Authority(folder)
    trusted = folder / "trusted.pem"
    trusted.write_text(authority.file.read_text() + CERTIFICATE.read_text())

    def issued(name: str, **fields: Any) -> Attack:
        return pages(tls_context((), *authority.issue(name, **fields)))

    def chain(length: int) -> Attack:
        certificate, key = authority.issue(f"chain{length}")
        certificate.write_text(certificate.read_text() + authority.file.read_text() * length)
        return pages(tls_context((), certificate, key))

    stranger = Authority(folder / "stranger")
    return trusted, {
        "a good certificate": issued("good"),
        "an expired certificate": issued("expired", days=-1),
        "a certificate of another name": issued("other", names="DNS:example.com"),
        "a certificate of nobody's authority": pages(tls_context((), *stranger.issue("strange"))),
        "a certificate that signs itself": pages(tls_context((), stranger.file, stranger.file.with_suffix(".key"))),
        "a name with a NUL in it": issued("nul", names="DNS:127.0.0.1\\0.example.com"),
        "the address as a name": issued("name", names="DNS:127.0.0.1"),
        "a wildcard for an address": issued("wildcard", names="DNS:*.0.0.1"),
        "a certificate of 3,500 names": issued(
            "names", names=",".join(["IP:127.0.0.1", *(f"DNS:n{number}.example.com" for number in range(3_500))])
        ),
        "a certificate of 3,500 other names": issued(
            "others", names=",".join(f"DNS:*.n{number}.example.com" for number in range(3_500))
        ),
        "a chain of 90": chain(90),
        "a chain of 2,000": chain(2_000),
        "TLS 1.0": pages(old_context(ssl.TLSVersion.TLSv1)),
        "TLS 1.1": pages(old_context(ssl.TLSVersion.TLSv1_1)),
    }


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    trusted, odd = _certificates(tmp_path_factory.mktemp("certificates"))
    attacks = TLS_ATTACKS | odd
    library = OpenSsl()
    if library.found:
        attacks |= {f"flood of {what}": library.attack(what) for what in ("keys", "tickets", "renegotiation")}

    def plain(connection: Any) -> None:
        while True:
            connection.read_head()
            connection.send(PAGE)

    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(attack, scheme="https")) for attack in attacks.values()]
        good = stack.enter_context(Server(plain))
        found = measure(
            urls=[server.url() for server in servers],
            good_url=good.url(),
            settings={"timeout_seconds": TIMEOUT_SECONDS},
            ca_file=str(trusted),
            files_at_most=2 * len(attacks),
        )
        yield found | {"of": dict(zip(attacks, found["endings"], strict=True))}


def test_a_page_of_an_odd_server_ends_in_time_with_its_class(outcome: dict[str, Any]) -> None:
    assert len(outcome["of"]) > 25
    for name, ending in outcome["of"].items():
        assert ending["kind"] in ENDINGS.get(name, {"tls"}), (name, ending)
        assert ending["seconds"] < 60, (name, ending)


def test_the_event_loop_memory_and_other_hosts_are_spared(outcome: dict[str, Any]) -> None:
    assert outcome["longest_turn_seconds"] < 1.5
    assert outcome["grown_bytes"] < 64 * 2**20
    assert outcome["files_left"] <= 2 * len(outcome["of"])
    assert outcome["good_failures"] == []
    assert outcome["good"] >= 2


@pytest.fixture(scope="module")
def key_flood(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that sends new keys faster than they can be read."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        if os.environ.get("CI") == "true" and sys.platform == "linux":
            pytest.fail("no C compiler")
        pytest.skip("needs Linux and a C compiler")
    built = tmp_path_factory.mktemp("key_flood") / "key_flood"
    source = Path(__file__).with_name("key_flood.c")
    libraries = ["-l:libssl.so.3", "-l:libcrypto.so.3"]
    if subprocess.run([compiler, "-O2", "-o", built, source, *libraries], capture_output=True, check=False).returncode:
        pytest.skip("no libssl.so.3 to link with")
    with subprocess.Popen([built, CERTIFICATE], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.terminate()


def test_new_keys_without_end_do_not_hold_the_event_loop(key_flood: int) -> None:
    """OpenSSL reads them on within one call: without the watchdog the process stands still for ever."""
    found = measure(
        urls=[f"https://127.0.0.1:{key_flood}/{number}" for number in range(2)],
        settings={"timeout_seconds": 3},
        ca_file=str(CERTIFICATE),
    )
    assert {ending["kind"] for ending in found["endings"]} <= {"protocol", "timeout", "connect"}
    assert max(ending["seconds"] for ending in found["endings"]) < 60
    assert found["longest_turn_seconds"] < 4


async def test_tls_on_the_port_of_http_is_a_protocol_error(serve: Any, client: Any) -> None:
    site = serve(serve.answer(), tls=True)
    assert await client.kind(site.url().replace("https:", "http:"), timeout_seconds=5) == "protocol"
    assert site.seen == []


async def test_the_server_is_told_its_name_and_no_address(make_client: Any, certificate: str) -> None:
    names: list[str | None] = []
    context = tls_context()
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with Server(pages(context), scheme="https") as site:
        client = make_client(ca_file=certificate)
        for host in ("localhost", "127.0.0.1"):
            assert (await client.get(site.url(host=host))).body == b"fine"
    assert names == ["localhost", None]
