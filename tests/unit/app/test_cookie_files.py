"""Cookie files: what one kind of file cannot represent is left out, and everything else comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.app.cookie_files import export_cookies, read_cookie_file
from skitter.frontier.memory import memory_frontier
from skitter.model.job import JobSpec
from skitter.model.session import Cookie, CookieNews

COOKIES = [
    Cookie("a", "1", "a.example", "/x/", host_only=False),
    Cookie("tab", "x\ty", "a.example"),
    Cookie("", "nameless", "a.example", secure=True, http_only=True, expires=4_000_000_000),
    Cookie("bytes", "caf\xc3\xa9", "a.example"),
]


@pytest.mark.parametrize(("name", "kept"), [("cookies.json", [0, 1, 2, 3]), ("cookies.txt", [0, 2, 3])])
async def test_an_exported_file_has_every_cookie_that_it_can_represent(
    tmp_path: Path, name: str, kept: list[int]
) -> None:
    frontier = memory_frontier("job")
    await frontier.begin(JobSpec(name="job", spider=""))
    await frontier.add_cookies([CookieNews(session="", domain="a.example", cookies=COOKIES)])
    assert await export_cookies(frontier, "", tmp_path / name) == len(kept)
    if name.endswith(".json"):
        cookies, left_out = read_cookie_file(tmp_path / name)
        assert (cookies, left_out) == ([COOKIES[place] for place in kept], 0)
    else:
        text = (tmp_path / name).read_text()
        assert "tab" not in text
        assert len(text.splitlines()) == 1 + len(kept)
