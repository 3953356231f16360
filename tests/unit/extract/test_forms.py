"""A form is sent as a browser would send it, and no page makes that raise anything but a FormError."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import FormError, UrlError
from skitter.extract import form_controls
from skitter.extract.css_selectors import SelectorError
from skitter.extract.response import Response
from skitter.model.request import Request

Respond = Callable[..., Response]
Pairs = list[tuple[str, str]]


def sent(request: Request) -> Pairs:
    data = request.url.partition("?")[2] if request.method == "GET" else request.body.decode()
    return parse_qsl(data, keep_blank_values=True)


FIELDS = {
    "hidden and text": (
        "<input type=hidden name=t value=x><input name=q><input name=p type=password value=' s '>",
        [("t", "x"), ("q", ""), ("p", " s ")],
    ),
    "an unknown type is text": ("<input type=nonsense name=a value='b\nc'>", [("a", "bc")]),
    "white space": (
        "<input type=email name=a value=' x@y.test\n'><input type=url name=b value=' u '>",
        [("a", "x@y.test"), ("b", "u")],
    ),
    "dates, numbers, ranges, colours": (
        (
            "<input type=date name=d value=2020-01-02><input type=number name=n value=5><input type=range name=r>"
            "<input type=color name=c><input type=color name=k value=#FFaa00>"
        ),
        [("d", "2020-01-02"), ("n", "5"), ("r", "50"), ("c", "#000000"), ("k", "#ffaa00")],
    ),
    "no name, no field": ("<input value=x><input name='' value=y>", []),
    "a text area": ("<textarea name=t>\n\na\r\nb</textarea><textarea name=u></textarea>", [("t", "\na\nb"), ("u", "")]),
    "checkboxes": (
        (
            "<input type=checkbox name=a checked><input type=checkbox name=b value=1>"
            "<input type=checkbox name=c value=2 CHECKED><input type=checkbox name=c value='' checked>"
        ),
        [("a", "on"), ("c", "2"), ("c", "")],
    ),
    "radio buttons": (
        (
            "<input type=radio name=a value=1 checked><input type=radio name=a value=2 checked>"
            "<input type=radio name=b value=1>"
        ),
        [("a", "2")],
    ),
    "a select": ("<select name=a><option>x  y</option><option value=2>z</select>", [("a", "x y")]),
    "a select with a choice": (
        "<select name=a><option value=1 selected><option value=2 selected></select>",
        [("a", "2")],
    ),
    "a select that begins with a disabled option": (
        "<select name=a><option value=1 disabled><optgroup disabled><option value=2></optgroup><option>3</select>",
        [("a", "3")],
    ),
    "a select whose choice is disabled": (
        "<select name=a><option value=1><option value=2 disabled selected></select>",
        [],
    ),
    "a list": ("<select name=a size=3><option>x</select><select name=b></select>", []),
    "several choices": (
        "<select name=a multiple><option selected>x<option>y<option selected>z</select>",
        [("a", "x"), ("a", "z")],
    ),
    "disabled": (
        (
            "<input name=a value=1 disabled><fieldset disabled><legend><input name=b value=2></legend>"
            "<legend><input name=c value=3></legend><input name=d value=4></fieldset><input name=e value=5>"
        ),
        [("b", "2"), ("e", "5")],
    ),
    "a data list": ("<datalist><input name=a value=1></datalist><input name=b value=2>", [("b", "2")]),
    "buttons": (
        (
            "<button name=a value=1>x</button><input type=submit name=b value=2><input type=image name=c>"
            "<input type=reset name=d value=3><input type=button name=e value=4>"
        ),
        [],
    ),
    "a file": ("<input type=file name=f>", []),
    "the encoding": ("<input type=hidden name=_charset_>", [("_charset_", "UTF-8")]),
}


@pytest.mark.parametrize("name", FIELDS)
def test_what_a_form_sends_by_itself(respond: Respond, name: str) -> None:
    html, expected = FIELDS[name]
    form = respond(f"<form>{html}</form>").form()
    assert form.fields == expected


def test_controls_outside_belong_to_the_form_that_they_name(respond: Respond) -> None:
    response = respond(
        "<input name=a value=1 form=f><form id=f><input name=b value=2><input name=c form=g value=3>"
        "<input name=d form='' value=4></form><form id=g></form><form id=f></form><input name=e form=nobody>"
    )
    assert response.form(id="f").fields == [("a", "1"), ("b", "2")]
    assert response.form(id="g").fields == [("c", "3")]


def test_a_form_in_a_table_owns_the_controls_that_follow_in_it(respond: Respond) -> None:
    response = respond(
        "<table><form action=/in><tr><td><input name=a><table><tr><td><input name=b></table></td></tr></form></table>"
        "<input name=c><form action=/after><input name=d></form>"
    )
    assert response.form().fields == [("a", ""), ("b", "")]
    assert response.form(index=1).fields == [("d", "")]
    assert response.form("input[name=b]").action == "http://site.test/in"


LOGIN = """<base href=/base/><form name=search action=find?old=1#x><input name=q>
<input type=hidden name=lang value=en></form><form id=login method=post action=../login>
<input type=hidden name=csrf value='a b~'><input name=user>
<input type=checkbox name=stay value=yes><select name=site[]><option>1<option>2</select>
<button name=go value=in>Log in</button><button name=go value=out formaction=/out formmethod=get>Log out</button>
<input type=image name=map id=map></form>"""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "search"),
        ({"name": "search"}, "search"),
        ({"index": 1}, "login"),
        ({"id": "login"}, "login"),
        ({"css": "form[method=post]"}, "login"),
        ({"css": "#map"}, "login"),
        ({"css": "option"}, "login"),
        ({"css": "form", "index": -1}, "login"),
        ({"css": "input", "name": "search"}, "search"),
    ],
)
def test_a_form_is_found(respond: Respond, arguments: dict[str, Any], name: str) -> None:
    assert name in repr(respond(LOGIN).form(**arguments))


def test_a_form_that_is_not_there_is_answered_with_those_that_are(respond: Respond) -> None:
    with pytest.raises(FormError, match=re.escape("no such form on the page: name='basket', index=0")) as caught:
        respond(LOGIN).form(name="basket", index=0)
    assert caught.value.hint == 'its forms: form[name="search"] GET find?old=1#x; form[id="login"] POST ../login'
    with pytest.raises(FormError, match="it has none"):
        respond("<p>").form()
    with pytest.raises(FormError, match="the response has no forms, because it is not HTML"):
        respond("<form>", "image/png").form()
    with pytest.raises(SelectorError):
        respond(LOGIN).form("form[")


def test_a_get_form_replaces_the_query(respond: Respond) -> None:
    request = respond(LOGIN).form().submit(q="red shoes & é")
    assert (request.method, request.body, request.headers) == ("GET", b"", {})
    assert request.url == "http://site.test/base/find?q=red+shoes+%26+%C3%A9&lang=en"


def test_a_post_form_sends_its_hidden_fields(respond: Respond) -> None:
    form = respond(LOGIN).form(id="login")
    request = form.submit(user="me")
    assert (request.method, request.url) == ("POST", "http://site.test/login")
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert request.body == b"csrf=a+b%7E&user=me&site%5B%5D=1"
    assert request.callback is None


def test_values_are_texts_numbers_lists_or_nothing(respond: Respond) -> None:
    form = respond(LOGIN).form(id="login")
    values = {"site[]": ["2", 3], "csrf": None, "stay": True, "new": 1.5}
    assert sent(form.submit(values, user=7)) == [
        ("user", "7"),
        ("stay", "yes"),
        ("site[]", "2"),
        ("site[]", "3"),
        ("new", "1.5"),
    ]
    assert ("stay", "yes") not in sent(form.submit(stay=False))
    assert sent(form.submit(go="other"))[-1] == ("go", "other")
    for wrong in ({"user": True}, {"callback": print}, {"meta": {"a": 1}}):
        with pytest.raises(FormError) as caught:
            form.submit(wrong)
        assert caught.value.hint


def test_a_button_is_clicked_by_name_by_selector_or_as_the_first(respond: Respond) -> None:
    form = respond(LOGIN).form(id="login")
    for click in ("go", True, "button"):
        assert sent(form.submit(click=click))[-1] == ("go", "in")
    out = form.submit(click="button[value=out]")
    assert (out.method, out.url.partition("?")[0]) == ("GET", "http://site.test/out")
    assert sent(out)[-1] == ("go", "out")
    assert (
        sent(form.submit(click="map"))[-2:] == sent(form.submit(click="#map"))[-2:] == [("map.x", "0"), ("map.y", "0")]
    )
    for wrong in ("nothing", "Log in!", "input[name=user]"):
        with pytest.raises(FormError, match="no such button in the form") as caught:
            form.submit(click=wrong)
        assert caught.value.hint == "its buttons: 'go', 'go', 'map'"
    with pytest.raises(FormError) as caught:
        respond(LOGIN).form().submit(click=True)
    assert caught.value.hint == "it has no button"


def test_request_takes_what_a_request_takes(respond: Respond) -> None:
    form = respond(LOGIN).form(id="login")
    request = form.request(
        {"user": "me"}, callback="parse_account", meta={"a": 1}, priority=3, headers={"Referer": "x"}
    )
    assert (request.callback, request.meta, request.priority) == ("parse_account", {"a": 1}, 3)
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded", "Referer": "x"}
    assert form.request(click="button[value=out]", callback="parse_out").callback == "parse_out"


@pytest.mark.parametrize(
    ("attributes", "url"),
    [
        ("", "http://site.test/dir/page.html?a=1"),
        ("action=''", "http://site.test/dir/page.html?a=1"),
        ("action='  /x '", "http://base.test/x"),
        ("action='//other.test'", "http://other.test/"),
        ("action='?b=2'", "http://base.test/?b=2"),
    ],
)
def test_an_action_is_relative_to_the_base_and_an_empty_one_is_the_page(
    respond: Respond, attributes: str, url: str
) -> None:
    response = respond(
        f"<base href=http://base.test><form method=post {attributes}>", url="http://site.test/dir/page.html?a=1"
    )
    assert response.form().submit().url == response.form().action == url


def test_a_form_that_cannot_be_sent_says_so(respond: Respond) -> None:
    with pytest.raises(FormError, match="the form sends nothing"):
        respond("<form method=dialog>").form().submit()
    for action in ("javascript:x()", "mailto:a@b.test", "http://[x"):
        with pytest.raises(UrlError, match="the form cannot be submitted"):
            respond(f"<form action='{action}'>").form().submit()
    with pytest.raises(FormError, match="the form cannot send files"):
        respond("<form method=post>").form().submit(files={"f": ("a.txt", b"x", "text/plain")})


def test_fields_are_written_in_the_encoding_of_the_form(respond: Respond) -> None:
    "<form method=post {}><input name=_charset_ type=hidden><input name=q value='ü€я'>".encode("cp1251", "replace")
    assert sent(respond("<form><input name=_charset_ type=hidden>", "text/html; charset=gbk").form().submit()) == [
        ("_charset_", "gb18030")
    ]
    page = "<form method=post %s><input name=q value='é\u20ac\u044f'>"
    in_page = respond((page % "").encode("cp1252", "xmlcharrefreplace"), "text/html; charset=latin1").form().submit()
    assert in_page.body == b"q=%E9%80%26%231103%3B"
    accepted = respond((page % "accept-charset='none, koi8-r utf-8'").encode()).form().submit()
    assert accepted.body == b"q=%26%23233%3B%26%238364%3B%D1"
    assert respond((page % "accept-charset=utf-16").encode()).form().submit().body == b"q=%C3%A9%E2%82%AC%D1%8F"


def test_the_query_of_an_action_is_escaped_in_the_encoding_of_the_page(respond: Respond) -> None:
    response = respond("<form method=post action='/x?q=é'>".encode("latin-1"), "text/html; charset=latin1")
    assert response.form().action == "http://site.test/x?q=%E9"


def test_lines_end_as_in_browsers(respond: Respond) -> None:
    form = respond("<form method=post><textarea name=t>a\nb</textarea>").form()
    assert form.submit().body == b"t=a%0D%0Ab"
    assert form.submit(t="a\rb\r\nc").body == b"t=a%0D%0Ab%0D%0Ac"


def test_a_multipart_form_sends_files_and_the_same_bytes_each_time(respond: Respond) -> None:
    html = "<form method=post enctype=multipart/form-data><input type=file name=f><input name='a\"b' value='x\ny'>"
    form = respond(html + "<textarea name=t>1\n2</textarea>").form()
    request = form.submit(files={"f": ('p"q.png', b"\x89PNG", "image/png")})
    boundary = request.headers["Content-Type"].removeprefix("multipart/form-data; boundary=")
    assert re.fullmatch(r"skitter-[0-9a-f]{32}", boundary)
    assert request.body == (
        f'--{boundary}\r\nContent-Disposition: form-data; name="a%22b"\r\n\r\nxy\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="t"\r\n\r\n1\r\n2\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="p%22q.png"\r\n'
        "Content-Type: image/png\r\n\r\n"
    ).encode() + f"\x89PNG\r\n--{boundary}--\r\n".encode("latin-1")
    again = form.submit(files={"f": ('p"q.png', b"\x89PNG", "image/png")})
    assert (again.body, again.headers) == (request.body, request.headers)
    empty = form.submit()
    assert empty.headers != request.headers
    assert b'name="f"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n\r\n' in empty.body


def test_plain_text_and_the_enctype_of_a_button(respond: Respond) -> None:
    form = respond("<form method=post enctype=text/plain><input name=a value=b><button formenctype=x name=c>").form()
    assert (form.submit().body, form.submit().headers) == (b"a=b\r\n", {"Content-Type": "text/plain"})
    assert form.submit(click=True).body == b"a=b&c="


SNIPPETS = """<form> </form> <form/id=a> <input/name=a> <input/type=image> <select/name=b> <option/selected> </select>
<table> <tr> <td> </table> <fieldset/disabled> <legend> </legend> <datalist> <textarea/name=c> </textarea>
<button/name=d> <svg> <template> </template> <input/form=a/name=e> <optgroup/disabled> <label> <p> x &amp;
\x00 <!--""".split()


@given(st.lists(st.sampled_from(SNIPPETS), max_size=40), st.binary(max_size=30))
def test_no_page_makes_a_form_raise(respond: Respond, snippets: list[str], noise: bytes) -> None:
    body = "".join(snippets).encode() + noise
    response = respond(body, "text/html")
    try:
        form = response.form(index=-1)
    except FormError:
        return
    assert sent(form.submit(a="1", z=["2"]))
    assert isinstance(form.request({"b": None}, click=False), Request)


def test_each_ancestor_of_controls_is_visited_once(monkeypatch: pytest.MonkeyPatch, respond: Respond) -> None:
    visits = 0
    below = form_controls._Places._below

    def counted(*arguments: Any) -> Any:
        nonlocal visits
        visits += 1
        return below(*arguments)

    monkeypatch.setattr(form_controls._Places, "_below", counted)
    nested = "<div><fieldset disabled><legend></legend>" * 100 + "<input name=a>" * 500 + "</fieldset></div>" * 100
    assert respond(f"<form>{nested}<select name=b>{'<option>x' * 500}</select>").form().fields == [("b", "x")]
    assert visits < 2_000


def test_an_option_inside_another_is_text_of_it(respond: Respond) -> None:
    # Each inside the one before: as options of their own they would be read once for each around them.
    form = respond("<form><svg><select name=a multiple>" + "<option selected>x" * 50).form()
    assert form.fields == [("a", "x" * 50)]
