"""Tests of the spider: a single callback, the whole spider on given pages, and on recorded pages."""

from quotes import Quotes

from skitter import testing

SITE = "https://quotes.example"
QUOTE = """
<div class=quote>
  <span class=text>Simplicity is hard.</span> <small class=author>Ann Lee</small>
  <a class=about href=/author/ann>(about)</a> <a class=tag href=/tag/work>work</a> <a class=tag href=/tag/art>art</a>
</div>
"""


def test_a_page_of_quotes():
    page = testing.response(QUOTE + "<li class=next><a href=/page/2>Next</a></li>", SITE)
    item, author, following = Quotes().parse(page)
    assert item == {"text": "Simplicity is hard.", "author": "Ann Lee", "tags": ["work", "art"]}
    assert author.url == f"{SITE}/author/ann"
    assert following.url == f"{SITE}/page/2"


def test_every_author_is_fetched_once():
    pages = {
        f"{SITE}/": QUOTE + "<li class=next><a href=/page/2>Next</a></li>",
        f"{SITE}/page/2": QUOTE,
        f"{SITE}/author/ann": "<h3> Ann Lee </h3> born <span class=born>1961</span>",
    }
    ran = testing.run(Quotes, pages)
    assert not ran.failures
    assert not ran.missing
    assert [request.url for request in ran.requests].count(f"{SITE}/author/ann") == 1
    assert {"author": "Ann Lee", "born": "1961"} in ran.items
    assert len(ran.items) == 3


def test_an_author_who_is_gone_costs_no_quotes():
    ran = testing.run(Quotes, {f"{SITE}/": QUOTE, f"{SITE}/author/ann": 410})
    assert [failure.url for failure in ran.failures] == [f"{SITE}/author/ann"]
    assert len(ran.items) == 1


def test_the_recorded_site(skitter_run):
    """The pages are in recorded/test_quotes/; ``pytest --skitter-record`` fetches them again."""
    ran = skitter_run(Quotes)
    assert not ran.missing
    assert sorted(item["author"] for item in ran.items) == ["Ann Lee", "Ann Lee", "Ben Moss", "Ben Moss"]
