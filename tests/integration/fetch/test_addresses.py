"""Every way to write an address of the inside, and none of them leads there.

Each is given to the engine twice: as the URL parser of a page would leave it, and as it is, in case that some other way
into the engine forgets the parser. What is wrong with a form does not matter, only that nothing comes of it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

import pytest

from skitter.errors import FetchError, UrlError
from skitter.fetch.contract import FetchRequest
from skitter.model.url import absolute, host_key
from skitter.settings import Fetch

INSIDE_V4 = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "192.0.2.1",
]
INSIDE_V6 = [
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "100::1",
    "64:ff9b:1::7f00:1",
    "4000::1",
]
FULL_WIDTH = {ord(character): ord(character) + 0xFEE0 for character in "0123456789."}
CIRCLED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")


def v4_forms(address: str) -> Iterator[str]:
    """One IPv4 address in the ways that somebody has used to slip through a filter."""
    number = int(ipaddress.IPv4Address(address))
    a, b, c, d = address.split(".")
    yield address
    yield f"{address}."
    yield str(number)
    yield f"{number}."
    yield hex(number)
    yield f"0X{number:X}"
    yield f"0{number:o}"
    yield f"0x{number:010x}"
    yield ".".join(hex(int(part)) for part in (a, b, c, d))
    yield ".".join(f"0{int(part):o}" for part in (a, b, c, d))
    yield ".".join(f"00000{int(part):o}" for part in (a, b, c, d))
    yield f"{hex(int(a))}.{b}.0{int(c):o}.{d}"
    yield f"{a}.{number & 0xFFFFFF}"
    yield f"{a}.{b}.{number & 0xFFFF}"
    yield f"{hex(int(a))}.{hex(number & 0xFFFFFF)}"
    yield address.translate(FULL_WIDTH)
    yield address.translate(CIRCLED)
    yield address.replace(".", "\u3002")
    yield address.replace(".", "\uff61")
    yield address.replace(".", "%2e")
    yield "".join(f"%{ord(character):02x}" for character in address)
    yield "%ef%bc%91" + address[1:] if address[0] == "1" else f"%3{address[0]}{address[1:]}"
    yield f"{a}.{b}\u00ad.{c}.{d}"
    yield f"{a}.{b}.\t{c}.{d}"
    yield f"{a}.{b}.\n{c}.{d}"
    yield f"8.8.8.8@{address}"
    yield f"8.8.8.8:80@{address}"
    yield f"a:b@c@{address}"
    yield f"8.8.8.8%40@{address}"
    yield f"[::ffff:{address}]"
    yield f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"[0:0:0:0:0:FFFF:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"[::{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]"
    yield f"[2001:0:{number >> 16:x}:{number & 0xFFFF:x}::]"


def v6_forms(address: str) -> Iterator[str]:
    exploded = ipaddress.IPv6Address(address).exploded
    yield f"[{address}]"
    yield f"[{address.upper()}]"
    yield f"[{exploded}]"
    yield f"[{':'.join(part.lstrip('0') or '0' for part in exploded.split(':'))}]"
    yield f"8.8.8.8@[{address}]"
    yield f"[{address}%25lo]"
    yield f"[{address}%lo]"
    yield f"[{address}%251]"


NAMES = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "x.y.localhost.",
    "loc\u00adalhost",
    "\uff4cocalhost",
]
FORMS = [
    *(form for address in INSIDE_V4 for form in v4_forms(address)),
    *(form for address in INSIDE_V6 for form in v6_forms(address)),
    *NAMES,
]


def test_there_are_many_forms() -> None:
    assert len(set(FORMS)) >= 450


async def test_no_form_of_an_address_leads_inside(serve: Any, make_client: Any) -> None:
    canary = serve(serve.answer(b"secret"))
    client = make_client(Fetch(timeout_seconds=5, connect_timeout_seconds=5))
    parsed = refused = 0
    for form in FORMS:
        raw = f"http://{form}:{canary.port}/"
        try:
            url = absolute(raw)
        except UrlError:
            pass
        else:
            # What the parser lets through it has written in one way, and then the guard is what stops it.
            parsed += 1
            assert await client.kind(url, trusted=False) == "guard", (form, url)
        refused += await client.kind(raw, trusted=False) == "guard"
        assert canary.connections == 0, form
    assert parsed >= 350
    assert refused >= 250


@pytest.mark.parametrize(
    "form", ["0x7f.1", "2130706433", "127.1", "0177.0.0.01", "①②⑦.0.0.1", "127。0。0。1", "%31%32%37.0.0.1"]
)
def test_forms_of_one_address_are_one_host_key(form: str) -> None:
    assert host_key(absolute(f"http://{form}:81/")) == "http://127.0.0.1:81"


async def test_a_relative_link_cannot_change_the_scheme_or_the_host_unseen(serve: Any, client: Any) -> None:
    canary = serve(serve.answer(b"secret"))
    base = "http://example.com/a/"
    place = f"127.0.0.1:{canary.port}"
    hrefs = [
        f"//{place}/",
        f"\\\\{place}/",
        f"/\\{place}/",
        f"http:/\\{place}/",
        f"HTTP://{place}",
        f"\thttp:\n//{place}",
    ]
    for href in hrefs:
        assert await client.kind(absolute(href, base), trusted=False) == "guard"
    for scheme in (
        "file",
        "ftp",
        "gopher",
        "dict",
        "ldap",
        "javascript",
        "data",
        "ws",
        "smb",
        "telnet",
        "view-source:http",
    ):
        with pytest.raises(UrlError):
            absolute(f"{scheme}://{place}/", base)
    assert canary.connections == 0


@pytest.mark.parametrize("port", [22, 25, 110, 143, 3306, 5432, 6379, 6667, 9200, 11211, 27017])
async def test_a_found_link_does_not_lead_to_a_port_of_another_service(port: int, client: Any) -> None:
    # Had it tried to connect, the class would be connect.
    assert await client.kind(f"http://192.0.1.1:{port}/", trusted=False, connect_timeout_seconds=2) == "guard"


async def test_a_typed_port_is_let_through_and_the_other_ports_of_its_host_are_not(serve: Any, client: Any) -> None:
    typed, other = serve(serve.answer(b"mine")), serve(serve.answer(b"secret"))
    assert (await client.get(typed.url())).body == b"mine"
    with pytest.raises(FetchError, match="loopback"):
        await client.fetcher.fetch(FetchRequest(url=other.url()))
    assert other.connections == 0
