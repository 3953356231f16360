"""Tests of the spiders in this folder, on given pages."""

import json
from urllib.parse import parse_qs

from downloads import Downloads
from json_api import JsonApi
from search_form import SearchForm

from skitter import testing

SHOP = "http://127.0.0.1:8000"


def test_a_search_form_is_posted_and_its_pages_are_followed():
    def search(request):
        words = parse_qs(request.body.decode())["q"][0]
        return f"<a class=product href=/{words}>x</a><a class=next href=/more-{words}>next</a>"

    pages = {
        f"POST {SHOP}/search": search,
        f"{SHOP}/more-lamp": "<a class=product href=/broken>x</a>",
        f"{SHOP}/more-chair": "",
        f"{SHOP}/lamp": "<h1>Lamp</h1><b class=price>20</b>",
        f"{SHOP}/chair": "<h1>Chair</h1><b class=price>45</b>",
        f"{SHOP}/broken": 500,
    }
    ran = testing.run(SearchForm, pages)
    assert sorted(item["name"] for item in ran.items if "name" in item) == ["Chair", "Lamp"]
    assert [item["missing"] for item in ran.items if "missing" in item] == [f"{SHOP}/broken"]
    assert [request.url for request in ran.requests].count(f"{SHOP}/broken") == 2


def test_an_api_is_asked_until_its_last_cursor():
    def api(request):
        start = int(json.loads(request.body)["cursor"] or 0)
        products = [{"number": number} for number in range(start, start + 10)]
        return {"products": products, "next": str(start + 10) if start < 20 else None}

    ran = testing.run(JsonApi, {f"POST {SHOP}/api": api})
    assert [item["number"] for item in ran.items] == list(range(30))
    assert {request.method for request in ran.requests} == {"POST"}


def test_files_are_asked_for_with_the_types_that_are_stored():
    page = testing.response("<h1>Lamp</h1><img src=/lamp.png><a class=manual href=/lamp.pdf>manual</a>", f"{SHOP}/lamp")
    item, picture, manual = Downloads().product(page)
    assert item == {"product": "Lamp", "pictures": [f"{SHOP}/lamp.png"]}
    assert (picture.url, picture.cb_kwargs["types"]) == (f"{SHOP}/lamp.png", ["image/*"])
    assert (manual.url, manual.cb_kwargs["types"]) == (f"{SHOP}/lamp.pdf", ["application/pdf"])
