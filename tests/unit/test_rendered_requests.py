"""Requests that are rendered: their identity, their need, their actions, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.errors import RequestError, SettingsError
from skitter.intakes.contract import Message
from skitter.intakes.messages import to_request
from skitter.model.browser_actions import MAX_ACTIONS, Click, Fill, JavaScript, Screenshot, Scroll, WaitFor
from skitter.model.request import FILE_CALLBACK, RENDER_VERSION, Fingerprinter, Request, RequestFields, decode, encode
from skitter.policy.redirects import continuation
from skitter.settings import Settings

URL = "https://a.example/app/1"
ALL = [WaitFor("#a"), WaitFor(seconds=1), Click("text=b"), Scroll(3, pixels=10), Fill("#c", "d"), JavaScript("1")]


@pytest.fixture
def fingerprinter() -> Fingerprinter:
    return Fingerprinter(b"secret")


def test_it_is_another_request_with_the_need_of_a_browser(fingerprinter: Fingerprinter) -> None:
    plain, rendered = fingerprinter.entry(Request(URL)), fingerprinter.entry(Request(URL, render=True))
    clicked = fingerprinter.entry(Request(URL, render=True, actions=[Click("a")]))
    assert len({plain.id, rendered.id, clicked.id}) == 3
    assert (plain.need, rendered.need, clicked.need) == ("", "browser", "browser")
    assert fingerprinter.entry(Request(URL, render=True, need="browser")).id == rendered.id
    # Those of all others are as they were.
    assert plain.id == fingerprinter.fingerprint("GET", URL)


def test_its_session_and_its_login_are_needs_besides() -> None:
    fingerprinter = Fingerprinter(b"secret", names_sessions=True)
    rendered = Request(URL, render=True, session="alice")
    assert fingerprinter.entry(rendered).need == "browser session:alice"
    assert fingerprinter.entry(rendered.replace(need="login:alice")).need == "browser login:alice"


def test_what_is_stored_is_what_is_read() -> None:
    request = Request(URL, render=True, actions=[*ALL, Screenshot(full_page=True)], timeout=5)
    payload = encode(request)
    assert payload[0] == RENDER_VERSION
    assert decode(payload) == request
    assert decode(payload).actions == (*ALL, Screenshot(full_page=True))


def test_a_message_has_actions_as_objects() -> None:
    body = b'{"url": "https://a.example/", "render": true, "actions": [{"action": "click", "selector": "#b"}]}'
    assert to_request(Message(body=body)).actions == (Click("#b"),)
    wrong = b'{"url": "https://a.example/", "render": true, "actions": [{"action": "klick"}]}'
    with pytest.raises(RequestError, match=r"number 1 \(klick\)"):
        to_request(Message(body=wrong))


def test_a_redirect_of_it_is_rendered_too() -> None:
    request = Request(URL, render=True, actions=[Click("a")])
    following, _ = continuation(request, 302, "/next", 5)
    assert (following.render, following.actions) == (True, (Click("a"),))


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ("click", "not str"),
        ([7], "not int as number 1"),
        ([Click("a"), Click("")], r"number 2 \(click\): Expected `str` of length >= 1, at `selector`"),
        ([{"action": "klick"}], "Invalid value 'klick'"),
        ([{"action": "click", "selector": "a", "times": 2}], "unknown field `times`"),
        ([{}], "without a name"),
        ([WaitFor()], "neither a selector nor seconds"),
        ([Scroll(0)], ">= 1, at `times`"),
        ([WaitFor("a", seconds=-1)], "at `seconds`"),
        ([Fill("a", 5)], "Expected `str`, got `int`"),  # type: ignore[arg-type]
        ([JavaScript("x" * 70_000)], "at `code`"),
        ([Click("a")] * (MAX_ACTIONS + 1), "101 of them"),
    ],
)
def test_a_wrong_action_is_an_error_of_who_makes_the_request(actions: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        Request(URL, render=True, actions=actions)
    assert "in JSON" in caught.value.hint


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"render": 1}, "not int"),
        ({"render": True, "method": "POST"}, "not for a POST request"),
        ({"render": True, "form": {"a": "b"}}, "not for a POST request with a body"),
        ({"render": True, "body": b"x"}, "with a body"),
        ({"render": True, "need": "gpu"}, "with need='gpu'"),
        ({"actions": [Click("a")]}, "not for a request without it"),
    ],
)
def test_what_cannot_be_rendered_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        Request(URL, **fields)


def test_no_text_of_a_field_is_repeated() -> None:
    assert "pass-word" not in repr(Request(URL, render=True, actions=[Fill("#p", "pass-word")]).actions)
    with pytest.raises(RequestError) as caught:
        Request(URL, render=True, actions=[Fill("", "pass-word")])
    assert "pass-word" not in f"{caught.value} {caught.value.hint}"


def test_patterns_choose_pages_and_neither_files_nor_sitemaps() -> None:
    fingerprinter = Fingerprinter(b"secret", render_patterns=["(?i)/APP/", r"\?live$"])
    rendered = fingerprinter.entry(RequestFields(URL))
    assert rendered == fingerprinter.entry(Request(URL, render=True))
    assert decode(rendered.payload).render
    assert fingerprinter.entry(RequestFields("https://a.example/x?live")).need == "browser"
    others: list[dict[str, Any]] = [
        {"url": "https://a.example/other"},
        {"url": URL, "callback": FILE_CALLBACK},
        {"url": URL, "callback": "parse_sitemap"},
        {"url": URL, "method": "POST"},
        {"url": URL, "need": "gpu"},
    ]
    assert ["browser" in fingerprinter.entry(RequestFields(**each)).need for each in others] == [False] * 5


def test_settings_of_rendering_are_checked() -> None:
    made = Settings.from_layers([("a", {"render_patterns": ["/x/"], "render_block": "image, font"})])
    assert (made.browser.render_patterns, made.browser.blocked) == (("/x/",), ("image", "font"))
    assert made.job_wide()["render_patterns"] == ["/x/"]
    assert "browser_path" not in made.job_wide()
    for wrong in ({"render_patterns": ["("]}, {"render_block": "script"}, {"render_wait_until": "never"}):
        with pytest.raises(SettingsError):
            Settings.from_layers([("a", wrong)])
