"""Request: a URL to fetch and the callback for its page, with its identity and its stored form."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Annotated, Any, Literal, NewType

import msgspec

from skitter.errors import FormatError, RequestError
from skitter.model.job import Job
from skitter.model.meta_codec import encode_meta, read_extension
from skitter.model.secrets import shown_url
from skitter.model.session import POOL, SESSION_NEED, SESSION_PATTERN, is_login_need, is_session_name, login_of
from skitter.model.url import canonical, host_key

RequestId = NewType("RequestId", int)
"""Signed 64-bit integer, as SQLite and Redis store integers."""

STORED_VERSION = 1
OPTIONS_VERSION = 3
"""Stored version of a request with options that an older skitter does not know and would ignore. (Version 2 is a
payload whose host key Redis has removed.)"""
RENDER_VERSION = 4
"""Stored version of a rendered request, which an older skitter would fetch without a browser."""
BROWSER_NEED = "browser"
"""Need of rendered requests."""
FILE_CALLBACK, FILE_ERRBACK = "save_file", "file_failed"
"""Methods of every spider that handle requests of ``response.download``."""
NOT_RENDERED = (FILE_CALLBACK, "parse_sitemap")
"""Callbacks whose requests are never rendered because of a pattern."""
DEFAULT_METHOD = str(b"GET", "ascii")
"""Default of ``method``. It is a separate object, to distinguish it from an explicit GET in a request with a form."""
MAX_TIMEOUT_SECONDS = 86_400.0
MAX_ATTEMPTS = 1_000
_NO_BODY = b""
_CALLBACKS = (str, MethodType)
StoredInt = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integer that every store can keep."""
_NEED = re.compile(r"[A-Za-z0-9._-]{1,64}")
StoredNeed = Annotated[str, msgspec.Meta(pattern=r"^(?:login:)?[A-Za-z0-9._@+-]{0,64}\Z")]
"""Name that is short enough for a part of a key, and without the separators of such parts."""
_PROXY = re.compile(r"(?:https?|socks(?:4a?|5h?))://[!-~]{1,2000}")
StoredTimeout = Annotated[float, msgspec.Meta(gt=0, le=MAX_TIMEOUT_SECONDS)]
StoredAttempts = Annotated[int, msgspec.Meta(ge=1, le=MAX_ATTEMPTS)]
StoredStatus = Annotated[int, msgspec.Meta(ge=100, le=999)]
StoredSession = Annotated[str, msgspec.Meta(pattern=SESSION_PATTERN)]
ALL_STATUSES: Literal["all"] = "all"


class Priority(enum.IntEnum):
    """Names of common priorities of requests. Any other whole number is valid too; the highest is served first."""

    LOW = -100
    NORMAL = 0
    HIGH = 100
    CRITICAL = 1000


class RequestFields(msgspec.Struct, omit_defaults=True):
    """Fields of a request without checks, for requests that skitter creates itself, such as links of a page."""

    url: str
    """Absolute URL; ``response.follow`` accepts relative ones."""
    callback: Any = None
    """Method of the spider that gets the response, or its name. None means ``parse``."""
    errback: Any = None
    """Method of the spider that gets a Failure if the request fails, or its name."""
    method: str = DEFAULT_METHOD
    """HTTP method. With ``form``, ``json`` or ``files`` the default is POST."""
    headers: dict[str, str] = {}
    """Headers that extend or replace those of the crawler."""
    body: bytes = _NO_BODY
    """Body, sent unchanged. It is part of the identity of the request."""
    cookies: dict[str, str] = {}
    """Cookies that are sent with this request only, and with its redirects on the same host, but never from https to
    http."""
    meta: dict[str, Any] = {}
    """Values for the callback, available as ``response.meta``. They are not sent."""
    cb_kwargs: dict[str, Any] = {}
    """Keyword arguments for the callback."""
    priority: StoredInt = 0
    """Priority: a whole number, or a name of ``Priority``. The highest is fetched first."""
    dont_filter: bool = False
    """Fetch the page even if it is a duplicate."""
    is_list: bool = False
    """Whether the page is a list whose links change: it is fetched in every run, even with ``dedup_scope=job``."""
    need: StoredNeed = ""
    """Short name of a capability that a worker must have to get this request. If empty, any worker may get it."""
    depth: int = 0
    """Number of links from a seed. Set by the worker."""
    referrer: str | None = None
    """Page on which the link was found. Set by the worker."""
    chain: tuple[str, ...] = ()
    """URLs that redirected here, in order. Set by the worker."""
    seed: bool = False
    """Whether it is a seed, or the destination of a redirected seed: its host comes into scope. Set by the worker."""
    timeout: StoredTimeout | None = None
    """Maximum seconds from its start to the last byte of its body, instead of the setting ``timeout_seconds``."""
    max_attempts: StoredAttempts | None = None
    """Overrides the setting of that name. With 1 it is never retried, even if its host asks for a pause."""
    handle_statuses: Sequence[StoredStatus] | Literal["all"] = ()
    """Statuses besides 2xx, and besides those of the spider, whose responses the callback gets; or ``"all"``."""
    session: StoredSession | None = ""
    """Session whose cookies are sent and updated. If empty, the job's own. A name is part of the identity of the
    request. With None only ``cookies`` are sent, and no cookies are kept."""
    proxy: str = ""
    """URL of a proxy for this request, instead of the job's pool and the setting ``proxy``. It is not part of the
    identity."""
    render: bool = False
    """Load the page in a browser and run its scripts (docs/how-to/browser.md). It is part of the identity of the
    request, and gives it the need ``browser``."""
    actions: Sequence[Any] = ()
    """Actions in the browser before the content is taken: ``WaitFor``, ``Click``, ``Scroll``, ``Fill``,
    ``JavaScript``, ``Screenshot``. They are part of the identity of the request."""

    def __repr__(self) -> str:
        # The repr is written to tracebacks and logs: no headers, no cookies, no password.
        return f"<Request {self.method} {_shown(self.url)}>"


class Request(RequestFields):
    """A URL to fetch, with everything that its callback needs.

    ``callback`` and ``errback`` are methods of the spider or their names; ``None`` means ``parse``. ``headers`` are
    a dict or a list of pairs, ``body`` is bytes or text. ``meta`` and ``cb_kwargs`` hold plain values (text,
    numbers, bytes, lists, dicts, dates and the like), because they are stored and may be read on another machine. A
    request with a higher ``priority``, a number or one of ``Priority``, is fetched first. A value of a wrong type
    raises RequestError at once.

    ``form``, ``json`` and ``files`` are converted to a method, a header and a body. An explicit header takes
    precedence. Two requests with the same form are therefore the same page."""

    form: Any = None
    """Form fields: a dict, whose values may be lists, or pairs in order; text, bytes and numbers. Sent as the body,
    or added to the query of the URL with ``method="GET"``."""
    json: Any = None
    """Value that is sent as JSON; its keys keep their order."""
    files: Any = None
    """Files by field name, sent as ``multipart/form-data`` together with ``form``: bytes, a ``Path``, which is read
    at once, or a tuple of file name, content and optionally content type."""

    def __post_init__(self) -> None:  # noqa: C901  a row of looks, of which most find nothing
        # A page makes up to a hundred of them: what most leave as it is costs one look. (What is wrong and empty, such
        # as a priority of None, is found when it is stored.)
        if type(self.url) is not str or (self.method is not DEFAULT_METHOD and type(self.method) is not str):
            _check_text(self)
        if self.callback is not None and type(self.callback) not in _CALLBACKS:
            _check_callback(self, "callback", self.callback)
        if self.errback is not None and type(self.errback) not in _CALLBACKS:
            _check_callback(self, "errback", self.errback)
        if type(headers := self.headers) is not dict or headers:
            self.headers = _texts_by_name(self, "headers", headers)
        if self.body is not _NO_BODY and type(self.body) is not bytes:
            self.body = _as_bytes(self, self.body)
        if type(cookies := self.cookies) is not dict or cookies:
            self.cookies = _texts_by_name(self, "cookies", cookies)
        if type(self.meta) is not dict or type(self.cb_kwargs) is not dict:
            self.meta = _as_dict(self, "meta", self.meta)
            self.cb_kwargs = _as_dict(self, "cb_kwargs", self.cb_kwargs)
        if self.priority or self.is_list or self.dont_filter:
            _check_flags(self)
        if self.need != "" or self.session != "":
            _check_names(self)
        if self.timeout is not None or self.max_attempts is not None or self.handle_statuses or self.proxy:
            _check_options(self)
        if self.form is not None or self.json is not None or self.files is not None:
            # Imported on demand: few spiders send any.
            from skitter.model.request_body import take_content

            take_content(self)
        if self.render is not False or self.actions:
            _check_rendering(self)

    def replace(self, **changes: Any) -> Request:
        """Return a copy with some fields changed. A new ``form``, ``json`` or ``files`` replaces the body."""
        # Not structs.replace, which checks nothing before msgspec 0.21.
        fields = msgspec.structs.asdict(self)
        if not _CONTENT.isdisjoint(changes):
            headers = {name: value for name, value in self.headers.items() if name.lower() != "content-type"}
            fields |= {"body": b"", "headers": headers}
        return type(self)(**fields | changes)


class Links(list[str]):
    """Absolute URLs to follow, each as a plain request, as returned by ``response.links()``.

    A spider may yield them as they are. The worker handles them as a whole, which costs a tenth of a Request each;
    on most pages almost all of them are duplicates."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A request as frontiers receive it: its identity, host key, priority and opaque stored form."""

    id: RequestId
    host_key: str
    priority: int
    payload: bytes
    permits: bool = False
    """Whether its host key joins the scope: for a seed, or the destination of a redirected seed."""
    trusts: bool = False
    """Whether the network guard lets its host key through: for a seed, but not for every redirect, because the server
    chooses the destination."""
    repeats: bool = False
    """Whether it is queued even if an earlier run delivered its page: for a seed, a list or an unfiltered request."""
    need: str = ""
    """See ``Request.need``. It is not part of the identity."""
    exact: bool = False
    """Whether a Bloom filter must never treat it as a duplicate: for a ``dont_filter`` request. The same applies to
    seeds with ``trusts``."""


def is_need(name: object) -> bool:
    """Return whether this is a valid name of a need."""
    return isinstance(name, str) and _NEED.fullmatch(name) is not None


class Fingerprinter:
    """Computes identities of requests within one job. The job's secret keys the hash, against crafted collisions."""

    __slots__ = ("_has_pool", "_keyed", "_named", "_names_sessions", "_rendered")

    def __init__(
        self,
        secret: bytes,
        *,
        ignore_sessions: bool = False,
        has_pool: bool = False,
        names_sessions: bool = False,
        render_patterns: Sequence[str] = (),
    ) -> None:
        """``ignore_sessions``: two URLs that differ only in a session id are the same page. ``has_pool``,
        ``names_sessions``: the frontier assigns sessions of a pool, or named ones. ``render_patterns``: regular
        expressions of URLs whose pages are always rendered.
        """
        self._has_pool = has_pool
        self._names_sessions = names_sessions or has_pool
        self._rendered = tuple(map(re.compile, render_patterns))
        self._keyed = hashlib.blake2b(digest_size=8, key=secret)
        self._named: Callable[[str], str] = canonical
        if ignore_sessions:
            # Imported on demand: few jobs need it, and compiling its patterns is slow.
            from skitter.model.session_ids import without_session

            self._named = lambda url: canonical(without_session(url))

    @classmethod
    def of_job(cls, job: Job) -> Fingerprinter:
        """Return the fingerprinter for a job's settings, the same in every process of the job."""
        settings = job.spec.settings
        return cls(
            job.secret,
            ignore_sessions=settings.get("traps") == "strict",
            has_pool=bool(settings.get("session_pool")),
            names_sessions=bool(settings.get("exclusive_sessions"))
            or settings.get("proxy_rotation") == "session"
            or job.spec.login,
            render_patterns=settings.get("render_patterns") or (),
        )

    def identity(self, url: str) -> str:
        """Return the canonical URL that identifies a page."""
        return self._named(url)

    def fingerprint(self, method: str, url: str, body: bytes = b"") -> RequestId:
        """Return a 64-bit hash of method, canonical URL and body."""
        verb, name = method.encode(), self._named(url).encode()
        return self._hash(b"%d:%b%d:%b%d:%b" % (len(verb), verb, len(name), name, len(body), body))

    def request_id(
        self, request: RequestFields, parent: int = 0, place: int = 0, *, filtered: bool = True
    ) -> RequestId:
        """Return the fingerprint. Parent and place distinguish unfiltered requests, so a repeated add is the same."""
        fingerprint = self.fingerprint(request.method, request.url, request.body)
        if request.callback == FILE_CALLBACK:
            # Whether a file is stored must not depend on whether a link to it was followed first.
            fingerprint = self._hash(b"4:file%d" % fingerprint)
        if request.session:
            # Two users may fetch the same page.
            name = request.session.encode()
            fingerprint = self._hash(b"7:session%d:%b%d" % (len(name), name, fingerprint))
        if request.render:
            actions = _ENCODER.encode(request.actions) if request.actions else b""
            fingerprint = self._hash(b"6:render%d:%b%d" % (len(actions), actions, fingerprint))
        if filtered and not request.dont_filter:
            return fingerprint
        told = (b"unfiltered", b"%d" % parent, b"%d" % fingerprint, b"%d" % place)
        return self._hash(b"".join([b"%d:%b" % (len(part), part) for part in told]))

    def entry(
        self, request: RequestFields, parent: int = 0, place: int = 0, *, filtered: bool = True, trusts: bool = False
    ) -> Entry:
        """Return the frontier's entry for a request, whose URL must be absolute (``model.url.absolute``).

        ``trusts``: whether a redirect stays on the site that the user named (``policy.redirects.stays``).
        """
        if self._rendered and not request.render and self._is_rendered(request):
            request = msgspec.structs.replace(request, render=True)
        return Entry(
            self.request_id(request, parent, place, filtered=filtered),
            host_key(request.url),
            request.priority,
            encode(request),
            request.seed,
            request.seed and (trusts or not request.chain),
            request.seed or request.is_list or request.dont_filter or not filtered,
            self._need(request) if self._names_sessions or request.render else request.need,
            request.dont_filter or not filtered,
        )

    def _is_rendered(self, request: RequestFields) -> bool:
        """Whether a setting requires rendering: for pages, not for files and sitemaps."""
        is_page = request.method == "GET" and not request.body and not request.need
        if not is_page or request.callback in NOT_RENDERED:
            return False
        return any(pattern.search(request.url) for pattern in self._rendered)

    def _need(self, request: RequestFields) -> str:
        """Return the need of a request, extended by a browser and by a session if the frontier assigns it."""
        words = {request.need} - {""}
        if request.render:
            words.add(BROWSER_NEED)
        names_session = self._names_sessions and request.session is not None and not login_of(request.need)
        if names_session and (request.session or self._has_pool):
            words.add(SESSION_NEED + (request.session or POOL))
        return " ".join(sorted(words))

    def _hash(self, parts: bytes) -> RequestId:
        """Hash parts, which include their lengths so that no two lists of parts have the same bytes."""
        keyed = self._keyed.copy()
        keyed.update(parts)
        return RequestId(int.from_bytes(keyed.digest(), "big", signed=True))


# ---- what a Request may hold

EXPECTED = {
    "url": "text",
    "callback": "a method of the spider or its name",
    "errback": "a method of the spider or its name",
    "method": "text, as in POST",
    "headers": "a dict or a list of pairs, of text to text",
    "body": "bytes or text",
    "cookies": "a dict of text to text",
    "meta": "a dict with names as keys",
    "cb_kwargs": "a dict with names as keys",
    "priority": "a whole number of 64 bits",
    "dont_filter": "True or False",
    "is_list": "True or False",
    "need": "a name of at most 64 letters, digits, dots, dashes and underscores",
    "timeout": f"a number of seconds above 0, at most {MAX_TIMEOUT_SECONDS:g}",
    "max_attempts": f"a whole number from 1 to {MAX_ATTEMPTS}",
    "handle_statuses": 'a list of statuses from 100 to 999, or "all"',
    "proxy": "the URL of a proxy: http, https, socks4, socks4a, socks5 or socks5h",
    "session": "a name of at most 64 letters, digits and . _ @ + -, or None",
    "render": "True or False, and True only for a GET request without a body and without another need",
    "actions": "a list of WaitFor, Click, Scroll, Fill, JavaScript and Screenshot, for a request with render=True",
    "form": "a dict or a list of pairs, of text, bytes and numbers",
    "json": "a value that JSON can represent",
    "files": "a dict or a list of pairs, of names to bytes, a Path or a tuple (file name, content, content type)",
}
"""Expected type of each field, for error messages."""
_CONTENT = frozenset({"form", "json", "files"})
OPTIONS = _CONTENT | {"timeout", "max_attempts", "handle_statuses", "proxy", "session", "render", "actions"}
"""Fields that say how a request is sent and judged."""
_HINTS = {
    "callback": "another process may call it, so it is stored by its name; pass values in cb_kwargs",
    "errback": "another process may call it, so it is stored by its name; pass values in meta",
    "body": "use json=… to send a value as JSON, or form=… for the fields of a form",
    "form": 'as in form={"q": "books", "tag": ["new", "used"]}; a field without a value is ""',
    "json": "as in json={'page': 2}: dicts with text as keys, lists, text, finite numbers, True, False and None",
    "files": 'as in files={"photo": ("cat.png", content, "image/png")}; text is neither a path nor content',
    "render": "a browser sends GET requests only; to submit a form, render its page and use the actions Fill and Click",
    "actions": 'as in actions=[WaitFor(".item"), Click("text=More")], from skitter; in JSON {"action": "click", …}',
    "cookies": 'as in cookies={"session": "abc"}',
    "headers": 'as in headers={"Accept-Language": "en"}',
    "proxy": 'as in proxy="http://user:password@proxy.example:3128"',
    "url": "response.urljoin(…) returns one; for a selector, use .get()",
}


def wrong(request: RequestFields, field: str, given: str) -> RequestError:
    """Return the error for a field with a wrong value."""
    shown = f": {_shown(request.url)}" if field != "url" else ""
    hint = _HINTS.get(field, f"{field} is {EXPECTED[field]}")
    return RequestError(f"a request's {field} must be {EXPECTED[field]}, not {given}{shown}", hint=hint)


def _shown(url: object) -> str:
    return shown_url(url) if isinstance(url, str) else repr(url)


def _kind(value: object) -> str:
    return type(value).__name__


def _check_text(request: Request) -> None:
    for field in ("url", "method"):
        value = getattr(request, field)
        if not isinstance(value, str):
            raise wrong(request, field, _kind(value))
        # Of a subclass, such as the text that lxml returns.
        setattr(request, field, str.__str__(value))


def _check_callback(request: Request, field: str, callback: Any) -> None:
    """Refuse values that cannot be a callback; the worker checks whether the spider has the method."""
    if callback is None or isinstance(callback, (str, MethodType)):
        return
    if not isinstance(callback, FunctionType):
        raise wrong(request, field, _kind(callback))
    if callback.__name__ == "<lambda>":
        raise wrong(request, field, "a lambda")
    # A static method is a function as well.
    if callback.__qualname__.rpartition(".")[0].endswith("<locals>"):
        raise wrong(request, field, f"a function inside a function ({callback.__name__})")


def _texts_by_name(request: Request, field: str, given: Any) -> dict[str, str]:
    """Return headers or cookies as a dict of text."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif field == "headers" and isinstance(given, (list, tuple)):
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in given):
            raise wrong(request, field, f"a {_kind(given)} of other values")
        pairs = list(given)
    else:
        raise wrong(request, field, _kind(given))
    found: dict[str, str] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            # The value is not repeated: it may be a secret.
            kind = _kind(value if isinstance(name, str) else name)
            raise wrong(request, field, f"{kind} ({name!r:.50})")
        if name in found:
            raise wrong(request, field, f"the same name twice ({name!r:.50})")
        found[str.__str__(name)] = str.__str__(value)
    return found


def _as_bytes(request: Request, body: Any) -> bytes:
    """Return the body as bytes; text, as in ``body=json.dumps(...)``, is encoded."""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    if body is None:
        return b""
    raise wrong(request, "body", _kind(body))


def _as_dict(request: Request, field: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    raise wrong(request, field, _kind(given))


def _check_flags(request: Request) -> None:
    priority: Any = request.priority
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise wrong(request, "priority", _kind(priority))
    request.priority = int(priority)  # of an IntEnum
    for field in ("dont_filter", "is_list"):
        if type(value := getattr(request, field)) is not bool:
            raise wrong(request, field, _kind(value))


def _check_names(request: Request) -> None:
    if request.need != "" and not is_need(request.need) and not is_login_need(request.need):
        raise wrong(request, "need", repr(request.need)[:100])
    if request.session and not is_session_name(request.session):
        raise wrong(request, "session", repr(request.session)[:100])


def _check_options(request: Request) -> None:
    timeout: Any = request.timeout
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise wrong(request, "timeout", _kind(timeout))
        if not 0 < timeout <= MAX_TIMEOUT_SECONDS:
            raise wrong(request, "timeout", f"{timeout:g}")
        request.timeout = float(timeout)
    attempts: Any = request.max_attempts
    if attempts is not None:
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise wrong(request, "max_attempts", _kind(attempts))
        if not 1 <= attempts <= MAX_ATTEMPTS:
            raise wrong(request, "max_attempts", str(attempts)[:50])
        request.max_attempts = int(attempts)
    request.handle_statuses = _as_statuses(request, request.handle_statuses)
    proxy: Any = request.proxy
    if not isinstance(proxy, str):
        raise wrong(request, "proxy", _kind(proxy))
    if proxy and _PROXY.fullmatch(proxy) is None:
        # Without what is written: it may have a password.
        raise wrong(request, "proxy", "another text")


def _check_rendering(request: Request) -> None:
    # Imported on demand: few jobs render.
    from skitter.model.browser_actions import checked_actions

    if type(request.render) is not bool:
        raise wrong(request, "render", _kind(request.render))
    if request.actions:
        if not request.render:
            raise wrong(request, "actions", "for a request without it")
        try:
            request.actions = checked_actions(request.actions)
        except ValueError as error:
            raise wrong(request, "actions", str(error)) from error
    if request.need not in ("", BROWSER_NEED) and not is_login_need(request.need):
        raise wrong(request, "render", f"with need={request.need!r}")
    if request.method.upper() != "GET" or request.body:
        raise wrong(request, "render", f"for a {request.method} request{' with a body' if request.body else ''}")


def _as_statuses(request: Request, given: Any) -> tuple[int, ...] | Literal["all"]:
    if given == ALL_STATUSES:
        return ALL_STATUSES
    if given is None:
        return ()
    if not isinstance(given, (list, tuple, set, frozenset, range)):
        raise wrong(request, "handle_statuses", f"{_kind(given)} ({given!r:.50})")
    for status in given:
        if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 999:
            raise wrong(request, "handle_statuses", f"a list with {status!r:.50}")
    return tuple(sorted({int(status) for status in given}))


# ---- the stored form

_ENCODER = msgspec.msgpack.Encoder()
_HEADS = [bytes((STORED_VERSION, 0x80 | fields)) for fields in range(16)]
"""The version byte and the head of a map with so many fields."""
_LONG_MAP = 0xDE
_PLAIN = bytes((STORED_VERSION,))
_WITH_OPTIONS = bytes((OPTIONS_VERSION,))
_RENDERED = bytes((RENDER_VERSION,))
_VERSIONS = (_PLAIN, _WITH_OPTIONS, _RENDERED)
_DECODER = msgspec.msgpack.Decoder(Request, ext_hook=read_extension)
_UNCHECKED = msgspec.msgpack.Decoder(RequestFields, ext_hook=read_extension)


def encode(request: RequestFields) -> bytes:
    """Return the stored form: a version byte and msgpack. Callbacks must already be names."""
    try:
        if request.meta or request.cb_kwargs:
            request = msgspec.structs.replace(
                request, meta=encode_meta(request.meta, "meta"), cb_kwargs=encode_meta(request.cb_kwargs, "cb_kwargs")
            )
        stored = _ENCODER.encode(request)
        # Half a microsecond, so that a wrong type that somebody has assigned to a field is the fault of the callback
        # that yields it, and not of the worker that reads it one day.
        _UNCHECKED.decode(stored)
    except msgspec.ValidationError as error:
        raise _wrong_as_stored(request, error) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            f"a request cannot be stored: {_shown(request.url)}: {error}",
            hint="meta and cb_kwargs take text, numbers, bytes, dates, lists, tuples, sets and dicts of those",
        ) from error
    if request.render:
        return _RENDERED + stored
    has_options = request.timeout is not None or request.max_attempts is not None or request.handle_statuses
    if has_options or request.proxy or request.session != "":
        return _WITH_OPTIONS + stored
    if stored[0] == _LONG_MAP and not stored[1] and stored[2] < 16:
        # A struct that may have 16 fields or more gets a head of three bytes, however few of them it has.
        return _HEADS[stored[2]] + stored[3:]
    return _PLAIN + stored


def _wrong_as_stored(request: RequestFields, error: msgspec.ValidationError) -> RequestError:
    """Return the error in plain words; msgspec's own message names the field as ``$.headers[...]``."""
    field = str(error).rpartition("$.")[2].strip("`").partition("[")[0]
    if field not in EXPECTED:
        return RequestError(f"a request has a wrong value: {_shown(request.url)}: {field}")
    value = getattr(request, field)
    return wrong(request, field, repr(value)[:50] if isinstance(value, int) else _kind(value))


def decode(payload: bytes) -> Request:
    """Decode a stored request."""
    if payload[:1] not in _VERSIONS:
        known = f"{STORED_VERSION}, {OPTIONS_VERSION} and {RENDER_VERSION}"
        raise FormatError(
            f"a stored request has an unknown version: {payload[:1].hex()}",
            hint=f"this version of skitter reads {known}; upgrade it, or start the job with --fresh",
        )
    return _DECODER.decode(payload[1:])
