"""The token file of a master: its form, its mode, and that it is read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skitter import private_files
from skitter.errors import UsageError
from skitter.frontier.http.wire import Role
from skitter.web import file_changes
from skitter.web.credentials import TokenFile
from skitter.web.server import MasterServer, ServerConfig

ONE, TWO = "first-token-0123456789", "second-token-0123456789"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.touch(0o600)
    return path


def test_one_token_alone_is_for_everything(path: Path) -> None:
    path.write_text(f"# the only one\n\n{ONE}\n")
    found = TokenFile(path).of_token(ONE)
    assert found is not None
    assert (found.role, found.jobs) == (Role.ADMIN, ())
    assert ONE not in found.name
    assert TokenFile(path).of_token(ONE + "x") is None


def test_lines_have_a_role_and_jobs(path: Path) -> None:
    path.write_text(f"worker {ONE} shop news-*\nviewer {TWO}\n")
    tokens = TokenFile(path)
    worker, viewer = tokens.of_token(ONE), tokens.of_token(TWO)
    assert worker is not None
    assert viewer is not None
    assert [worker.may_see(job) for job in ("shop", "news-de", "other")] == [True, True, False]
    assert (viewer.role, viewer.may_see("other")) == (Role.VIEWER, True)


def test_a_certificate_is_known_by_its_names(path: Path) -> None:
    path.write_text("worker cert:node-1 shop\noperator cert:desk.example\n")
    tokens = TokenFile(path)
    node = tokens.of_certificate({"subject": ((("commonName", "node-1"),),)})
    desk = tokens.of_certificate({"subject": (), "subjectAltName": (("DNS", "desk.example"), ("IP Address", "::1"))})
    assert (node and node.role, desk and desk.role) == (Role.WORKER, Role.OPERATOR)
    assert tokens.of_certificate({"subject": ((("commonName", "stranger"),),)}) is None
    assert tokens.of_token("cert:node-1") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        f"{ONE}\n{TWO}\n",
        f"boss {ONE}\n",
        "worker short\n",
        "worker\n",
        f"worker\n{ONE}\n",
        "worker cert:a@b\n",
    ],
)
def test_a_file_with_a_mistake_is_refused_and_no_token_is_shown(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        TokenFile(path)
    assert ONE not in f"{caught.value} {caught.value.hint}"


def test_a_file_that_others_may_read_is_refused(path: Path) -> None:
    path.write_text(ONE)
    path.chmod(0o640)
    with pytest.raises(UsageError, match="others may read it") as caught:
        TokenFile(path)
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize(
    ("owner", "group", "mode", "is_taken"),
    [(0, 7, 0o440, True), (0, 7, 0o640, True), (0, 8, 0o440, False), (0, 7, 0o444, False), (5, 7, 0o440, False)],
)
def test_a_file_that_root_gave_to_a_group_of_ours_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch, owner: int, group: int, mode: int, is_taken: bool
) -> None:
    path.write_text(ONE)
    path.chmod(mode)
    # As Kubernetes mounts secrets, for a process that is user 5 and in the groups 6 and 7.
    found = path.stat()
    fields = [found.st_mode, found.st_ino, found.st_dev, 1, owner, group, found.st_size, 0, 0, 0]
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(fields))
    monkeypatch.setattr(os, "geteuid", lambda: 5)
    monkeypatch.setattr(os, "getegid", lambda: 6)
    monkeypatch.setattr(os, "getgroups", lambda: [7])
    if is_taken:
        assert private_files.read(path) == ONE
    else:
        with pytest.raises(private_files.NotPrivateError, match="others may read it"):
            private_files.read(path)


def test_a_file_that_changes_counts_at_once_and_a_mistake_does_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_changes, "LOOK_SECONDS", 0.0)
    path.write_text(ONE)
    tokens = TokenFile(path)
    path.write_text(f"admin {TWO}\n")
    os.utime(path, ns=(1, 1))
    assert tokens.of_token(ONE) is None
    assert tokens.of_token(TWO) is not None
    path.write_text("nonsense and more\n")
    assert tokens.of_token(TWO) is not None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "master.example"])
async def test_without_credentials_a_master_listens_on_loopback_only(host: str) -> None:
    with pytest.raises(UsageError, match="this machine only") as caught:
        MasterServer(ServerConfig(frontiers=("sqlite:x.db",), host=host))
    assert "--token-file" in caught.value.hint


async def test_certificates_of_clients_need_tls_and_lines(path: Path) -> None:
    with pytest.raises(UsageError, match="client certificates need TLS"):
        MasterServer(ServerConfig(frontiers=("sqlite:x.db",), client_ca="ca.pem"))
    with pytest.raises(UsageError, match="must be given together"):
        MasterServer(ServerConfig(frontiers=("sqlite:x.db",), tls_cert="a.pem"))
