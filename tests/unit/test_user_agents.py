"""User agents of a list, and the headers of every request."""

from __future__ import annotations

from collections import Counter

import pytest

from skitter.errors import SettingsError
from skitter.policy.user_agents import UserAgents, user_agent_of
from skitter.settings import Settings
from skitter.spiders.scrapy_settings import translated

AGENTS = [f"agent{number}/1.0" for number in range(5)]


def test_a_host_has_one_user_agent_whoever_asks() -> None:
    urls = [f"https://host{number}.example:8443/page" for number in range(1000)]
    chosen = [UserAgents(AGENTS).of(url) for url in urls]
    assert chosen == [UserAgents(AGENTS).of(url.replace("https", "http").replace(":8443", "")) for url in urls]
    shares = Counter(chosen)
    assert set(shares) == set(AGENTS)
    assert min(shares.values()) > 150


def test_the_choice_is_the_same_in_every_version() -> None:
    """A job that goes on after an upgrade is known to its hosts by the same names."""
    assert [user_agent_of(AGENTS, key) for key in ("example.com", "alice", "")] == [AGENTS[0], AGENTS[4], AGENTS[1]]


def test_a_named_session_has_one_user_agent_for_all_hosts() -> None:
    agents = UserAgents(AGENTS)
    assert {agents.of(f"https://host{number}.example/", "alice") for number in range(100)} == {AGENTS[4]}


def test_a_user_agent_of_a_request_goes_first() -> None:
    agents = UserAgents(AGENTS)
    assert agents.headers({"USER-AGENT": "own/1"}, "https://a.example/") == {"USER-AGENT": "own/1"}
    assert agents.headers({"X": "1"}, "https://a.example/") == {"User-Agent": agents.of("https://a.example/"), "X": "1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_agents", ["*/1.0"]),
        ("user_agents", ["good/1.0", "bäd/1.0"]),
        ("user_agents", ["good/1.0\r\nX: y"]),
        ("headers", ["Accept-Language"]),
        ("headers", ["Accept-Language: de\r\nX: y"]),
        ("headers", ["Accept Language: de"]),
        ("headers", ["X-Empty: "]),
        ("headers", ["User-Agent: other/1.0"]),
        ("headers", ["Authorization: Bearer s3cret"]),
        ("headers", ["X-Api-Key: s3cret"]),
        ("headers", ["Cookie: a=1"]),
        ("headers", ["host: other.example"]),
        ("headers", ["Content-Length: 5"]),
        ("header_order", ["Host"]),
        ("header_order", ["cookie"]),
        ("header_order", ["Accept: text/html"]),
    ],
)
def test_what_cannot_be_sent_or_is_not_for_everybody_is_refused(name: str, value: list[str]) -> None:
    with pytest.raises(SettingsError, match=f"bad value in the test: {name}="):
        Settings.from_layers([("the test", {name: value})])


def test_a_text_has_one_value_a_line() -> None:
    settings = Settings.from_layers([("the environment", {"user_agents": "a/1 (x, y)\nb/2", "headers": "Accept: a/b"})])
    assert settings.fetch.user_agents == ("a/1 (x, y)", "b/2")
    assert settings.fetch.headers == ("Accept: a/b",)
    again = Settings.from_layers([("the job", settings.job_wide())])
    assert again.fetch == settings.fetch


def test_default_request_headers_of_scrapy_are_headers() -> None:
    given = {"DEFAULT_REQUEST_HEADERS": {"Accept": "text/html", "Accept-Language": "en", "X-None": None}}
    (_, values), _, _ = translated("settings.py", given, [])
    settings = Settings.from_layers([("settings.py", values)])
    assert settings.fetch.headers == ("Accept: text/html", "Accept-Language: en")
