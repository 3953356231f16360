"""A crawl through a proxy: it waits for one that is down, and tells nobody the password."""

from __future__ import annotations

import os
from typing import Any

from rig.processes import HANG_SECONDS
from rig.proxies import HttpProxy

PASSWORD = "s3cret-w0rd"


def test_a_proxy_that_goes_down_is_waited_for_and_its_password_is_kept(skitter: Any, site: Any, until: Any) -> None:
    for number in range(10):
        site.page(f"/{number}", f"<a href=/{number + 1}>next</a>" if number < 9 else "")
    with HttpProxy() as proxy:
        # It is there for the connection by which a command looks whether it is, and for no other.
        proxy.go_down_after(1)
        environment = os.environ | {"SKITTER_PROXY": f"http://me:{PASSWORD}@{proxy.address}"}
        arguments = ("--job", "j", "-o", "out.jsonl", "--set", "host_backoff_seconds=0.5", "--json", "-v")
        process = skitter.start("crawl", site.url("/0"), *arguments, env=environment)
        store = skitter.folder / ".skitter" / "j.db"
        # A host that waits has been tried; nothing went past the proxy.
        until(lambda: "proxy" in skitter.run("why", site.url("/0"), "--job", "j", code=None).stdout, process)
        assert site.paths() == []
        commands = [("status", "--job", "j"), ("status", "--job", "j", "--json"), ("why", site.url("/0"), "--job", "j")]
        shown = [skitter.run(*command).stdout for command in commands]
        proxy.come_up()
        out, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, error
    assert len(skitter.lines("out.jsonl")) == 10
    assert len(proxy.asked) >= 10
    assert f"the proxy http://{proxy.address} failed" in error
    commands = [("jobs", "--frontier", f"sqlite:{store}"), ("failed", "--job", "j")]
    shown += [out, error, *(skitter.run(*command).stdout for command in commands)]
    assert not [text for text in shown if PASSWORD in text]
    for path in store.parent.iterdir():
        assert PASSWORD.encode() not in path.read_bytes()


def test_a_proxy_that_is_none_is_a_usage_error_without_its_password(skitter: Any) -> None:
    environment = os.environ | {"SKITTER_PROXY": f"htp://me:{PASSWORD}@proxy.example"}
    found = skitter.run("crawl", "http://example.com/", code=2, env=environment)
    assert "error: bad value: proxy=" in found.stderr
    assert PASSWORD not in found.stderr
