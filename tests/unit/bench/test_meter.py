"""What measures a peer counts each page once, and stops at the number that was asked for."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import others
import pytest


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, as a peer's script would find it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["run_pytest.py", "http://127.0.0.1/", "2"])
    spec = importlib.util.spec_from_file_location("meter", others.SCRIPTS / "meter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_clock_stops_at_the_last_page_that_counts(meter: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([(0.0, 1.0), (3.0, 2.0), (5.0, 4.0)])
    monkeypatch.setattr(meter, "now", lambda: next(times))
    one = meter.Meter("pytest")
    one.begin()
    for page in ("/a", "/a", "/b", "/c"):
        one.page(page)
    report = json.loads(one.report())
    assert one.full()
    assert report["pages"] == 2
    assert report["pages_per_second"] == 0.4
    assert report["cpu_ms_per_page"] == 1500
    assert report["rss_mb"] > 0
    assert report["version"] == pytest.__version__


@pytest.mark.parametrize(
    "peer", [one for one in others.PEERS.values() if not one.go and not one.own], ids=lambda peer: peer.name
)
def test_a_peer_has_its_script_and_pinned_requirements(peer: others.Peer) -> None:
    assert (others.SCRIPTS / peer.script).is_file()
    lines = (others.SCRIPTS / f"requirements-{peer.environment}.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted
    assert all("==" in line for line in wanted)


def test_a_peer_in_the_environment_of_this_project_has_its_script() -> None:
    peer = others.PEERS["scrapy-on-skitter"]
    assert (others.SCRIPTS / peer.script).is_file()
    assert peer.command("http://a.example/", 5, "redis://b.example")[2:] == [
        "http://a.example/",
        "5",
        "redis://b.example",
    ]


def test_a_peer_in_go_has_its_program_and_a_checksum_of_every_module() -> None:
    folder = others.SCRIPTS / others.PEERS["colly"].script
    assert (folder / "main.go").is_file()
    modules = [line.split()[:2] for line in (folder / "go.mod").read_text().splitlines() if line.startswith("\t")]
    sums = (folder / "go.sum").read_text()
    assert modules
    assert all(f"{name} {version} h1:" in sums for name, version in modules)


def test_a_peer_in_go_is_left_out_where_there_is_no_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others.shutil, "which", lambda _: None)
    with pytest.raises(others.NotInstalledError, match="there is no go here"):
        others.install(others.PEERS["colly"])
