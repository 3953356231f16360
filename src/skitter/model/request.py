"""A request: a URL to fetch and what to do with its page; its identity; its stored form."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any, NewType

import msgspec

from skitter.errors import FormatError, ItemError
from skitter.model.job import Job
from skitter.model.meta_codec import encode_meta, read_extension
from skitter.model.secrets import shown_url
from skitter.model.url import canonical, host_key

RequestId = NewType("RequestId", int)
"""64 bits, signed, as SQLite and Redis keep integers."""

STORED_VERSION = 1
Priority = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""As large as every store can keep."""


class Request(msgspec.Struct, omit_defaults=True):
    """A URL to fetch, with everything the page's callback will want to know.

    ``callback`` and ``errback`` are methods of the spider or their names; ``None`` is ``parse``.
    ``meta`` and ``cb_kwargs`` hold plain values (text, numbers, bytes, lists, dicts, dates and the
    like): they are stored and may be read on another machine. A higher ``priority`` is served first.
    """

    url: str
    """Absolute; ``response.follow`` takes relative ones."""
    callback: Any = None
    """The method of the spider that gets the response, or its name. None: ``parse``."""
    errback: Any = None
    """The method of the spider that gets a Failure when the request is given up, or its name."""
    method: str = "GET"
    """The HTTP method."""
    headers: dict[str, str] = {}
    """Sent besides those of the crawler, or in their place."""
    body: bytes = b""
    """Sent as it is. It is a part of what tells two requests apart."""
    cookies: dict[str, str] = {}
    """Sent with this request only."""
    meta: dict[str, Any] = {}
    """Values for the callback, as ``response.meta``. They are not sent."""
    cb_kwargs: dict[str, Any] = {}
    """Keyword arguments for the callback."""
    priority: Priority = 0
    """The highest is served first."""
    dont_filter: bool = False
    """Fetch it even if the same page is known already."""
    depth: int = 0
    """Links from a seed. Set by the worker."""
    referrer: str | None = None
    """The page the link stood on. Set by the worker."""
    chain: tuple[str, ...] = ()
    """The URLs that redirected here, first one first. Set by the worker."""
    seed: bool = False
    """Typed by the user, or a redirect of such a one: its host key joins the scope. Set by the worker."""

    def __repr__(self) -> str:
        # It ends up in tracebacks and logs: no headers, no cookies, no password.
        return f"<Request {self.method} {shown_url(self.url)}>"

    def replace(self, **changes: Any) -> Request:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Links(list[str]):
    """Absolute URLs to follow, each as a plain request: what ``response.links()`` gives.

    A spider may yield them as they are. The worker looks at them as a whole, which costs a tenth of a
    Request each; on most pages almost all of them are known already.
    """


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A request as frontiers take it: its identity, what orders it, and its opaque stored form."""

    id: RequestId
    host_key: str
    priority: int
    payload: bytes
    permits: bool = False
    """A seed, or where one was redirected to: its host key joins the scope."""
    trusts: bool = False
    """A seed: the network guard lets its host key through. Where it was redirected to a stranger may have chosen."""


class Fingerprinter:
    """Identities of requests within one job. The job's secret keys the hash: nobody can craft a collision."""

    __slots__ = ("_keyed", "_named")

    def __init__(self, secret: bytes, *, ignore_sessions: bool = False) -> None:
        """``ignore_sessions``: two URLs that differ in a session id are the same page."""
        self._keyed = hashlib.blake2b(digest_size=8, key=secret)
        self._named: Callable[[str], str] = canonical
        if ignore_sessions:
            # Most jobs do not ask for it, and its patterns are dear to make.
            from skitter.model.session_ids import without_session

            self._named = lambda url: canonical(without_session(url))

    @classmethod
    def of_job(cls, job: Job) -> Fingerprinter:
        """As the job's settings have it, so that every process of it names a page alike."""
        return cls(job.secret, ignore_sessions=job.spec.settings.get("traps") == "strict")

    def identity(self, url: str) -> str:
        """The form in which two URLs of one page are the same text."""
        return self._named(url)

    def fingerprint(self, method: str, url: str, body: bytes = b"") -> RequestId:
        """64 bits over method, canonical URL and body."""
        verb, name = method.encode(), self._named(url).encode()
        return self._hash(b"%d:%b%d:%b%d:%b" % (len(verb), verb, len(name), name, len(body), body))

    def request_id(self, request: Request, parent: int = 0, place: int = 0, *, filtered: bool = True) -> RequestId:
        """The fingerprint; unfiltered requests are told apart by parent and place, so a repeated add is the same."""
        fingerprint = self.fingerprint(request.method, request.url, request.body)
        if filtered and not request.dont_filter:
            return fingerprint
        told = (b"unfiltered", b"%d" % parent, b"%d" % fingerprint, b"%d" % place)
        return self._hash(b"".join([b"%d:%b" % (len(part), part) for part in told]))

    def entry(
        self, request: Request, parent: int = 0, place: int = 0, *, filtered: bool = True, trusts: bool = False
    ) -> Entry:
        """What the frontier is given. The request's URL must be absolute (``model.url.absolute``).

        ``trusts``: of a hop, that it stays where the user meant to go (``policy.redirects.stays``).
        """
        return Entry(
            self.request_id(request, parent, place, filtered=filtered),
            host_key(request.url),
            request.priority,
            encode(request),
            request.seed,
            request.seed and (trusts or not request.chain),
        )

    def _hash(self, parts: bytes) -> RequestId:
        """Of parts that carry their lengths, so that no two lists of them read the same."""
        keyed = self._keyed.copy()
        keyed.update(parts)
        return RequestId(int.from_bytes(keyed.digest(), "big", signed=True))


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Request, ext_hook=read_extension)


def encode(request: Request) -> bytes:
    """The stored form: a version byte and msgpack. Callbacks must already be names."""
    try:
        if request.meta or request.cb_kwargs:
            request = request.replace(
                meta=encode_meta(request.meta, "meta"), cb_kwargs=encode_meta(request.cb_kwargs, "cb_kwargs")
            )
        stored = _ENCODER.encode(request)
        # Half a microsecond, so that a wrong type is the fault of the callback that yields it, and not of the
        # worker that reads it one day.
        _DECODER.decode(stored)
    except msgspec.ValidationError as error:
        reason = str(error).replace("$.", "").replace("`object`", "`dict`").replace("`array`", "`list`")
        raise ItemError(f"a request with a wrong value: {request.url}: {reason}") from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ItemError(
            f"a request cannot be stored: {request.url}: {error}",
            hint="meta and cb_kwargs take text, numbers, bytes, dates, lists, tuples, sets and dicts of those",
        ) from error
    return b"\x01" + stored


def decode(payload: bytes) -> Request:
    """The request of a stored form."""
    if payload[:1] != b"\x01":
        raise FormatError(
            f"a stored request has an unknown version: {payload[:1].hex()}",
            hint=f"this skitter reads version {STORED_VERSION}; upgrade it or start the job with --fresh",
        )
    return _DECODER.decode(payload[1:])
