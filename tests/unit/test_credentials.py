"""Which origin is given which credential, and digests as the RFC's examples have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from skitter.agent import Credential
from skitter.cli.credential_tables import read_credentials
from skitter.cli.settings import setting_rows
from skitter.cli.settings_layers import collect, read_project
from skitter.errors import SettingsError
from skitter.fetch.credentials import CredentialTable
from skitter.fetch.digest import find_challenge
from skitter.settings import Settings

SECRET = "s3cret-w0rd"


def bearer(origin: str) -> Credential:
    return Credential(origin=origin, kind="bearer", token=SECRET)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("https://api.example.com", ["https://api.example.com"]),
        ("https://API.Example.com:443", ["https://api.example.com"]),
        ("https://api.example.com:8443", ["https://api.example.com:8443"]),
        ("http://[::1]:8080", ["http://[::1]:8080"]),
        ("https://*.example.com", ["https://www.example.com", "https://a.b.example.com"]),
        ("https://*.example.com:8443", ["https://www.example.com:8443"]),
    ],
)
def test_an_origin_is_found_by_itself_and_by_no_other(given: str, found: list[str]) -> None:
    asked = [
        *("https://api.example.com", "http://api.example.com", "https://api.example.com:8443", "http://[::1]:8080"),
        *("https://example.com", "https://www.example.com", "https://a.b.example.com", "https://www.example.com:8443"),
        *("https://api.example.com.evil.example", "https://evilexample.com", "http://www.example.com"),
    ]
    table = CredentialTable([bearer(given)])
    expected = [*found, *(["https://api.example.com"] if given == "https://*.example.com" else [])]
    expected += ["https://api.example.com:8443"] if given == "https://*.example.com:8443" else []
    assert sorted(origin for origin in asked if table.find(origin)) == sorted(expected)


def test_the_nearest_credential_goes_first() -> None:
    origins = ["https://*.example.com", "https://*.b.example.com", "https://a.b.example.com"]
    table = CredentialTable([bearer(origin) for origin in origins])
    asked = ["https://x.example.com", "https://x.b.example.com", "https://a.b.example.com"]
    assert [one.origin for origin in asked if (one := table.find(origin))] == origins


@pytest.mark.parametrize(
    "table",
    [
        {"origin": "api.example.com", "kind": "bearer", "token": SECRET},
        {"origin": "https://api.example.com/path", "kind": "bearer", "token": SECRET},
        {"origin": f"https://me:{SECRET}@api.example.com", "kind": "bearer", "token": SECRET},
        {"origin": "https://*", "kind": "bearer", "token": SECRET},
        {"origin": "https://a.*.example.com", "kind": "bearer", "token": SECRET},
        {"origin": "https://a.example", "kind": "bearer"},
        {"origin": "https://a.example", "kind": "bearer", "token": f"{SECRET}\r\nX: y"},
        {"origin": "https://a.example", "kind": "basic", "user": "me"},
        {"origin": "https://a.example", "kind": "basic", "user": "m:e", "password": SECRET},
        {"origin": "https://a.example", "kind": "digest", "user": "me\n", "password": SECRET},
        {"origin": "https://a.example", "kind": "basic", "user": "me", "password": SECRET, "token": SECRET},
        {"origin": "https://a.example", "kind": "certificate"},
        {"origin": "http://a.example", "kind": "certificate", "certificate": "a.pem"},
        {"origin": "https://a.example", "kind": "kerberos", "password": SECRET},
        {"origin": "https://a.example", "kind": "bearer", "token": SECRET, "extra": SECRET},
        SECRET,
    ],
)
def test_a_wrong_credential_is_refused_without_its_secret(table: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_layers([("the test", {"credentials": [table]})])
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.__cause__!r}"


def test_one_origin_has_one_credential() -> None:
    tables = [
        {"origin": origin, "kind": "bearer", "token": "t"} for origin in ("https://A.example", "https://a.example")
    ]
    with pytest.raises(SettingsError, match="bad value") as caught:
        Settings.from_layers([("the test", {"credentials": tables})])
    assert "two credentials for the same origin" in caught.value.hint


def test_settings_are_stored_and_shown_without_secrets() -> None:
    table = {"origin": "https://a.example", "kind": "basic", "user": "me", "password": SECRET}
    settings = Settings.from_layers([("the test", {"credentials": [table]})])
    assert SECRET not in repr(settings)
    assert "credentials" not in settings.job_wide()
    # As it comes to a worker process.
    again = Settings.from_layers([("the node", msgspec.to_builtins(settings.run))])
    assert again.run.credentials[0].password == SECRET


def test_a_project_file_says_where_secrets_are(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(f"{SECRET}\n")
    password.chmod(0o600)
    tables = [
        {"origin": "https://a.example", "kind": "basic", "user": "me", "password_file": str(password)},
        {"origin": "https://b.example", "kind": "bearer", "token_env": "B_TOKEN"},
    ]
    lines = [
        f"[[credentials]]\n{''.join(f'{name} = {value!r}' + chr(10) for name, value in table.items())}"
        for table in tables
    ]
    (tmp_path / "skitter.toml").write_text("\n".join(lines))
    collected = collect(
        spider=("", {}),
        project=read_project(tmp_path),
        environment={"B_TOKEN": "t0ken-of-b"},
        config=None,
        overrides=(),
    )
    assert [one.secrets[0] for one in collected.settings.run.credentials] == [SECRET, "t0ken-of-b"]
    shown = [row["value"] for row in setting_rows(collected, changed=True)]
    assert shown == [["basic https://a.example", "bearer https://b.example"]]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"password": SECRET}, "a secret must not be in the file itself: [[credentials]], number 1: password"),
        ({"password_env": "MISSING"}, "environment variable not set: [[credentials]], number 1: password_env: MISSING"),
        ({"password_file": "open"}, "a secret is not private, [[credentials]], number 1: others may read it"),
        ({"password_file": "missing"}, "cannot read a file, [[credentials]], number 1: "),
        ({"password_file": "ours", "password_env": "HERE"}, "given twice: [[credentials]], number 1: password"),
        ({"pasword_file": "ours"}, "unknown field: [[credentials]], number 1: pasword_file"),
        ({"user": 1}, "not text: [[credentials]], number 1: user"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, mode in (("open", 0o644), ("ours", 0o600)):
        Path(name).write_text(SECRET)
        Path(name).chmod(mode)
    with pytest.raises(SettingsError) as caught:
        read_credentials("[[credentials]]", [{"origin": "https://a.example", **fields}], {"HERE": SECRET})
    assert str(caught.value).startswith(error)
    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("table", ["run", "fetch"])
def test_a_group_of_settings_has_no_credentials(tmp_path: Path, table: str) -> None:
    fields = f'{{origin = "https://a.example", kind = "bearer", token = "{SECRET}"}}'
    (tmp_path / "skitter.toml").write_text(f"[{table}]\ncredentials = [{fields}]\n")
    with pytest.raises(SettingsError) as caught:
        collect(spider=("", {}), project=read_project(tmp_path), environment={}, config=None, overrides=())
    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("value", [SECRET, f"[{SECRET}]", {"token": SECRET}])
def test_credentials_are_no_text(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_layers([("the environment (SKITTER_CREDENTIALS)", {"credentials": value})])
    assert SECRET not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_a_digest_is_that_of_the_rfc(algorithm: str, response: str) -> None:
    header = (
        f'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={algorithm}, '
        'nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
    )
    challenge = find_challenge([("www-authenticate", header)])
    assert challenge is not None
    challenge._cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
    answer = challenge.answer("Mufasa", "Circle of Life", "GET", "/dir/index.html")
    assert f'response="{response}"' in answer
    assert 'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"' in answer
    assert "nc=00000001" in answer
    assert "nc=00000002" in challenge.answer("Mufasa", "Circle of Life", "GET", "/dir/index.html")


@pytest.mark.parametrize(
    ("headers", "nonce"),
    [
        (["Basic realm=x"], None),
        (['Negotiate, Digest realm="a, b", nonce="n=1,\\"2\\"", Basic realm=x, nonce=wrong'], 'n=1,"2"'),
        (["Digest nonce=md5, algorithm=MD5", "Digest nonce=sha, algorithm=SHA-256-sess"], "sha"),
        (['Digest nonce=a, qop="auth-int"'], None),
        (["Digest nonce=a, algorithm=SHA-512-256"], None),
        (["Digest realm=x"], None),
        ([], None),
        (["digest " + "a" * 200_000], None),
        (['Digest nonce="' + "\\" * 200_000], None),
    ],
)
def test_the_best_challenge_that_can_be_answered_is_taken(headers: list[str], nonce: str | None) -> None:
    challenge = find_challenge([("www-authenticate", value) for value in headers])
    assert (None if challenge is None else challenge.nonce) == nonce


def test_the_examples_of_the_documentation_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secrets").mkdir()
    Path("secrets/intranet").write_text(f"{SECRET}\n")
    Path("secrets/intranet").chmod(0o600)
    pages = Path(__file__).resolve().parents[2] / "docs" / "how-to"
    # Of credentials the page has a first example that runs, and one with all kinds.
    blocks = [
        re.findall(r"^```toml\n(.*?)^```$", (pages / page).read_text(), re.MULTILINE | re.DOTALL)[-1]
        for page in ("authentication.md", "user-agents.md")
    ]
    (tmp_path / "skitter.toml").write_text("\n".join(reversed(blocks)))
    collected = collect(
        spider=("", {}),
        project=read_project(tmp_path),
        environment={"API_TOKEN": "t0ken", "KEY_PASSWORD": "k3y"},
        config=None,
        overrides=(),
    )
    basic, api, partners = collected.settings.run.credentials
    assert (basic.user, basic.password, api.token, partners.key_password) == ("crawler", SECRET, "t0ken", "k3y")
    assert len(collected.settings.fetch.user_agents) == len(collected.settings.fetch.headers) == 2
