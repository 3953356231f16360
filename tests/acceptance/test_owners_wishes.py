"""What the owner of a site asks for, by the command line: robots.txt, sitemaps, and what pages say of themselves."""

from __future__ import annotations

import gzip
import subprocess
import sys

from rig.processes import HANG_SECONDS

QUICK = ("--set", "retry_delay_seconds=0.02", "--set", "max_attempts=2")


def urlset(*urls: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"


def paths(skitter, site, name: str = "out.jsonl") -> list[str]:
    return sorted(record["url"].removeprefix(site.base) for record in skitter.lines(name))


# ---- robots.txt


def test_why_names_the_line_that_excludes_a_url(skitter, site) -> None:
    lines = [
        "# us",
        "User-agent: other",
        "Disallow: /",
        "",
        "User-agent: *",
        "Allow: /private/open",
        "Disallow: /private/",
    ]
    site.page("/robots.txt", "\r\n".join(lines), content_type="text/plain")
    site.page("/", '<a href="/private/1">x</a> <a href="/private/open">o</a>')
    site.page("/private/open", "open")
    summary = skitter.json("crawl", site.url(), "--job", "j")
    assert (summary["pages"], summary["excluded"]) == (2, 1)
    said = skitter.run("why", site.url("/private/1"), "--job", "j").stdout
    assert " by robots.txt line 7: Disallow: /private/ (group: *)\n" in said
    unseen = skitter.run("why", site.url("/private/2"), "--job", "j").stdout
    assert "excluded by robots.txt line 7: Disallow: /private/ (group: *)" in unseen


def test_it_is_read_once_by_a_whole_cluster_and_kept(skitter, site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /secret\n", content_type="text/plain")
    site.page("/", "".join(f'<a href="/{number}">x</a>' for number in range(60)) + '<a href="/secret">s</a>')
    for number in range(60):
        site.page(f"/{number}", "page")
    for run in (1, 2):
        summary = skitter.json("crawl", site.url(), "--job", "j", "--workers", 3)
        assert (summary["pages"], summary["excluded"], summary["run"]) == (61, 1, run)
    assert [seen.path for seen in site.seen].count("/robots.txt") == 1
    assert len(site.paths()) == 122


def test_a_host_whose_robots_txt_cannot_be_read_is_dead_and_comes_back(skitter, site) -> None:
    site.page("/robots.txt", "oops", status=500)
    site.page("/", "front")
    summary = skitter.json("crawl", site.url(), "--job", "j", *QUICK, code=1)
    assert (summary["failed"], summary["excluded"], site.paths()) == (1, 0, [])
    site.page("/robots.txt", "", status=404)
    skitter.run("retry", "--job", "j")
    assert skitter.json("crawl", site.url(), "--job", "j", *QUICK)["pages"] == 1


def test_the_last_good_copy_governs_after_a_restart(skitter, site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /secret\n", content_type="text/plain")
    site.page("/", '<a href="/secret">s</a><a href="/open">o</a>')
    site.page("/open", "open")
    short = ("--set", "robots_seconds=0.1")
    first = skitter.json("crawl", site.url(), "--job", "j", *short, *QUICK)
    assert (first["pages"], first["excluded"]) == (2, 1)
    site.page("/robots.txt", "oops", status=500)
    again = skitter.json("crawl", site.url(), "--job", "j", *short, *QUICK)
    assert (again["run"], again["pages"], again["excluded"], again["failed"]) == (2, 2, 1, 0)
    assert "/secret" not in site.paths()


# ---- sitemaps


def test_a_sitemap_alone_is_a_crawl(skitter, site) -> None:
    site.page("/sitemap.xml.gz", gzip.compress(urlset(site.url("/a"), site.url("/b")).encode()))
    site.page("/a", '<a href="/c">c</a>')
    site.page("/b", "b")
    site.page("/c", "c")
    summary = skitter.json("crawl", "--sitemap", site.url("/sitemap.xml.gz"), "-o", "out.jsonl", "--job", "j")
    assert (summary["pages"], summary["items"]) == (4, 3)
    assert paths(skitter, site) == ["/a", "/b", "/c"]
    status = skitter.json("status", "--job", "j")
    assert (status["seeds"], status["sitemaps"]) == ([], [site.url("/sitemap.xml.gz")])
    # Nothing but what it lists.
    skitter.json("crawl", "--sitemap", site.url("/sitemap.xml.gz"), "-o", "two.jsonl", "--job", "k", "--max-depth", 0)
    assert paths(skitter, site, "two.jsonl") == ["/a", "/b"]


def test_sitemaps_of_robots_txt_are_read_when_asked(skitter, site) -> None:
    site.page("/robots.txt", "Sitemap: /one.xml\nSitemap: /two.txt\n", content_type="text/plain")
    site.page("/one.xml", urlset(site.url("/a")))
    site.page("/two.txt", site.url("/b"), content_type="text/plain")
    for path in ("/", "/a", "/b"):
        site.page(path, "page")
    assert skitter.json("crawl", site.url(), "--job", "without")["pages"] == 1
    skitter.json("crawl", site.url(), "--sitemap", "robots", "-o", "out.jsonl", "--job", "with", "--workers", 2)
    assert paths(skitter, site) == ["/", "/a", "/b"]
    assert [seen.path for seen in site.seen].count("/robots.txt") == 2, "once for each job"


def test_a_sitemap_that_lists_nothing_is_named_in_the_summary(skitter, site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow:\n", content_type="text/plain")
    site.page("/", "front")
    site.page("/index.xml", f"<sitemapindex><sitemap>{site.url('/none.xml')}</sitemap></sitemapindex>")
    site.page("/none.xml", urlset())
    words = ("--sitemap", site.url("/index.xml"), "--sitemap", "robots", "--job", "j")
    run = skitter.run("crawl", site.url(), *words)
    assert f"2 empty sitemaps: {site.url('/none.xml')}, {site.url('/robots.txt')}\n" in run.stderr
    summary = skitter.json("crawl", site.url(), *words)
    assert summary["empty_sitemaps"] == {site.url("/none.xml"): 1, site.url("/robots.txt"): 1}
    assert skitter.json("status", "--job", "j")["tally"]["skipped:sitemap_empty"] == 2
    assert f"empty sitemaps: {site.url('/none.xml')} 1, " in skitter.run("status", "--job", "j").stdout


def test_a_spider_names_its_sitemaps(skitter, site) -> None:
    site.page("/sitemap.xml", urlset(site.url("/a"), site.url("/b")))
    site.page("/a", "a")
    site.page("/b", "b")
    skitter.write(
        "s.py",
        f"""
from skitter import Spider

class Mapped(Spider):
    name = "mapped"
    sitemap_urls = ["{site.url("/sitemap.xml")}"]

    def parse(self, response):
        yield {{"url": response.url}}
""",
    )
    assert skitter.json("crawl", "s.py", "-o", "out.jsonl")["items"] == 2
    assert paths(skitter, site) == ["/a", "/b"]


def test_a_script_has_sitemaps_too(skitter, site) -> None:
    site.page("/sitemap.xml", urlset(site.url("/a")))
    site.page("/a", "a")
    skitter.write(
        "script.py",
        f"""
import skitter

if __name__ == "__main__":
    skitter.crawl(sitemaps=["{site.url("/sitemap.xml")}"], output="out.jsonl")
    try:
        skitter.crawl(sitemaps=["robots"])
    except skitter.SkitterError as error:
        print(error)
""",
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=skitter.folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    assert done.stdout == 'the sitemap "robots" needs a host\n'
    assert paths(skitter, site) == ["/a"]


def test_what_is_no_sitemap_fails_and_says_so(skitter, site) -> None:
    site.page("/sitemap.xml", "<!DOCTYPE html><p>Welcome")
    summary = skitter.json("crawl", "--sitemap", site.url("/sitemap.xml"), "--job", "j", code=1)
    assert summary["errors"] == {"sitemap": 1}
    assert "not a sitemap: a web page" in skitter.run("failed", "--job", "j").stdout


# ---- what pages say


def test_what_pages_ask_for_is_recorded_and_obeyed_when_asked(skitter, site) -> None:
    site.page("/", '<a href="/a" rel="nofollow">a</a> <a href="/b">b</a>', x_robots_tag="noarchive")
    site.page("/a", "a")
    site.page("/b", '<meta name="robots" content="noindex"><a href="/c">c</a>', tdm_reservation="1")
    site.page("/c", '<link rel="canonical" href="/b">')
    skitter.run("crawl", site.url(), "-o", "all.jsonl", "--job", "all")
    records = {record["url"].removeprefix(site.base): record for record in skitter.lines("all.jsonl")}
    assert sorted(records) == ["/", "/a", "/b", "/c"]
    assert (records["/"]["robots"], records["/"]["nofollow_links"]) == (["noarchive"], 1)
    assert (records["/b"]["robots"], records["/b"]["tdm_reservation"]) == (["noindex"], 1)
    assert records["/c"]["canonical"] == site.url("/b")
    assert "robots" not in records["/a"]
    obeying = ("--set", "obey_nofollow=true", "--set", "obey_noindex=true")
    skitter.run("crawl", site.url(), "-o", "some.jsonl", "--job", "some", *obeying)
    assert paths(skitter, site, "some.jsonl") == ["/", "/c"]
    assert "links marked nofollow are not followed" in skitter.run("why", site.url("/a"), "--job", "some").stdout
    said = skitter.run("status", "--job", "some").stdout
    assert "links not followed: nofollow 1" in said
    assert "items withheld: noindex 1" in said
