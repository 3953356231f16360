"""Addresses that a found link may not lead to."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.fetch.network_guard import Guard
from skitter.policy.network_guard import refused, refused_port


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("100.127.255.255", "private"),
        ("169.254.1.1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("192.0.0.192", "metadata"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("192.0.0.8", "reserved"),
        ("192.0.2.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("198.51.100.1", "reserved"),
        ("203.0.113.1", "reserved"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("fd00:ec2::254", "metadata"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "reserved"),
        ("3fff::1", "reserved"),
        ("100::1", "reserved"),
        ("5f00::1", "reserved"),
        ("64:ff9b:1::a00:1", "private"),
        ("4000::1", "reserved"),
    ],
)
def test_inside_addresses_are_refused(address: str, reason: str) -> None:
    assert refused(address) == reason


@pytest.mark.parametrize(
    ("address", "inner"),
    [
        ("::ffff:127.0.0.1", "loopback, as 127.0.0.1"),
        ("::ffff:7f00:1", "loopback, as 127.0.0.1"),
        ("::ffff:a9fe:a9fe", "metadata, as 169.254.169.254"),
        ("::ffff:0:10.0.0.1", "private, as 10.0.0.1"),
        ("::127.0.0.1", "loopback, as 127.0.0.1"),
        ("64:ff9b::192.168.0.1", "private, as 192.168.0.1"),
        ("2002:7f00:1::1", "loopback, as 127.0.0.1"),
        ("2002:a00:1::", "private, as 10.0.0.1"),
        ("2001:0:a9fe:a9fe::", "metadata, as 169.254.169.254"),
        ("2001:0:808:808:0:0:80ff:fffe", "loopback, as 127.0.0.1"),
    ],
)
def test_an_address_inside_an_address_is_found(address: str, inner: str) -> None:
    assert refused(address) == inner


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "223.255.255.255",
        "2606:2800:220:1:248:1893:25c8:1946",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ],
)
def test_public_addresses_are_let_through(address: str) -> None:
    assert refused(address) is None


@pytest.mark.parametrize(
    "text",
    ["", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1 ", "[::1]", "1.2.3.4.5", "::1::"],
)
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    assert refused(text) == "not an IP address"


@given(st.integers(0, 2**32 - 1))
def test_a_mapped_address_is_judged_like_the_plain_one(number: int) -> None:
    plain = refused(str(IPv4Address(number)))
    mapped = refused(str(IPv6Address(0xFFFF << 32 | number)))
    assert (plain is None) == (mapped is None)


@given(st.integers(0, 2**32 - 1))
def test_nothing_is_let_through_that_the_standard_library_calls_local(number: int) -> None:
    address = IPv4Address(number)
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_private
    ):
        assert refused(str(address)) is not None


def test_an_engine_may_be_told_to_allow_everything() -> None:
    assert Guard(allow_private=True).objection("127.0.0.1", 80) is None
    assert Guard(allow_private=False).objection("127.0.0.1", 80) == "a loopback address (127.0.0.1)"


@pytest.mark.parametrize("port", [1, 22, 25, 53, 110, 143, 514, 993, 2049, 3306, 5432, 6000, 6379, 6667, 9200, 11211])
def test_ports_of_other_services_are_refused_also_where_private_addresses_are_allowed(port: int) -> None:
    for allow_private in (True, False):
        objection = Guard(allow_private=allow_private).objection("8.8.8.8", port)
        assert objection == f"the port of another service ({port})"


@pytest.mark.parametrize("port", [80, 81, 443, 591, 3000, 4443, 5000, 8000, 8008, 8080, 8443, 8888, 9000, 9443, 49152])
def test_ports_that_sites_live_on_are_let_through(port: int) -> None:
    assert refused_port(port) is None


def test_a_typed_host_may_be_inside_but_not_move_there() -> None:
    guard = Guard(allow_private=False)
    assert guard.objection_to_trusted("intranet", "10.0.0.1") is None
    assert guard.objection_to_trusted("example.com", "8.8.8.8") is None
    assert guard.objection_to_trusted("example.com", "1.1.1.1") is None
    assert "which was a public one before" in (guard.objection_to_trusted("example.com", "127.0.0.1") or "")
    assert guard.objection_to_trusted("intranet", "10.0.0.2") is None


def test_what_the_guard_remembers_is_bounded() -> None:
    guard = Guard(allow_private=False)
    for number in range(25_000):
        address = str(IPv4Address(0x08000000 + number))
        guard.objection(address, 80)
        guard.objection_to_trusted(f"h{number}.example", address)
    assert max(len(guard._answers), len(guard._outside)) <= 10_000
