"""Network guard rules: private addresses and service ports that found links may not lead to.

A crawler follows what strangers write. Without a guard, a page could send it to the router, to a
database on loopback, or to the cloud's metadata service, and the answer would end in the results.
Names are no help (anyone can point a name at 127.0.0.1, or change it between a check and a connect),
so the engine asks about the address itself, before each socket is opened (``fetch.network_guard``).

The networks are listed rather than left to ``ipaddress.is_private``, whose idea of private differs
between Python versions. Source: the IANA special-purpose address registries.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_V4 = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("169.254.169.254/32", "metadata"),  # most clouds
        ("100.100.100.200/32", "metadata"),  # Alibaba Cloud
        ("192.0.0.192/32", "metadata"),  # Oracle Cloud, older
        ("168.63.129.16/32", "metadata"),  # Azure; public by its number, served by the host machine
        ("127.0.0.0/8", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("100.64.0.0/10", "private"),  # shared with the carrier
        ("169.254.0.0/16", "link-local"),
        ("0.0.0.0/8", "unspecified"),  # Linux connects 0.0.0.0 to loopback
        ("224.0.0.0/4", "multicast"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("240.0.0.0/4", "reserved"),
    )
)
_V6 = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("fd00:ec2::254/128", "metadata"),  # Amazon
        ("fd20:ce::254/128", "metadata"),  # Google
        ("::1/128", "loopback"),
        ("::/128", "unspecified"),
        ("fc00::/7", "private"),
        ("64:ff9b:1::/48", "private"),  # NAT64 of the local network
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),  # site-local, withdrawn but still routed by some
        ("ff00::/8", "multicast"),
        ("::/96", "reserved"),  # the compatible and translated carriers below are long dead
        ("::ffff:0:0:0/96", "reserved"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
)
# An IPv6 address may carry an IPv4 one, which is where the packet ends: (network, bits below the IPv4 part).
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),  # mapped
    (IPv6Network("::/96"), 0),  # compatible
    (IPv6Network("::ffff:0:0:0/96"), 0),  # translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("2002::/16"), 80),  # 6to4
)
_TEREDO = IPv6Network("2001::/32")
_GLOBAL = IPv6Network("2000::/3")

_BAD_PORTS = """
    1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119
    123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636
    989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697
    10080
"""
"""The fetch standard's list. Browsers refuse these: a request can be made to look like another protocol's."""
_SERVICE_PORTS = """
    445 873 1433 1521 2181 2375 2376 2379 2380 3306 3389 5432 5671 5672 5900 5984 6379 6380 7687 9042 9092
    9160 9200 9300 10250 11211 26379 27017 27018 27019
"""
"""Databases, queues and the like. No site lives there, and some obey whoever can send them a line."""
_REFUSED_PORTS = frozenset(map(int, (_BAD_PORTS + _SERVICE_PORTS).split()))


def refused(address: str) -> str | None:
    """Return why an untrusted fetch may not connect to this IP address, or None.

    Anything that is not an IP address is refused.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an IP address"
    return _refused_v4(parsed) if isinstance(parsed, IPv4Address) else _refused_v6(parsed)


def refused_port(number: int) -> str | None:
    """Return why an untrusted fetch may not connect to this port, or None."""
    return "service" if number in _REFUSED_PORTS else None


def _refused_v4(address: IPv4Address) -> str | None:
    return next((reason for network, reason in _V4 if address in network), None)


def _refused_v6(address: IPv6Address) -> str | None:
    bare = IPv6Address(int(address))  # without a scope: fe80::1%eth0 is in fe80::/10 all the same
    carried = _carried(bare)
    for inner in carried:
        reason = _refused_v4(inner)
        if reason is not None and int(bare) > 1:  # :: and ::1 have names of their own
            return f"{reason}, as {inner}"
    for network, reason in _V6:
        if bare in network:
            return reason
    # Everything that is not handed out for the public Internet yet.
    return None if carried or bare in _GLOBAL else "reserved"


def _carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    if address in _TEREDO:
        bits = int(address)
        return IPv4Address(bits >> 64 & 0xFFFFFFFF), IPv4Address(~bits & 0xFFFFFFFF)
    for network, shift in _CARRIERS:
        if address in network:
            return (IPv4Address(int(address) >> shift & 0xFFFFFFFF),)
    return ()
