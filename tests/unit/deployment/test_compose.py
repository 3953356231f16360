"""The compose file: valid by the schema of the specification, and what every service must have."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from skitter.settings import Run

FOLDER = Path(__file__).parents[3] / "deploy" / "compose"
OURS = {"serve", "worker", "scheduler"}


def interpolated(text: str) -> str:
    """The file as Compose reads it without variables: their defaults, and $$ for a dollar."""
    text = re.sub(r"(?<!\$)\$\{\w+:-([^}]*)\}", r"\1", text)
    assert not re.search(r"(?<!\$)\$\{", text), "a variable without a default"
    return text.replace("$$", "$")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(interpolated((FOLDER / "compose.yaml").read_text()))


def test_it_is_valid(compose: dict[str, Any]) -> None:
    schema = json.loads(Path(__file__).with_name("compose-spec.json").read_text())
    jsonschema.validators.validator_for(schema)(schema).validate(compose)


def test_every_service_is_bounded_and_restarted_and_only_loopback_reaches_it(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["restart"] == "unless-stopped", name
        assert service["mem_limit"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "max-size" in service["logging"]["options"], name
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if name in OURS:
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name
            assert seconds(service["stop_grace_period"]) > Run().shutdown_seconds + 5, name
        else:
            assert service["healthcheck"]["test"], name
            assert service["profiles"], name
            assert not re.search(r":latest$|/[^:]+$", service["image"]), name
    profiles = {profile for service in compose["services"].values() for profile in service.get("profiles", [])}
    assert profiles == {"redis", "postgres", "rabbitmq", "kafka", "zookeeper", "monitoring"}


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text[:-1])


def test_commands_are_those_of_the_command_line(compose: dict[str, Any], parsed: Any) -> None:
    for name in OURS:
        words = compose["services"][name]["command"]
        assert words[0] == name
        assert parsed(words).frontier in ("sqlite:/project/crawls.db", ["sqlite:/project/crawls.db"])


def test_what_services_use_is_declared_and_files_are_there(compose: dict[str, Any], tmp_path: Path) -> None:
    copy = tmp_path / "compose"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("secrets", ".env", "project"))
    subprocess.run([copy / "make-secrets"], check=True, stdout=subprocess.DEVNULL)
    for kind in ("secrets", "configs"):
        for name, declared in compose[kind].items():
            assert (copy / declared["file"]).is_file(), name
        used = {
            use if isinstance(use, str) else use["source"]
            for service in compose["services"].values()
            for use in service.get(kind, [])
        }
        assert used <= set(compose[kind])
    for service in compose["services"].values():
        assert set(service["networks"]) <= set(compose["networks"])
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source.startswith(".") or source in compose["volumes"], volume


def test_secrets_are_made_once_and_serve_takes_the_tokens(tmp_path: Path) -> None:
    script = tmp_path / "make-secrets"
    shutil.copy(FOLDER / "make-secrets", script)
    subprocess.run([script], check=True, stdout=subprocess.DEVNULL)
    tokens = tmp_path / "secrets" / "tokens"
    first = tokens.read_text()
    subprocess.run([script], check=True, stdout=subprocess.DEVNULL)
    assert tokens.read_text() == first
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    user = 10001 if os.geteuid() == 0 else os.geteuid()
    assert tokens.stat().st_uid == (tmp_path / "project").stat().st_uid == user
    assert f"SKITTER_UID={user}\n" in (tmp_path / ".env").read_text()
    roles = [line.split() for line in first.splitlines() if not line.startswith("#")]
    assert [role for role, _ in roles] == ["admin", "worker", "viewer"]
    assert len({token for _, token in roles}) == 3
    assert (tmp_path / "secrets" / "viewer_token").read_text() == roles[2][1]


def test_a_redis_starts_with_the_password_of_its_file(compose: dict[str, Any], tmp_path: Path) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server")
    service = compose["services"]["redis"]
    script = service["entrypoint"][2].replace("valkey-server", "redis-server")
    (tmp_path / "password").write_text("a secret")
    for there, here in {"/run/secrets/redis_password": tmp_path / "password", "/data": tmp_path}.items():
        script = script.replace(there, str(here))
    # A socket in place of a port, which another test may have.
    script = script.replace("dir ", f"port 0\nunixsocket {tmp_path}/socket\ndir ", 1)
    server = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        assert any("eady to accept connections" in line for line in lines)

        def say(*words: str, password: str = "") -> str:
            command = ["redis-cli", "-s", f"{tmp_path}/socket", *words]
            done = subprocess.run(
                command, env=os.environ | {"REDISCLI_AUTH": password}, capture_output=True, text=True, check=False
            )
            return done.stdout.strip()

        assert "NOAUTH" in say("PING")
        health = service["healthcheck"]["test"][1]
        health = health.replace("/run/secrets/redis_password", str(tmp_path / "password"))
        health = health.replace("valkey-cli", f"redis-cli -s {tmp_path}/socket")
        assert subprocess.run(["/bin/sh", "-c", health], check=False).returncode == 0
        assert "noeviction" in say("CONFIG", "GET", "maxmemory-policy", password="a secret")
        assert "yes" in say("CONFIG", "GET", "appendonly", password="a secret")
        words = Path(f"/proc/{server.pid}/cmdline").read_bytes()
        assert b"redis-server" in words
        assert b"a secret" not in words
    finally:
        server.terminate()
        server.communicate()
    assert server.returncode == 0
