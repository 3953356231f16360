"""A crawl with credentials of the project file: its server has them, nobody else has, and nothing that is written."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

PASSWORD, TOKEN = "canary-of-basic", "canary-of-bearer"

SPIDER = """
    from skitter import Request, Spider


    class Members(Spider):
        name = "members"

        def start(self):
            yield Request(self.base + "/")
            # Its own header goes before the credentials, and not along with a redirect to another origin.
            yield Request(self.base + "/unavailable?own", headers={"Authorization": "Own canary-of-a-header"})

        def parse(self, response):
            if response.url.endswith("/echo"):
                raise RuntimeError(response.text)
            yield {"url": response.url}
            yield from response.follow_all(response.css("a::attr(href)").getall())
"""


def test_credentials_of_the_project_file_are_for_their_origin_alone(skitter: Any, make_site: Any) -> None:
    members, other, api = make_site(), make_site(), make_site()
    basic = f"Basic {b64encode(f'me:{PASSWORD}'.encode()).decode()}"

    def guarded(body: str, wanted: str = basic, **headers: str) -> Any:
        def answer(seen: Any, _connection: Any) -> tuple[int, dict[str, str], bytes]:
            if seen.headers.get("authorization") != wanted and "own" not in seen.path:
                return 401, {}, b"no"
            return (302 if headers else 200), {"Content-Type": "text/html", **headers}, body.encode()

        return answer

    links = ["/a", "/echo", "/unavailable", api.url("/api")]
    members.on("/robots.txt", guarded("User-agent: *\nDisallow: /private\n"))
    members.on("/", guarded("".join(f"<a href='{link}'>x</a>" for link in [*links, "/private"])))
    members.on("/a", guarded("<title>a</title>"))
    members.on("/echo", lambda seen, _: (200, {"Content-Type": "text/html"}, seen.headers["authorization"].encode()))
    members.on("/unavailable", guarded("", Location=other.url("/landed")))
    other.page("/landed", "<title>landed</title>")
    api.on("/api", guarded("<title>api</title>", f"Bearer {TOKEN}"))
    skitter.write("members.py", SPIDER)
    skitter.write("password", f"{PASSWORD}\n")
    (skitter.folder / "password").chmod(0o600)
    skitter.write(
        "skitter.toml",
        f"""
        [[credentials]]
        origin = "{members.base}"
        kind = "basic"
        user = "me"
        password_file = "password"

        [[credentials]]
        origin = "{api.base}"
        kind = "bearer"
        token_env = "API_TOKEN"
        """,
    )
    environment = os.environ | {"API_TOKEN": TOKEN}
    arguments = ("-a", f"base={members.base}", "--job", "j", "-o", "out.jsonl", "--log", "log.txt", "--workers", "2")
    crawl = skitter.run("crawl", "members.py", *arguments, "--allow-private", "-vv", env=environment)
    found = {line["url"] for line in skitter.lines("out.jsonl")}
    assert found == {members.url("/"), members.url("/a"), other.url("/landed"), api.url("/api")}
    # robots.txt was read as a member, and obeyed.
    assert "/private" not in members.paths()
    assert members.seen[0].path == "/robots.txt"
    assert {seen.headers.get("authorization") for seen in members.seen if "own" not in seen.path} == {basic}
    assert [seen.headers.get("authorization") for seen in other.seen if seen.path == "/landed"] == [None]
    assert not [seen for seen in other.seen if "authorization" in seen.headers]
    commands = [("status",), ("status", "--json"), ("failed", "--json"), ("why", members.url("/echo"))]
    shown = [skitter.run(*command, "--job", "j", code=None, env=environment).stdout for command in commands]
    shown += [skitter.run("settings", "--json", env=environment).stdout]
    shown += [crawl.stdout, crawl.stderr, (skitter.folder / "log.txt").read_text()]
    assert "RuntimeError" in shown[2], "the failure that a secret was in is told"
    kept = [path.read_bytes().decode("latin-1") for path in (skitter.folder / ".skitter").iterdir() if path.is_file()]
    for secret_text in (PASSWORD, TOKEN, basic.split()[1]):
        assert not [text for text in (*shown, *kept) if secret_text in text]
