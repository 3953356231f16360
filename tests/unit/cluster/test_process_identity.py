"""Who a worker is, and whether it is certainly gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from skitter.cluster import process_identity
from skitter.cluster.process_identity import is_dead, worker_id


def test_a_living_process_is_not_dead() -> None:
    assert not is_dead(worker_id())


def test_a_process_that_ended_is_dead_also_as_a_zombie() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        worker = worker_id(process.pid)
        assert not is_dead(worker)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(worker), "nobody has waited for it yet"
    assert is_dead(worker)


def test_another_process_of_the_same_number_is_not_the_worker() -> None:
    node, pid, started = worker_id().rsplit(":", 2)
    assert is_dead(f"{node}:{pid}:{int(started) - 1}")


def test_nothing_is_said_of_other_machines() -> None:
    assert not is_dead("elsewhere:999999:1")
    assert not is_dead(f"x:{socket.gethostname()}:999999:1")


@pytest.mark.parametrize("worker", ["", "w", "a:b", "a:b:c", ":::", f"{socket.gethostname()}:x:1"])
def test_a_name_of_another_kind_is_not_dead(worker: str) -> None:
    assert not is_dead(worker)


def test_a_node_may_be_called_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_identity, "_node", lambda: "fd00::1")
    assert not is_dead(worker_id())
    assert is_dead("fd00::1:999999999:1")
