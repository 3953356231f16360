"""Mapping of libcurl's error codes to error classes.

Every code has a class: those not named here are ``protocol``, the class of servers that answer, but not
in HTTP. The numbers are libcurl's stable interface (libcurl-errors(3)); pycurl lacks names for some.
"""

from __future__ import annotations

import os

import pycurl

_BAD_CONTENT_ENCODING = 61
_ERROR_CLASSES = {
    5: "dns",  # proxy's name
    6: "dns",
    7: "connect",
    45: "connect",  # local interface
    89: "connect",  # no connection available
    96: "connect",  # QUIC
    97: "connect",  # proxy
    35: "tls",  # handshake
    53: "tls",  # crypto engine not found
    54: "tls",  # crypto engine not set
    58: "tls",  # client certificate
    59: "tls",  # cipher
    60: "tls",  # the certificate does not verify
    64: "tls",  # required level not reached
    66: "tls",  # crypto engine not initialised
    77: "tls",  # CA file unreadable
    80: "tls",  # shutdown
    82: "tls",  # revocation list
    83: "tls",  # issuer
    90: "tls",  # pinned key
    91: "tls",  # certificate status
    98: "tls",  # client certificate wanted
    101: "tls",  # encrypted hello
    18: "truncated",  # less than Content-Length, or no last chunk
    63: "too_large",  # announced or received beyond the cap
    100: "too_large",  # headers beyond libcurl's own caps
}

_UNTOLD = {
    16: "HTTP/2 framing error",
    27: "response headers without an end",
    100: "response headers without an end",
}


def error_class_of(code: int, message: str, curl: pycurl.Curl, url: str) -> str:
    """Return the error class of a failed transfer; its handle shows how far a timed-out one had come."""
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return _phase(message, curl, url)
    if code == pycurl.E_RECV_ERROR and message.startswith(("Too large response headers", "Too many response headers")):
        return "too_large"
    if code == _BAD_CONTENT_ENCODING and "limit of" in message:
        return "too_large"  # more encodings on top of each other than libcurl undoes
    return _ERROR_CLASSES.get(code, "protocol")


def describe_error(code: int, message: str, curl: pycurl.Curl) -> str:
    """Return the system's reason of a failed connection, or libcurl's message, or its code where there is none."""
    if code == pycurl.E_COULDNT_CONNECT and (number := curl.getinfo(pycurl.OS_ERRNO)):
        return os.strerror(number).lower()
    if code == pycurl.E_PEER_FAILED_VERIFICATION and message:
        # "SSL certificate problem: REASON" or "SSL certificate OpenSSL verify result: REASON (NUMBER)".
        return f"its certificate is refused ({message.rpartition(': ')[2].partition(' (')[0]})"
    return message or _UNTOLD.get(code) or f"libcurl's error {code}"


def one_line(text: str) -> str:
    """Return a message as one line."""
    return " ".join(text.split())


def _phase(message: str, curl: pycurl.Curl, url: str) -> str:
    # Before a request could be sent, a timeout says that the host cannot be reached, not that it is slow.
    if curl.getinfo(pycurl.REQUEST_SIZE):
        return "timeout"
    if message.startswith("Resolving"):  # the time of the lookup is 0 as well while another's connection is awaited
        return "dns"
    if url.startswith("https:") and curl.getinfo(pycurl.CONNECT_TIME):
        return "tls"
    return "connect"
