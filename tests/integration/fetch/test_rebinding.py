"""Names that change their answer: the address that is connected to is the one that was checked.

The process that fetches has a network of its own (network.c): its names answer what the test wants, differently each
time, and a few public addresses lead to a server on loopback that plays the Internet. Every address that a socket is
connected to is on record, so that these tests do not only see that a canary was not reached.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.measured_fetches import measure
from rig.web import Site, Whole
from rig.web_connection import Connection, Server

HERE = Path(__file__).parent
ZONE = "answers.test"
PUBLIC = "08080808"
LOOPBACK = "7f000001"


def hang_up(connection: Connection) -> None:
    """Take a request, and say nothing to it."""
    connection.read_head()


def response(body: str = "", status: str = "200 OK", **headers: str) -> Whole:
    return status, {"Content-Type": "text/html", "Connection": "close", **headers}, body.encode()


class Network:
    """The other network: what is outside leads to ``internet``, and canaries listen inside on the port of the URLs."""

    def __init__(self, library: Path, folder: Path, answer: Callable[[str], Whole]) -> None:
        self.internet = Site({"*": lambda seen, _: answer(seen.path)})
        self.canaries = [Server(hang_up).start()]
        self.port = self.canaries[0].port
        with contextlib.suppress(OSError):  # a machine without IPv6
            self.canaries.append(Server(hang_up, host="::1", port=self.port).start())
        self._log = folder / "connects"
        self.environment = os.environ | {
            "LD_PRELOAD": str(library),
            "NETWORK_LOG": str(self._log),
            "NETWORK_PORT": str(self.internet.port),
        }

    def url(self, *answers: str, path: str = "/", name: str = "a") -> str:
        return f"http://{name}.{'-'.join(answers)}.{ZONE}:{self.port}{path}"

    def fetch(self, *wanted: tuple[str, bool], at_once: int = 1) -> list[str]:
        command = [sys.executable, str(HERE / "fetching.py"), str(at_once)]
        run = subprocess.run(
            command,
            input=json.dumps(wanted),
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=300,
        )
        endings, _ = json.loads(run.stdout)
        return endings

    def connected(self) -> set[str]:
        """The addresses that anything was connected to."""
        return {line.split(" ")[0] for line in self._log.read_text().splitlines()} if self._log.exists() else set()

    def assert_safe(self) -> None:
        assert self.connected() <= {"8.8.8.8", "93.184.216.34"}
        assert [canary.connections for canary in self.canaries] == [0] * len(self.canaries)

    def close(self) -> None:
        for listener in (self.internet, *self.canaries):
            listener.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    problem = ""
    if sys.platform != "linux":
        problem = "LD_PRELOAD is Linux's"
    elif compiler is None:
        problem = "no C compiler"
    if problem:
        if os.environ.get("CI") == "true" and sys.platform == "linux":
            pytest.fail(problem)
        pytest.skip(problem)
    built = tmp_path_factory.mktemp("network") / "network.so"
    command = [str(compiler), "-shared", "-fPIC", "-O1", "-o", str(built), str(HERE / "network.c"), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return built


@pytest.fixture
def network(library: Path, tmp_path: Path) -> Iterator[Callable[..., Network]]:
    made: list[Network] = []

    def make(answer: Callable[[str], Whole] = lambda _path: response("fine")) -> Network:
        made.append(Network(library, tmp_path, answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _hex(address: str) -> str:
    return ipaddress.ip_address(address).packed.hex()


INSIDE = [
    *("127.0.0.1", "127.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.254", "192.168.0.1", "100.64.0.1", "0.0.0.0"),
    *("169.254.1.1", "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("224.0.0.1", "239.1.2.3", "255.255.255.255", "240.0.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1", "203.0.113.9"),
    *("::1", "::", "fe80::1", "fd00:ec2::254", "fc00::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::127.0.0.1"),
    *(
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::1",
        "2001:0:a9fe:a9fe::",
        "fec0::1",
    ),
]


def test_the_other_network_is_what_it_is_said_to_be(network: Any) -> None:
    net = network()
    # Trusted, so that nothing is refused: this is what the guard is up against.
    assert net.fetch((net.url(PUBLIC), False)) == ["200"]
    assert net.fetch((net.url(LOOPBACK), True)) == ["protocol"]
    assert net.canaries[0].connections == 1
    assert net.connected() == {"8.8.8.8", "127.0.0.1"}


def test_a_name_that_points_inside_is_not_connected_to(network: Any) -> None:
    net = network()
    assert net.fetch(*[(net.url(_hex(address)), False) for address in INSIDE]) == ["guard"] * len(INSIDE)
    assert net.connected() == set()
    net.assert_safe()


def test_every_address_of_an_answer_is_looked_at(network: Any) -> None:
    net = network()
    names = [f"{PUBLIC}_{_hex(address)}" for address in INSIDE] + [f"{_hex(address)}_{PUBLIC}" for address in INSIDE]
    # The inside address is left out, and the other one will do.
    assert set(net.fetch(*[(net.url(name), False) for name in names], at_once=8)) == {"200"}
    net.assert_safe()
    all_inside = "_".join(_hex(address) for address in INSIDE[:6])
    assert net.fetch((net.url(all_inside), False)) == ["guard"]
    net.assert_safe()


def test_a_name_that_changes_its_answer_a_thousand_times_never_leads_inside(network: Any) -> None:
    net = network()
    flips = [(net.url(PUBLIC, LOOPBACK, path=f"/{number}"), False) for number in range(1_000)]
    assert net.fetch(*flips) == ["200", "guard"] * 500
    assert net.internet.connections == 500
    net.assert_safe()


def test_many_names_that_change_at_once_never_lead_inside(network: Any) -> None:
    net = network()
    names = [net.url(PUBLIC, LOOPBACK, _hex("::1"), name=f"n{number}") for number in range(50)]
    results = net.fetch(*[(name, False) for _ in range(20) for name in names], at_once=32)
    assert set(results) == {"200", "guard"}
    net.assert_safe()


def test_a_typed_name_that_was_outside_does_not_lead_inside_later(network: Any) -> None:
    net = network()
    assert net.fetch(*[(net.url(PUBLIC, LOOPBACK), True)] * 10) == ["200", "guard"] * 5
    net.assert_safe()


def test_an_answer_of_a_thousand_addresses_is_looked_at_to_its_end(network: Any) -> None:
    net = network()
    thousand = [f"{_hex(address)}x1000" for address in ("127.0.0.1", "10.0.0.1", "::1", "fd00:ec2::254")]
    assert net.fetch(*[(net.url(name), False) for name in thousand]) == ["guard"] * len(thousand)
    assert net.fetch(*[(net.url(f"{name}_{PUBLIC}"), False) for name in thousand]) == ["200"] * len(thousand)
    net.assert_safe()


def _measure_lookups(net: Network, names: list[str], silence_seconds: int) -> dict[str, Any]:
    return measure(
        urls=[f"http://{name}:{net.port}/" for name in names],
        settings={"connect_timeout_seconds": silence_seconds - 1, "timeout_seconds": 20},
        trusted=False,
        environment=net.environment | {"NETWORK_SILENCE": str(silence_seconds)},
    )


def test_silent_name_servers_hold_up_names_of_their_own_zone_only(network: Any) -> None:
    """A page can name thousands in a zone that never answers."""
    net = network()
    silent = [f"n{number}.zone{number % 2}.silent" for number in range(60)]
    good = [f"n{number}.{PUBLIC}.{ZONE}" for number in range(10)]
    found = _measure_lookups(net, silent + good, 5)
    kinds = [ending["kind"] for ending in found["endings"]]
    assert set(kinds[:60]) == {"dns"}
    assert kinds[60:] == ["200"] * 10
    assert found["threads"] <= 20
    net.assert_safe()


def test_many_silent_zones_hold_up_no_other(network: Any) -> None:
    net = network()
    names = [f"name.zone{number}.silent" for number in range(100)] + [f"n.{PUBLIC}.{ZONE}"]
    found = _measure_lookups(net, names, 4)
    kinds = [ending["kind"] for ending in found["endings"]]
    assert set(kinds[:100]) == {"dns"}
    assert kinds[100] == "200"
    net.assert_safe()


def test_a_process_does_not_wait_for_silent_name_servers_when_it_ends(network: Any) -> None:
    net = network()
    net.environment["NETWORK_SILENCE"] = "600"
    assert net.fetch(("http://name.silent/", False)) == ["dns"]


def test_a_crawl_is_not_led_inside(network: Any, tmp_path: Path) -> None:
    """The real command line, and a site on the Internet that does all it can."""
    traps = [
        *(
            "//127.0.0.1:{port}/a",
            "//localhost:{port}/b",
            "//2130706433:{port}/c",
            "//[::1]:{port}/d",
            "//0x7f.1:{port}/e",
        ),
        *("//[::ffff:7f00:1]:{port}/f", "//0.0.0.0:{port}/g", "//127.0.0.1.:{port}/h", "//x@127.0.0.1:{port}/i"),
        *("//inside.7f000001.answers.test:{port}/j", "//flips.08080808-7f000001.answers.test:{port}/k"),
        *("//both.7f000001_08080808.answers.test:{port}/l", "//8.8.8.8:6379/m", "//8.8.8.8:22/n", "file:///etc/passwd"),
        *("gopher://127.0.0.1:{port}/", "/hop", "/hop-again", "//robots.08080808.answers.test:{port}/o"),
    ]

    def answer(path: str) -> Whole:
        if path == "/robots.txt":
            # Of every host: the file is to be had inside.
            return response(status="301 Moved", Location=f"http://127.0.0.1:{net.port}/robots.txt")
        if path == "/start":
            return response(status="302 Found", Location=f"http://127.0.0.1:{net.port}/seed")
        if path.startswith("/hop"):
            return response(status="302 Found", Location=f"//flips.{LOOPBACK}-{PUBLIC}.{ZONE}:{net.port}/{path[1:]}-in")
        links = "".join(f'<a href="{trap.format(port=net.port)}">x</a>' for trap in traps)
        # Enough pages for the names to change many times between them.
        more = "".join(f'<a href="/{path.strip("/")}{digit}">x</a>' for digit in range(3)) if len(path) < 5 else ""
        return response(links + more)

    net = network(answer)
    seeds = [net.url(PUBLIC), net.url(PUBLIC, path="/start")]
    (tmp_path / "follow.py").write_text(
        "from skitter import Spider\n"
        "class Follow(Spider):\n"
        f"    start_urls = {seeds!r}\n"
        "    def parse(self, response):\n"
        "        yield {'url': response.url}\n"
        "        yield from response.follow_all(css='a')\n"
    )
    command = [sys.executable, "-m", "skitter", "crawl", "follow.py", "--json", "-q", "--job", "j"]
    run = subprocess.run(command, cwd=tmp_path, env=net.environment, capture_output=True, text=True, check=True)
    summary = json.loads(run.stdout)
    assert summary["pages"] > 50
    assert summary["excluded"] >= 14
    assert summary["errors"] == {}
    net.assert_safe()
