"""A crawl through a proxy: it waits for one that is down, and tells nobody the password."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

PASSWORD = "s3cret-w0rd"


class Proxy:
    """Forwards plain HTTP, one request a connection, on a port that was kept for it."""

    def __init__(self) -> None:
        self._socket = self._bound(0)
        self.port: int = self._socket.getsockname()[1]
        self.asked: list[str] = []

    @staticmethod
    def _bound(port: int) -> socket.socket:
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
        return found

    def listen(self) -> None:
        """For the connection by which a command looks whether it is there."""
        self._socket.listen(1)

    def go_down_after_one_connection(self) -> None:
        self._socket.settimeout(30)
        self._socket.accept()[0].close()
        self._socket.close()
        self._socket = self._bound(self.port)

    def start(self) -> None:
        self._socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head and (piece := client.recv(65_536)):
                head += piece
            method, url, version = head.split(b"\r\n", 1)[0].decode().split(" ")
            self.asked.append(url)
            authority, _, path = url.removeprefix("http://").partition("/")
            host, _, port = authority.partition(":")
            lines = [line for line in head.split(b"\r\n")[1:] if line and not line.startswith(b"Proxy-")]
            request = [f"{method} /{path} {version}".encode(), *lines, b"Connection: close", b"", b""]
            with socket.create_connection((host, int(port))) as server:
                server.sendall(b"\r\n".join(request))
                while piece := server.recv(65_536):
                    client.sendall(piece)


def test_a_proxy_that_goes_down_is_waited_for_and_its_password_is_kept(skitter: Any, site: Any, until: Any) -> None:
    for number in range(10):
        site.page(f"/{number}", f"<a href=/{number + 1}>next</a>" if number < 9 else "")
    proxy = Proxy()
    environment = os.environ | {"SKITTER_PROXY": f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}"}
    arguments = ("--job", "j", "-o", "out.jsonl", "--set", "host_backoff_seconds=0.5", "--json", "-v")
    proxy.listen()
    process = skitter.start("crawl", site.url("/0"), *arguments, env=environment)
    proxy.go_down_after_one_connection()
    store = skitter.folder / ".skitter" / "j.db"
    # A host that waits has been tried; nothing went past the proxy.
    until(lambda: "proxy" in skitter.run("why", site.url("/0"), "--job", "j", code=None).stdout, process)
    assert site.paths() == []
    commands = [("status", "--job", "j"), ("status", "--job", "j", "--json"), ("why", site.url("/0"), "--job", "j")]
    shown = [skitter.run(*command).stdout for command in commands]
    proxy.start()
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert len(skitter.lines("out.jsonl")) == 10
    assert len(proxy.asked) >= 10
    assert f"the proxy http://127.0.0.1:{proxy.port} failed" in error
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
