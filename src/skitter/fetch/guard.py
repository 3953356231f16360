"""The network guard: which addresses a found link may not lead to.

A crawler follows what strangers write. Without a guard, a page could send it to the router, to a
database on loopback, or to the cloud's metadata service, and the answer would end in the results.
Names are no help (anyone can point a name at 127.0.0.1, or change it between a check and a connect),
so the engine asks here about the address itself, before each socket is opened.

The networks are listed rather than left to ``ipaddress.is_private``, whose idea of private differs
between Python versions. Source: the IANA special-purpose address registries.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_MAX_ANSWERS = 10_000

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


class Guard:
    """The guard of one engine, asked about every address of an untrusted request.

    It is asked twice: before a socket is opened, and before a request is sent. The second time is for
    connections that were kept alive, which nobody opens again. libcurl reuses one only for the same scheme,
    host name and port, also in HTTP/2 (it never sends a request for one name down a connection made for
    another), so a name that points inside cannot borrow a trusted host's connection. But whether two requests
    of one host key are equally trusted is the caller's word, and the guard does not rest on it.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._answers: dict[str, str | None] = {}

    def objection(self, address: str) -> str | None:
        """Why nothing may be sent there; None when it may."""
        if self._allow_private:
            return None
        try:
            return self._answers[address]
        except KeyError:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[address] = refused(address)
            return answer


def refused(address: str) -> str | None:
    """Why an untrusted fetch may not connect to this IP address; None when it may.

    What is not an IP address is refused: the guard never takes a guess.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an IP address"
    return _refused_v4(parsed) if isinstance(parsed, IPv4Address) else _refused_v6(parsed)


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
