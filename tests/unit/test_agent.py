"""Who the crawler says it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.agent import (
    DEFAULT_USER_AGENT,
    objection_to_contact,
    objection_to_user_agent,
    product_token,
    user_agent_header,
)
from skitter.errors import SettingsError
from skitter.policy.robots import Robots
from skitter.settings import Fetch, Settings


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        (DEFAULT_USER_AGENT, "skitter"),
        ("MyBot", "MyBot"),
        ("my-bot/2 (+https://a.example/bot)", "my-bot"),
        ("Mozilla/5.0 (compatible; Foobot/1.0; +https://a.example)", "Foobot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla"),
        ("", "*"),
        ("  (nothing)", "nothing"),
    ],
)
def test_the_product_token_of_a_user_agent(agent: str, token: str) -> None:
    assert product_token(agent) == token


@pytest.mark.parametrize(
    ("user_agent", "contact", "sent"),
    [
        (DEFAULT_USER_AGENT, "", "skitter/0.2 (web crawler)"),
        (DEFAULT_USER_AGENT, "https://a.example/bot", "skitter/0.2 (+https://a.example/bot)"),
        (DEFAULT_USER_AGENT, "me@a.example", "skitter/0.2 (+me@a.example)"),
        ("mybot/2", "https://a.example/bot", "mybot/2 (+https://a.example/bot)"),
        ("mybot/2 (+https://a.example/bot)", "https://a.example/bot", "mybot/2 (+https://a.example/bot)"),
    ],
)
def test_a_contact_is_sent_with_the_name(user_agent: str, contact: str, sent: str) -> None:
    assert user_agent_header(user_agent, contact) == Fetch(user_agent=user_agent, contact=contact).agent == sent
    assert product_token(sent) == product_token(user_agent)


@pytest.mark.parametrize(
    "user_agent",
    [
        *("", " ", "/1.0", "*", "*/1.0", "()", "12/3", "Mozilla/5.0 (compatible; *)"),
        *("a\r\nX-Injected: 1", "a\x00", "b\xf6t/1"),
    ],
)
def test_a_name_that_nobody_could_be_called_by_is_refused(user_agent: str) -> None:
    assert objection_to_user_agent(user_agent)
    with pytest.raises(SettingsError, match="bad value in the test: user_agent") as caught:
        Settings.from_layers([("the test", {"user_agent": user_agent})])
    assert "user agent" in caught.value.hint


@pytest.mark.parametrize("user_agent", ["a", "my_bot", "360bot/1", "Mozilla/5.0 (X11)", "bot.example/1.0 me@a.example"])
def test_other_names_are_not(user_agent: str) -> None:
    assert objection_to_user_agent(user_agent) is None


@pytest.mark.parametrize(
    "contact",
    [
        *("somebody", "ftp://a.example", "https://", "@"),
        *("a b@c", "https://a.example/\n", "me@a.example)", "https://\u00f6.example"),
    ],
)
def test_a_contact_that_reaches_nobody_is_refused(contact: str) -> None:
    assert objection_to_contact(contact)
    with pytest.raises(SettingsError, match="bad value in the test: contact") as caught:
        Settings.from_layers([("the test", {"contact": contact})])
    assert "contact" in caught.value.hint


@given(st.text(max_size=40), st.text(max_size=40))
def test_what_is_accepted_can_be_sent_in_one_line_and_has_a_token(user_agent: str, contact: str) -> None:
    if objection_to_user_agent(user_agent) or objection_to_contact(contact):
        return
    sent = user_agent_header(user_agent, contact)
    assert sent.isascii()
    assert sent.isprintable()
    assert product_token(sent) != "*"


def test_robots_are_asked_for_the_name_that_is_sent() -> None:
    text = "User-agent: *\nAllow: /\n\nUser-agent: mybot\nDisallow: /"
    agent = Fetch(user_agent="mybot/2", contact="https://a.example/bot").agent
    assert not Robots.parse(text, agent).allows("https://b.example/")
    assert Robots.parse(text, Fetch(contact="https://a.example/bot").agent).allows("https://b.example/")
