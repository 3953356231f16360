"""Secrets are masked wherever they stand, and nothing else is."""

from __future__ import annotations

import time

import pytest

from skitter.model import secrets
from skitter.model.request import Request
from skitter.model.secrets import concealed, shown_url, without_secrets, without_secrets_inside

MASKED = {
    "get http://user:hunter22@a.test/x now": "get http://***@a.test/x now",
    "http://user:p@ss@a.test/": "http://***@a.test/",
    "http://hunter22@a.test": "http://***@a.test",
    "redis://:hunter22@a.test:6379/0?db=1": "redis://***@a.test:6379/0?db=1",
    "redis+sentinel://a:1,b:2/m?sentinel_password=hunter22&db=1": "redis+sentinel://a:1,b:2/m?sentinel_password=***&db=1",
    "http://a.test/?access_token=hunter22&x=1": "http://a.test/?access_token=***&x=1",
    "skitter crawl s.py -a api_key=hunter22 -o x": "skitter crawl s.py -a api_key=*** -o x",
    "Authorization: Basic aHVudGVyMjI=\nnext": "Authorization: ***\nnext",
    "{'Authorization': 'Bearer hunter22', 'Accept': 'x'}": "{'Authorization': ***, 'Accept': 'x'}",
    "[('set-cookie', 'sid=hunter22; Path=/'), ('x', 'y')]": "[('set-cookie', ***), ('x', 'y')]",
    "Proxy-Authorization: Basic aHVudGVyMjI=": "Proxy-Authorization: ***",
    "it said Bearer hunter22hunter22": "it said Bearer ***",
    "x-api-key: hunter22\nnext": "x-api-key: ***\nnext",
    "sent X-Goog-Api-Key: hunter22": "sent X-Goog-Api-Key: ***",
    "{'Private-Token': 'hunter22', 'Accept': 'x'}": "{'Private-Token': ***, 'Accept': 'x'}",
    "[('X-Session-Id', 'hunter22'), ('x', 'y')]": "[('X-Session-Id', ***), ('x', 'y')]",
    '{"password": "hunter22", "page": 1}': '{"password": ***, "page": 1}',
}


@pytest.mark.parametrize(("text", "masked"), MASKED.items())
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert without_secrets(text) == masked
    assert without_secrets(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "https://a.test/@me/x",
        "mail me@a.test",
        "http://a.test/?x=http://b/@c",
        "the cookie, which was eaten",
        "no authorization at all",
        "Bearer of news",
        "a token is missing",
        "SyntaxError: unexpected token: }",
        "http://a.test/?x=1 key: 5, author: me",
        "https://medium.com/@user/post",
        "x-author: me",
        "{'title': 'Cookies and cream'}",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert without_secrets(text) == text


def test_values_inside_values_are_masked() -> None:
    value = {"a": ["http://u:p@h/", 1, None], "b": {"c": "token=hunter22"}}
    assert without_secrets_inside(value) == {"a": ["http://***@h/", 1, None], "b": {"c": "token=***"}}


def test_a_shown_url_is_the_url_without_user_and_password() -> None:
    assert shown_url("http://user:p%40ss@a.test/x?u=http://b:c@d/") == "http://a.test/x?u=http://b:c@d/"
    assert shown_url("http://a.test/?mail=me@b.test") == "http://a.test/?mail=me@b.test"


def test_what_a_request_knows_is_concealed_wherever_it_stands() -> None:
    known = secrets.of_request(
        "http://u:hunter%2D1@a.test/",
        {"Authorization": "Bearer hunter-2", "Cookie": "a=hunter-3; b=hunter-4"},
        {"c": "hunter-5"},
    ) + secrets.of_answer([("Set-Cookie", "d=hunter-6; Path=/"), ("Server", "x")])
    text = " ".join(f"<hunter-{number}>" for number in range(1, 7))
    assert "hunter" not in concealed(text, known)
    assert concealed("plain x", [*known, "x"]) == "plain x"


@pytest.mark.parametrize(
    ("url", "text", "told"),
    [
        ("http://ghp_hunter22@a.test/", "<ghp_hunter22>", "<***>"),
        ("http://ghp_hunter%3D@a.test/", "<ghp_hunter=> <ghp_hunter%3D>", "<***> <***>"),
        ("http://ghp_hunter22:@a.test/", "<ghp_hunter22>", "<***>"),
        ("http://ghp_hunter22:x-oauth@a.test/", "<ghp_hunter22> <x-oauth>", "<***> <***>"),
        ("http://admin:hunter22@a.test/", "admin: <hunter22>", "admin: <***>"),
    ],
)
def test_a_user_without_a_password_is_a_secret(url: str, text: str, told: str) -> None:
    assert concealed(text, secrets.of_request(url, {}, {})) == told


@pytest.mark.parametrize(
    "text",
    [
        *("a@", ":", "://", "a://", "x://@", "a-", "-key", "x-key ", "token", "token=", "cookie:"),
        *("'", '"', "'token'", "bearer "),
        *("x-key" + " " * 1000, "'token" + "a" * 1000, "a" * 1000 + "-", 'cookie: "' + "a" * 1000),
    ],
)
def test_masking_takes_time_in_proportion_to_the_text(text: str) -> None:
    def seconds(size: int) -> float:
        repeated = (text * size)[:size]
        return min(_timed(repeated) for _ in range(3))

    # A hundred times the text: about 100 times the time, and 10,000 times where it is quadratic.
    assert seconds(100_000) < 1000 * max(seconds(1_000), 1e-5)


def _timed(text: str) -> float:
    # Of this thread alone: other processes may have the processor.
    began = time.thread_time()
    without_secrets(text)
    concealed(text, secrets.of_request(f"http://{text}@h/", {text: text}, {}))
    return time.thread_time() - began


def test_a_request_in_a_traceback_shows_neither_headers_nor_password() -> None:
    request = Request("http://u:hunter22@a.test/x", headers={"Authorization": "hunter22"}, cookies={"a": "hunter22"})
    assert repr(request) == "<Request GET http://a.test/x>"
    assert str([request]) == "[<Request GET http://a.test/x>]"


def test_arguments_are_secrets_by_their_names() -> None:
    given = {"password": "a", "API_KEY": "b", "github_token": "c", "category": "d", "base": "e"}
    assert secrets.of_arguments(given) == ["a", "b", "c"]


def test_of_a_long_text_only_the_ends_are_kept_and_no_part_of_a_secret() -> None:
    secret = "hunter" * 20
    text = f"{secret} began " + f"{secret} token=abc123 " * 200_000 + f"ended {secret}"
    began = time.thread_time()
    told = concealed(text, [secret, *(f"cookie{number}" for number in range(5_000))])
    # Of the whole text it takes a minute.
    assert time.thread_time() - began < 2
    assert "hunter" not in told
    assert "abc123" not in told
    assert told.startswith("*** began")
    assert told.endswith("ended ***")
    assert len(told) < 70_000
