"""The redial command of ``skitter egress``, and the address by which workers reach the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.app.egress import EgressConfig, registered_url
from skitter.egress.redial import Redialed, redial


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo up; echo 192.0.2.7", Redialed("", "192.0.2.7")),
        ("echo 2001:DB8::1; echo; echo", Redialed("", "2001:db8::1")),
        ("echo up", Redialed("", "")),
        ("true", Redialed("", "")),
        ("echo no carrier >&2; exit 3", Redialed("exit code 3: no carrier", "")),
        ("exit 4", Redialed("exit code 4", "")),
        ("no-such-command-here 2>/dev/null", Redialed("exit code 127", "")),
        ("head -c 300000 /dev/zero | tr '\\0' x; echo; echo 192.0.2.8", Redialed("", "192.0.2.8")),
    ],
)
async def test_a_redial_is_judged_by_its_exit_code_and_may_name_an_address(command: str, expected: Redialed) -> None:
    assert await redial(command, 20) == expected


async def test_a_redial_without_an_end_is_killed_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    command = f"sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait"
    for limit_seconds in (0.5, 4, 60):
        assert (await redial(command, limit_seconds)).error == f"not finished after {limit_seconds:g} s"
        # On a busy machine the shell may not have come to its child in this time.
        if child.exists():
            break
    assert _is_dead(int(_text(child)))


def _text(path: Path) -> str:
    return path.read_text()


def _is_dead(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().split()[2] == "Z"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"advertise": "proxy.example"}, "http://egress:pw@proxy.example:3128"),
        ({"advertise": "proxy.example:8080", "host": "192.0.2.1"}, "http://egress:pw@proxy.example:8080"),
        ({"advertise": "[2001:db8::1]"}, "http://egress:pw@[2001:db8::1]:3128"),
        ({"advertise": "[2001:db8::1]:8080"}, "http://egress:pw@[2001:db8::1]:8080"),
        ({"host": "192.0.2.1", "address_url": "https://a.example/"}, "http://egress:pw@192.0.2.1:3128"),
        ({"address_url": "https://a.example/"}, "http://egress:pw@203.0.113.7:3128"),
        ({}, "http://egress:pw@127.0.0.1:3128"),
        ({"frontier": "redis://me:secret@127.0.0.1:6379/0"}, "http://egress:pw@127.0.0.1:3128"),
        ({"proxy": "http://a:b@c:1"}, "http://a:b@c:1"),
    ],
)
def test_workers_reach_it_by_what_is_known_of_it(fields: dict[str, str], expected: str) -> None:
    config = EgressConfig(**{"frontier": "sqlite:j.db", "job": "j", **fields})
    own = config.proxy or "http://egress:pw@127.0.0.1:3128"
    assert registered_url(config, own, 3128, "203.0.113.7") == expected
