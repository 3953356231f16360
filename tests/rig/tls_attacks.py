"""Attacks of a TLS server on its client: before, in and after the handshake.

What Python's ``ssl`` cannot be told to do, OpenSSL does: ``OpenSsl`` calls its library by ctypes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import ssl
import warnings
from pathlib import Path

from rig.web_connection import CERTIFICATE, FLOOD_BYTES, SILENCE_SECONDS, Attack, Connection, tls_context

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE = 20, 21, 22
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


def _record(kind: int, payload: bytes = b"") -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


def _flood(record: bytes) -> Attack:
    def attack(connection: Connection) -> None:
        connection.read(5)
        connection.flood(record)

    return attack


def _slowly(connection: Connection) -> None:
    connection.read(5)
    for byte in itertools.cycle(_record(HANDSHAKE, bytes(16_000))):
        connection.send(bytes((byte,)))
        connection.stopping.wait(0.1)


def _plain(connection: Connection) -> None:
    connection.read(5)
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nno TLS!")
    connection.silence()


def _after(answer: bytes, context: ssl.SSLContext | None = None) -> Attack:
    """A handshake, a request, these bytes, and the end of the connection without TLS's own."""

    def attack(connection: Connection) -> None:
        connection.use_tls(context or tls_context())
        connection.read_head()
        connection.send(answer)
        # Closing the socket alone: unwrap() would send close_notify.

    return attack


def _ends_politely_too_early(connection: Connection) -> None:
    connection.use_tls(tls_context())
    connection.read_head()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nhalf")
    assert isinstance(connection.socket, ssl.SSLSocket)
    connection.socket.unwrap()


def pages(context: ssl.SSLContext) -> Attack:
    """No attack after the handshake: the certificate is one, or the version of TLS."""

    def attack(connection: Connection) -> None:
        connection.use_tls(context)
        while True:
            connection.read_head()
            connection.send(PAGE)

    return attack


def old_context(version: ssl.TLSVersion, certificate: Path = CERTIFICATE) -> ssl.SSLContext:
    """One version only, however old."""
    context = tls_context(certificate=certificate)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is old is the point
        context.minimum_version = context.maximum_version = version
    return context


class OpenSsl:
    """A TLS server by OpenSSL's own functions; ``found`` tells whether there is a library."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("ssl")
        self.found = name is not None
        if name is None:
            return
        self._library = ctypes.CDLL(name)
        for function in ("TLS_server_method", "SSL_CTX_new", "SSL_new"):
            getattr(self._library, function).restype = ctypes.c_void_p

    def attack(self, flood: str) -> Attack:
        """``keys``: new keys for ever; ``tickets``: session tickets; ``renegotiation``: new handshakes (TLS 1.2)."""

        def attack(connection: Connection) -> None:
            # Before the handshake: OpenSSL uses the descriptor as it is, so it has to be a blocking one.
            connection.socket.settimeout(None)
            library = self._library
            context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_server_method())))
            file = str(CERTIFICATE).encode()
            library.SSL_CTX_use_certificate_chain_file(context, file)
            library.SSL_CTX_use_PrivateKey_file(context, file, 1)
            if flood == "renegotiation":
                library.SSL_CTX_ctrl(context, 124, ctypes.c_long(0x0303), None)  # SSL_CTX_set_max_proto_version
            handle = ctypes.c_void_p(library.SSL_new(context))
            library.SSL_set_fd(handle, connection.socket.fileno())
            if library.SSL_accept(handle) == 1:
                library.SSL_read(handle, ctypes.create_string_buffer(65_536), 65_536)
                while self._step(flood, handle) > 0 and not connection.stopping.is_set():
                    pass
            library.SSL_free(handle)
            library.SSL_CTX_free(context)
            connection.socket.settimeout(SILENCE_SECONDS)

        return attack

    def _step(self, flood: str, handle: ctypes.c_void_p) -> int:
        library = self._library
        if flood == "keys":
            return int(library.SSL_key_update(handle, 0)) and int(library.SSL_do_handshake(handle))
        if flood == "tickets":
            return int(library.SSL_new_session_ticket(handle)) and int(library.SSL_do_handshake(handle))
        return int(library.SSL_renegotiate(handle)) and int(library.SSL_do_handshake(handle))


TLS_ATTACKS: dict[str, Attack] = {
    "no handshake": Connection.silence,
    "a handshake byte by byte": _slowly,
    "plain HTTP on the port of TLS": _plain,
    "junk": _flood(b"\xff" * 1_000),
    "empty records": _flood(_record(HANDSHAKE)),
    "a record above the size there is": _flood(bytes((HANDSHAKE, 3, 3, 255, 255)) + bytes(FLOOD_BYTES)),
    "warning alerts": _flood(_record(ALERT, b"\1\x64")),
    "change cipher spec": _flood(_record(CHANGE_CIPHER_SPEC, b"\1")),
    "half a body, cut off": _after(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nhalf"),
    "half a body, ended by TLS": _ends_politely_too_early,
    "a body without a length, cut off": _after(b"HTTP/1.1 200 OK\r\n\r\nhalf"),
    "half a chunked body, cut off": _after(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"),
    "nothing, cut off": _after(b""),
}
"""By name. They need no TLS from the server: they have their own."""
