"""A crawl with a list of user agents: each host sees one of them, and robots.txt the crawler's own name."""

from __future__ import annotations

from typing import Any

AGENTS = ["first/1.0 (x; y)", "second/2.0", "third/3.0"]


def test_each_host_sees_one_user_agent_and_robots_the_honest_one(skitter: Any, make_site: Any) -> None:
    site = make_site()
    hosts = ["127.0.0.1", "localhost", "a.localhost", "b.localhost", "c.localhost"]
    bases = [site.base.replace("127.0.0.1", host) for host in hosts]
    rules = "User-agent: first\nDisallow: /\n\nUser-agent: mybot\nDisallow: /private\n"
    site.page("/robots.txt", rules, content_type="text/plain")
    links = "".join(f"<a href='{path}'>x</a>" for path in ("/1", "/2", "/private"))
    site.page("/", links)
    site.page("/1", "<title>1</title>")
    site.page("/2", "", status=302, location="/3")
    site.page("/3", "<title>3</title>")
    skitter.write(
        "skitter.toml",
        f"""
        [fetch]
        user_agent = "mybot/1.0"
        user_agents = {AGENTS!r}
        headers = ["Accept-Language: de", "X-Everywhere: yes"]
        header_order = ["User-Agent", "Accept-Language"]
        """,
    )
    crawl = skitter.run("crawl", *(f"{base}/" for base in bases), "--workers", "2", "-o", "out.warc.gz", "--job", "j")
    assert crawl.returncode == 0
    seen_by_host: dict[str, set[str]] = {}
    for seen in site.seen:
        host = seen.headers["host"].partition(":")[0]
        if seen.path == "/robots.txt":
            assert seen.headers["user-agent"] == "mybot/1.0"
        else:
            seen_by_host.setdefault(host, set()).add(seen.headers["user-agent"])
        assert (seen.headers["accept-language"], seen.headers["x-everywhere"]) == ("de", "yes")
        assert list(seen.headers)[:3] == ["host", "user-agent", "accept-language"]
    assert sorted(site.paths()) == sorted(["/", "/1", "/2", "/3"] * len(hosts)), "the rules for mybot are obeyed"
    assert set(seen_by_host) == set(hosts)
    assert all(len(agents) == 1 for agents in seen_by_host.values())
    assert len(set().union(*seen_by_host.values())) > 1
    import gzip

    archived = gzip.decompress((skitter.folder / "out.warc.gz").read_bytes())
    for agents in seen_by_host.values():
        assert f"User-Agent: {next(iter(agents))}\r\n".encode() in archived
    assert b"User-Agent: mybot" not in archived
