"""Response: the page that a spider's callback gets, decoded and parsed on demand.

Nothing is decoded or parsed before it is asked for, and only markup is parsed: on an image or a
PDF ``css`` finds nothing. No page raises because it is broken. Fetching is over when this begins;
what becomes of the requests it makes (scope, dedup, depth) is decided after the callback.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import can_ada
import msgspec
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode, SelectolaxError

from skitter.errors import FormError, ParseError, UrlError, UsageError
from skitter.extract import links, robots_directives, xpath
from skitter.extract.content_type import kind_of
from skitter.extract.downloads import checked_options
from skitter.extract.encoding import decode, find_encoding, unmarked
from skitter.extract.link_filter import Patterns, Texts, is_xpath, link_filter, regions
from skitter.extract.links import Hrefs
from skitter.extract.pathological_markup import SAFE_BYTES, cut_pathological
from skitter.extract.response_headers import Headers
from skitter.extract.robots_directives import DEFAULT_PRODUCT, Directives, read_directives
from skitter.extract.selector import SelectorList, find, select
from skitter.model.page import Page
from skitter.model.request import FILE_CALLBACK, FILE_ERRBACK, Links, Request
from skitter.model.secrets import shown_url
from skitter.model.url import Joiner, Joins, absolute, canonical, refuse_long_host
from skitter.settings import REFRESH_SECONDS

if TYPE_CHECKING:
    from skitter.extract.forms import Form

# The copies that mutation events make (<selectedcontent>) are not in the page's source, and cost 4 % of a parse.
_OPTIONS = int(LexborDocumentOptions.WO_EVENTS)
_IN_HEAD = f"title, {robots_directives.SELECTOR}"


class Response:
    """A page for a callback: status, headers and body, selectors, links, and requests for them.

    ``request`` is the request that was answered. Nothing is decoded or parsed before it is used."""

    __slots__ = (
        "_base_url",
        "_directives",
        "_encoding",
        "_head",
        "_headers",
        "_hrefs",
        "_joiner",
        "_joins",
        "_kind",
        "_left_out",
        "_links",
        "_nofollow",
        "_parsel",
        "_product",
        "_refresh_seconds",
        "_root",
        "_text",
        "page",
        "request",
    )

    def __init__(
        self,
        page: Page,
        request: Request,
        joins: Joins | None = None,
        product: str = DEFAULT_PRODUCT,
        refresh_seconds: float | None = REFRESH_SECONDS,
    ) -> None:
        """``joins`` may be shared by the responses of one worker: links that many pages share are joined once.

        ``product`` is the name by which owners speak to this crawler, in lower case. ``refresh_seconds``: the longest
        wait of a refresh that counts as a link; None: no refresh does.
        """
        self.page = page
        self._joins = joins
        self.request = request
        self._kind: str | None = None
        self._encoding: str | None = None
        self._headers: Headers | None = None
        self._text: str | None = None
        self._root: LexborNode | None = None
        self._head: list[LexborNode] | None = None
        self._base_url: str | None = None
        self._joiner: Joiner | None = None
        self._hrefs: Hrefs | None = None
        self._links: list[str] | None = None
        self._left_out: Counter[str] | None = None
        self._nofollow: list[str] | None = None
        self._directives: Directives | None = None
        self._product = product
        self._refresh_seconds = refresh_seconds
        self._parsel: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Response {self.page.status} {self.url}>"

    @property
    def url(self) -> str:
        """URL of the page, without user and password, which ``request.url`` still has."""
        return shown_url(self.page.url)

    @property
    def status(self) -> int:
        """HTTP status code."""
        return self.page.status

    @property
    def body(self) -> bytes:
        """Body as bytes, decompressed."""
        return self.page.body

    @property
    def address(self) -> str:
        """IP address of the server."""
        return self.page.address

    @property
    def seconds(self) -> float:
        """Time from the start of the request to the last byte."""
        return self.page.seconds

    @property
    def http_version(self) -> str:
        """HTTP version of the response."""
        return self.page.http_version

    @property
    def screenshot(self) -> bytes | None:
        """Last image that an action ``Screenshot`` took of the page, as PNG, or None."""
        pictures = self.screenshots
        return pictures[-1] if pictures else None

    @property
    def screenshots(self) -> list[bytes]:
        """All images that actions ``Screenshot`` took of the page, in order."""
        return self.page.rendering.screenshots if self.page.rendering is not None else []

    @property
    def script_results(self) -> list[Any]:
        """Return values of the actions ``JavaScript``, in order."""
        return self.page.rendering.script_results if self.page.rendering is not None else []

    @property
    def meta(self) -> dict[str, Any]:
        """The ``meta`` of the request."""
        return self.request.meta

    @property
    def cb_kwargs(self) -> dict[str, Any]:
        """The ``cb_kwargs`` of the request."""
        return self.request.cb_kwargs

    @property
    def headers(self) -> Headers:
        """Headers of the response, by case-insensitive name."""
        if self._headers is None:
            self._headers = Headers(self.page.headers)
        return self._headers

    @property
    def kind(self) -> str:
        """``html``, ``xml`` or ``other``, from the Content-Type or, without one, from the body."""
        if self._kind is None:
            self._kind = kind_of(self.page.header("content-type") or "", self.page.body)
        return self._kind

    @property
    def is_html(self) -> bool:
        """Whether ``kind`` is ``html``."""
        return self.kind == "html"

    @property
    def encoding(self) -> str:
        """Name of the Python codec that decodes the body."""
        if self._encoding is None:
            self._encoding = self._find_encoding(self.kind)
        return self._encoding

    def _find_encoding(self, kind: str) -> str:
        return find_encoding(self.page.body, self.page.header("content-type") or "", kind)

    @property
    def text(self) -> str:
        """Body as text. Bytes that are invalid in its encoding become U+FFFD."""
        if self._text is None:
            self._text = decode(self.page.body, self.encoding)
        return self._text

    def json(self) -> Any:
        """Return the body parsed as JSON; raises ValueError if it is not JSON."""
        return json.loads(decode(self.page.body, self._find_encoding("json")))

    @property
    def title(self) -> str | None:
        """Text of the first ``<title>``, with white space collapsed; None if there is none."""
        if self.kind == "other":
            return None
        # The head first: a search of the whole tree costs ten times as much.
        found = [node for node in self._in_head() if node.tag == "title"] or find(self._tree(), "title")
        return " ".join(found[0].text().split()) if found else None

    @property
    def directives(self) -> Directives:
        """Directives of the page: robots directives, the absolute canonical URL, and the reservation of data mining."""
        if self._directives is None:
            elements = [node for node in self._in_head() if node.tag != "title"] if self.kind == "html" else ()
            found = read_directives(self.page.headers, elements, self._product)
            if found.canonical is not None:
                found = msgspec.structs.replace(found, canonical=self._absolute(found.canonical))
            self._directives = found
        return self._directives

    def css(self, query: str) -> SelectorList:
        """Return all matches of a CSS selector, with ``::text``, ``::attr(name)`` and ``:contains("text")``.

        XML is parsed as XML, and names match without their namespaces, if the extra ``xpath`` is installed;
        otherwise it is parsed as HTML."""
        if (kind := self.kind) == "other":
            return SelectorList()
        if kind == "xml":
            from skitter.extract.xml_selector import select_xml, without_namespaces

            if (page := self._by_parsel("css", without_namespaces)) is not None:
                return select_xml(page, query)
        return select(self._tree(), query, marked=False)

    def xpath(self, query: str, namespaces: dict[str, str] | None = None, **variables: Any) -> Any:
        """Return all matches of an XPath expression, as parsel's SelectorList. Needs the extra ``xpath``.

        XML is parsed as XML: ``namespaces`` has the prefixes of the expression, and ``remove_namespaces`` removes
        them."""
        return xpath.nothing() if self.kind == "other" else xpath.evaluate(self.selector, query, namespaces, variables)

    @property
    def selector(self) -> Any:
        """The page as a Selector of parsel, for features that only parsel has. Needs the extra ``xpath``."""
        return self._by_parsel("xpath", lambda text: xpath.of_page(text, xml=self.kind == "xml"))

    def remove_namespaces(self) -> None:
        """Remove the namespaces of XML, so that ``xpath`` finds elements and attributes by their local names."""
        self.selector.remove_namespaces()

    def jmespath(self, query: str) -> Any:
        """Return all matches of a JMESPath expression in JSON, as parsel's SelectorList; raises ValueError if the
        body is not JSON.

        Needs the extra ``xpath``."""
        return xpath.json_query(decode(self.page.body, self._find_encoding("json")), query)

    @property
    def flaws(self) -> Counter[str]:
        """Links that ``links`` and ``follow_all`` skipped, counted by rule: scheme, unparsable, too_long.

        Includes entries that the reader of a sitemap skipped."""
        flaws = Counter(self._joiner.flaws if self._joiner is not None else None)
        return flaws + self._left_out if self._left_out else flaws

    @property
    def has_flaws(self) -> bool:
        """Whether any link was skipped."""
        return bool(self._left_out or (self._joiner is not None and self._joiner.flaws))

    def leave_out(self, rule: str) -> None:
        """Count an entry of the page that is not followed; the count appears in ``flaws``."""
        if self._left_out is None:
            self._left_out = Counter()
        self._left_out[rule] += 1

    def links(
        self,
        allow: Patterns = (),
        *,
        deny: Patterns = (),
        restrict: Texts = (),
        domains: Texts = (),
        extensions: Texts = (),
        unique: bool = True,
    ) -> Links:
        """Return the absolute URLs of every ``a[href]`` and ``area[href]``, without fragments, each once, in order.

        The target of a refresh that waits for at most ``max_refresh_seconds`` comes first. A callback may yield the
        links as they are, to follow them. ``allow`` and ``deny`` are regular expressions to search for in the URL,
        ``restrict`` is a CSS selector or an XPath of the regions to search, ``domains`` include their subdomains, and
        ``extensions`` are those of paths (``""`` matches paths without one). Each may be one value or several."""
        if restrict or not unique:
            found = self._find_links_in(restrict, unique)
        else:
            if self._links is None:
                self._links = self._find_links()
            found = self._links
        if allow or deny or domains or extensions:
            return Links(filter(link_filter(allow, deny, domains, extensions), found))
        return Links(found)

    def nofollow_links(self) -> Links:
        """Return the members of ``links()`` that the page has only with ``rel=nofollow``, ``ugc`` or ``sponsored``."""
        if self._nofollow is None:
            self._nofollow = self._find_nofollow() if self.kind != "other" else []
        return Links(self._nofollow)

    def urljoin(self, href: str) -> str:
        """Return the absolute URL for ``href`` on this page, as in a browser, with any scheme."""
        refuse_long_host(href)
        try:
            return str((can_ada.parse(self._base()) + links.in_encoding(href, self.encoding)).href)
        except (ValueError, UnicodeError) as error:
            raise UrlError("unparsable", f"not a URL: {href[:200]}") from error

    def follow(self, link: Any, callback: Any = None, **fields: Any) -> Request:
        """Return a request for a link: its text, or a selector of it or of its element. Raises UrlError for an
        invalid one.

        It uses the session of this page, unless another one is given; so do those of ``follow_all``, of forms and of
        downloads, and the links that a callback yields as they are."""
        url = absolute(self._href(link), self._base())
        return Request(url, callback, **{"session": self.request.session} | fields)

    def follow_all(
        self,
        urls: Iterable[Any] | None = None,
        *,
        css: str | None = None,
        xpath: str | None = None,
        callback: Any = None,
        **fields: Any,
    ) -> list[Request]:
        """Return requests for many links, given or found by a selector. Invalid ones are skipped and counted in
        ``flaws``."""
        if (urls is not None) + (css is not None) + (xpath is not None) != 1:
            raise UsageError("follow_all takes exactly one of urls, css and xpath", hint='follow_all(css="li.next a")')
        if css is not None:
            urls = self.css(css)
        elif xpath is not None:
            urls = self.xpath(xpath)
        join = self._joined()
        session = {"session": self.request.session}
        requests = []
        for link in urls or ():
            try:
                url = join(self._href(link))
            except UrlError as error:
                join.flaws[error.rule] += 1
                continue
            if url is not None:
                requests.append(Request(url, callback, **session | fields))
        return requests

    def form(
        self,
        css: str | None = None,
        *,
        name: str | None = None,
        id: str | None = None,  # noqa: A002  the attribute that it looks for
        index: int | None = None,
    ) -> Form:
        """Return a form of the page: the first that matches all arguments, or the ``index``-th; without arguments,
        the first.

        ``css`` selects the form or an element in it. Raises FormError, which names the existing forms, if none
        matches."""
        # Few spiders send forms, and a worker starts without what reads them.
        from skitter.extract import form_controls, forms

        if self.kind == "other":
            raise FormError(
                f"the response has no forms, because it is not HTML: {self!r}",
                hint=f"its content type is {self.headers.get('content-type')}",
            )
        root = self._tree()
        elements = form_controls.read_forms(root)
        element = forms.pick_form(elements, root, css=css, name=name, form_id=id, index=index)
        return forms.Form(
            *(element, root),
            page_url=self.page.url,
            base=self._base(),
            encoding=self.encoding,
            session=self.request.session,
        )

    def download(
        self,
        link: Any,
        *,
        types: Sequence[str] = (),
        max_bytes: int | None = None,
        item: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Request:
        """Return a request, to be yielded, whose file is stored in the setting ``file_target`` by the hash of its
        content.

        A record with its ``url``, ``path``, ``checksum``, ``size``, ``content_type``, ``status`` and ``reason`` goes
        to the outputs, with the fields of ``item``. ``types``: content types to store, such as ``image/*``; others
        are refused, and so are files larger than ``max_bytes``. A file that many pages link to is fetched once."""
        options = checked_options(types, max_bytes, item)
        return self.follow(link, FILE_CALLBACK, cb_kwargs=options, **{"errback": FILE_ERRBACK} | fields)

    def _tree(self) -> LexborNode:
        if self._root is None:
            # The parser takes UTF-8 as it is, sound or not, and replaces what is wrong when it is read.
            utf8 = self.encoding == "utf-8"
            source = unmarked(self.page.body) if utf8 else self.text.encode("utf-8", "replace")
            try:
                root = LexborHTMLParser(cut_pathological(source), options=_OPTIONS).root
            except (SelectolaxError, MemoryError) as error:
                raise ParseError("the page needs more memory than is available", hint="max_worker_bytes") from error
            assert root is not None, "a parsed document always has its <html>"
            self._root = root
        return self._root

    def _by_parsel(self, use: str, read: Callable[[str], Any]) -> Any:
        """Return the page as a tree of parsel, parsed once for each use."""
        if self._parsel is None:
            self._parsel = {}
        if use not in self._parsel:
            self._parsel[use] = read(self._safe_text())
        return self._parsel[use]

    def _in_head(self) -> list[LexborNode]:
        """Return the title and possible directives. One search finds both, since most of its cost is its start."""
        if self._head is None:
            head = self._tree().parser.head
            self._head = find(head, _IN_HEAD) if head is not None else []
        return self._head

    def _safe_text(self) -> str:
        """Return the text, cut off before pathological markup that would overload a parser."""
        if len(self.page.body) < SAFE_BYTES:
            return self.text
        source = self.text.encode("utf-8", "replace")
        safe = cut_pathological(source)
        return self.text if len(safe) == len(source) else safe.decode("utf-8", "replace")

    def _read_hrefs(self) -> Hrefs:
        if self._hrefs is None:
            self._hrefs = links.read_hrefs(self._tree(), self.encoding)
            if self._base_url is None:
                self._base_url = links.base_url(self.page.url, self._hrefs.base)
        return self._hrefs

    def _find_links(self) -> list[str]:
        hrefs = self._read_hrefs().links if self.kind != "other" else {}
        return list(dict.fromkeys(self._find_refresh() + self._joined().all(hrefs)))

    def _find_refresh(self) -> list[str]:
        """Return the target of the page's refresh, or nothing. As in browsers, the first valid refresh counts."""
        refreshes = [] if self.kind == "other" else self._read_hrefs().refreshes
        if (header := self.page.header("refresh")) is not None:
            refreshes = [(header, None), *refreshes]
        for content, base in refreshes:
            if self._refresh_seconds is not None and (refresh := links.read_refresh(content)) is not None:
                seconds, href = refresh
                with suppress(UrlError):
                    url = absolute(links.in_encoding(href, self.encoding), links.base_url(self.page.url, base))
                    is_other = href != "" and canonical(url) != canonical(self.page.url)
                    return [url] if is_other and seconds <= self._refresh_seconds else []
        return []

    def _find_links_in(self, restrict: Texts, unique: bool) -> list[str]:
        if self.kind == "other":
            return self._find_refresh() if not restrict else []
        hrefs: list[str] = []
        for selector in regions(restrict):
            if is_xpath(selector):
                hrefs += links.hrefs_in_lxml(self.xpath(selector))
            else:
                hrefs += links.hrefs_in(select(self._tree(), selector, marked=False))
        if not restrict:
            hrefs = self._find_refresh() + links.hrefs_below(self._tree())
        if unique:
            hrefs = list(dict.fromkeys(hrefs))
        found = self._joined().all([links.in_encoding(href, self.encoding) for href in hrefs])
        return list(dict.fromkeys(found)) if unique else found

    def _find_nofollow(self) -> list[str]:
        hrefs = self._read_hrefs().links
        if all(hrefs.values()):
            return []
        # Not with ``_joined``, which counts what is wrong with them: that is for ``links``.
        join = Joiner(self._base(), self._joins)
        barred = dict.fromkeys(join.all([href for href, is_followed in hrefs.items() if not is_followed]))
        refresh = self._find_refresh()
        if not refresh and len(self.links()) == len(hrefs):
            # Each leads to a page of its own.
            return list(barred)
        followed = {*refresh, *join.all([href for href, is_followed in hrefs.items() if is_followed])}
        return [url for url in barred if url not in followed]

    def _absolute(self, href: str) -> str | None:
        try:
            return absolute(links.in_encoding(href, self.encoding), self._base())
        except UrlError:
            return None

    def _base(self) -> str:
        """Base URL of relative links: ``<base href>``, or the URL of the page."""
        if self._base_url is None:
            base = links.base_of(self._tree()) if self.kind != "other" else None
            self._base_url = links.base_url(self.page.url, base)
        return self._base_url

    def _joined(self) -> Joiner:
        if self._joiner is None:
            self._joiner = Joiner(self._base(), self._joins)
        return self._joiner

    def _href(self, link: Any) -> str:
        return links.in_encoding(links.href_of(link), self.encoding)
