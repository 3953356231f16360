"""What is published: a wheel that crawls in an environment of its own, and sources that build the same wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import skitter as package
from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served

ROOT = Path(__file__).parents[2]
BUILT = ("SOURCE_DATE_EPOCH", "1700000000")


def build(source: Path, out: Path, *targets: str) -> None:
    kinds = [word for target in targets for word in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(out), *kinds],
        cwd=source,
        check=True,
        capture_output=True,
        env=os.environ | dict([BUILT]),
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder, "sdist", "wheel")
    return folder


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"skitter-{package.__version__}-py3-none-any.whl"
    home = Path(package.__file__).parent
    expected = {
        f"skitter/{path.relative_to(home)}"
        for path in home.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert found == expected


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        # From Python 3.11.4 on there are filters, and from 3.12 on a warning without one.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (folder,) = tmp_path.iterdir()
    # What a distributor needs to build, check and test.
    for name in (".ci/run", "Makefile", "requirements-dev.lock", "tests/conftest.py", "scripts/services", "LICENSE"):
        assert (folder / name).is_file(), name
    for name in ("CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "deploy/docker/Dockerfile", "docs/index.md"):
        assert (folder / name).is_file(), name
    assert not list(folder.rglob("__pycache__")), "what Python has compiled"
    assert not (folder / "deploy" / "compose" / "secrets").exists()
    build(folder, tmp_path / "again", "wheel")
    (again,) = (tmp_path / "again").glob("*.whl")
    assert contents(again) == contents(wheel)


def test_the_wheel_crawls_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment, by a path: nothing is fetched."""
    (wheel,) = built.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python]
    subprocess.run([*install, wheel], check=True)
    site = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    # Behind its own packages; without the files of this environment that would lead to the sources.
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "skitter" not in path.name and path.suffix != ".pth":
            (dependencies / path.name).symlink_to(path)
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    program = tmp_path / "venv" / "bin" / "skitter"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*words: object) -> str:
        command = [str(program), *map(str, words)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [python, "-c", "import skitter; print(skitter.__file__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(site)
    assert run("--version") == f"skitter {package.__version__}\n"
    with served(WebSpec.plain(hosts=1, pages_per_host=10)) as web:
        run("crawl", *web.urls, "-o", "out.jsonl", "-q", "--delay", 0)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 10
