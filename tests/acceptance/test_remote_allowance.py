"""A server takes new work from its owner only, until the owner allows more: with the real command, over both APIs."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rig.master import Master
from rig.processes import HANG_SECONDS

TOKENS = {role: f"{role}-token-0123456789" for role in ("viewer", "worker", "operator", "admin")}
SENTENCE = 'error: only the owner of this server may {}, until its skitter.toml has [remote] allow = ["{}"]\n'
HINT = "hint: use a token or user of the role admin, or ask the owner of the server for this setting\n"
SUBMITS = "start jobs and runs, or add URLs and outputs to them"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Master]]:
    """Start a server with a token for each role. It runs in the folder of the commands, and listens on loopback."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text("".join(f"{role} {token}\n" for role, token in TOKENS.items()))
    for role, token in TOKENS.items():
        (tmp_path / role).touch(0o600)
        (tmp_path / role).write_text(token)
    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(
            Master(tmp_path, f"sqlite:{tmp_path / 'jobs.db'}", "--token-file", str(tokens), *options)
        )


def place(master: Master, role: str) -> tuple[str, ...]:
    return ("--frontier", f"{master.url}?token_file={role}", "--job", "j")


def asked(master: Master, method: str, path: str, **body: Any) -> tuple[int, str]:
    """The status of a request of an operator, and what its answer says."""
    connection = http.client.HTTPConnection("127.0.0.1", master.port, timeout=HANG_SECONDS)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKENS['operator']}"}
    try:
        connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        told = json.loads(answer.read())
        return answer.status, f"error: {told.get('detail')}\nhint: {told.get('hint')}\n"
    finally:
        connection.close()


def test_a_server_takes_no_new_work_from_strangers_and_everything_else_goes_on(
    skitter: Any, serve: Callable[..., Master], site: Any
) -> None:
    site.page("/", "<title>home</title><a href='/a'>a</a><a href='/gone'>gone</a>")
    site.page("/a", "<title>a</title>")
    master = serve()
    operator, worker, admin = (place(master, role) for role in ("operator", "worker", "admin"))

    # Nothing begins with the token of an operator, on loopback either.
    submits = SENTENCE.format(SUBMITS, "submit") + HINT
    for words in (("submit", site.url("/")), ("crawl", site.url("/"), "-o", "never.jsonl")):
        assert submits in skitter.run(*words, *operator, code=3).stderr
    assert skitter.records("jobs", *admin[:2]) == []
    assert site.paths() == []

    # The owner begins a job, by its token. A stranger changes nothing of it.
    skitter.run("crawl", site.url("/"), "--max-pages", 1, "-o", "out.jsonl", *admin)
    assert submits in skitter.run("add", site.url("/b"), *operator, code=3).stderr
    settings = SENTENCE.format("change settings or import cookies", "settings") + HINT
    assert settings in skitter.run("set", "max_pages=9", *operator, code=3).stderr
    (skitter.folder / "cookies.txt").write_text("127.0.0.1\tFALSE\t/\tFALSE\t0\tname\tvalue\n")
    assert settings in skitter.run("sessions", "import", "cookies.txt", *operator, code=3).stderr
    schedules = SENTENCE.format("add, change, run or remove schedules", "schedule") + HINT
    proxies = SENTENCE.format("add, ban or remove proxies", "proxies") + HINT
    assert proxies in skitter.run("proxies", "ban", "http://127.0.0.1:9", *operator, code=3).stderr
    for method, path, body, told in (
        ("POST", "/jobs", {"urls": [site.url("/")]}, submits),
        ("POST", "/jobs/j/runs", {}, submits),
        ("POST", "/jobs/j/urls", {"urls": [site.url("/b")]}, submits),
        ("PATCH", "/jobs/j/settings", {"settings": {"max_pages": 9}}, settings),
        ("POST", "/jobs/j/proxies/one/ban", {}, proxies),
        ("POST", "/schedules", {"name": "s", "every": "1h", "command": "crawl http://a.example/"}, schedules),
        ("PUT", "/schedules/s", {"every": "1h", "command": "crawl http://a.example/"}, schedules),
        ("POST", "/schedules/s/run", {}, schedules),
    ):
        assert asked(master, method, path, **body) == (403, told), path

    # An operator watches, pauses, resumes, stops and retries; a worker joins, works and delivers the job's output.
    skitter.run("set", "max_pages=9", *admin)
    for word, state in (("resume", "running"), ("pause", "paused"), ("stop", "stopped"), ("resume", "running")):
        skitter.run(word, *operator)
        assert skitter.json("status", *operator)["state"] == state
    skitter.run("worker", *worker)
    skitter.run("deliver", "-o", "out.jsonl", *worker)
    assert {record["title"] for record in skitter.lines("out.jsonl")} == {"home", "a"}
    skitter.run("retry", *operator)
    status = skitter.json("status", *operator)
    assert (status["done"], status["queued"], status["failed"]) == (2, 1, 0)


@pytest.mark.parametrize("options", [(), ("--allow-submit",)], ids=["file", "option"])
def test_the_owner_allows_strangers_to_submit(
    skitter: Any, serve: Callable[..., Master], site: Any, options: tuple[str, ...]
) -> None:
    site.page("/", "<title>home</title>")
    if not options:
        (skitter.folder / "skitter.toml").write_text('[remote]\nallow = ["submit"]\n')
    master = serve(*options)
    operator = place(master, "operator")
    skitter.run("crawl", site.url("/"), "-o", "out.jsonl", *operator)
    assert [record["title"] for record in skitter.lines("out.jsonl")] == ["home"]
    skitter.run("add", site.url("/b"), *operator)
    assert asked(master, "POST", "/jobs", urls=[site.url("/")], job="other")[0] == 201
    # The one word allows nothing else.
    status, told = asked(master, "PATCH", "/jobs/j/settings", settings={"max_pages": 9})
    assert (status, '[remote] allow = ["settings"]' in told) == (403, True)
    assert "not permitted to a worker" in skitter.run("add", site.url("/c"), *place(master, "worker"), code=3).stderr
