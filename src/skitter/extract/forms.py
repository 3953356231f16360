"""Forms of a page: their fields, and the request that a browser would send to submit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from selectolax.lexbor import LexborNode

from skitter.errors import FormError, UrlError
from skitter.extract.charset_labels import codec_of, name_of
from skitter.extract.css_selectors import SelectorError
from skitter.extract.form_controls import Control, FormElement
from skitter.extract.links import in_encoding
from skitter.extract.selector import find
from skitter.model.form_data import MULTIPART, NO_FILE, PLAIN, URLENCODED, File, multipart, plain, urlencoded
from skitter.model.request import Request
from skitter.model.url import absolute

_OPTIONS_HINT = "form.request(values, callback=…, meta=…) takes the arguments of a Request"


class Form:
    """Form of a page, from ``Response.form``: its fields with their preset values, and requests that submit them."""

    __slots__ = ("_base", "_element", "_encoding", "_page_url", "_root", "_session")

    def __init__(
        self,
        element: FormElement,
        root: LexborNode,
        *,
        page_url: str,
        base: str,
        encoding: str,
        session: str | None = "",
    ) -> None:
        self._session = session
        self._element = element
        self._root = root
        self._page_url = page_url
        self._base = base
        self._encoding = encoding

    def __repr__(self) -> str:
        return f"<Form {described(self._element)}>"

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Names and values that are sent if nothing is changed and no button is clicked, in document order.

        File fields are not included.
        """
        return self._entries({}, None, {}, is_multipart=True)[0]

    @property
    def method(self) -> str:
        """Method of the form: ``GET``, ``POST`` or ``DIALOG``."""
        return _method(self._element.attributes.get("method"))

    @property
    def action(self) -> str:
        """Absolute URL that the form is submitted to. Raises UrlError if that URL cannot be crawled."""
        return self._action(None)

    def submit(
        self,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        click: str | bool = False,
        files: Mapping[str, File] | None = None,
        **fields: Any,
    ) -> Request:
        """Return a request that submits the form with changed fields: ``form.submit(user="me", password="secret")``.

        Pass fields whose names are not valid keywords in a dict: ``form.submit({"q[]": ["a", "b"]})``. A list sends
        several values, None omits the field, and True and False check or uncheck a checkbox. Names that the form does
        not have are sent too. ``click`` is the name of a button or a CSS selector for one; True clicks the first
        button. ``files`` is a dict ``{name: (filename, content, content type)}``. The response goes to ``parse``; use
        ``request`` to set another callback.
        """
        return self.request({**(values or {}), **fields}, click=click, files=files)

    def request(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        click: str | bool = False,
        files: Mapping[str, File] | None = None,
        callback: Any = None,
        **options: Any,
    ) -> Request:
        """Return the same request as ``submit``, with a callback and any other arguments of ``Request``."""
        options.setdefault("session", self._session)
        button = self._button(click)
        attributes = button.attributes if button is not None else {}
        method = _method(attributes.get("formmethod", self._element.attributes.get("method")))
        if method == "DIALOG":
            raise FormError(
                f"the form sends nothing: {self!r}", hint="its method is dialog, which only closes a window"
            )
        kind = _enctype(attributes.get("formenctype", self._element.attributes.get("enctype")), method)
        if files and kind != MULTIPART:
            raise FormError(
                f"the form cannot send files: {self!r}", hint=f"that needs {MULTIPART}, and this form has {kind}"
            )
        pairs, all_files = self._entries(values or {}, button, files or {}, is_multipart=kind == MULTIPART)
        url, codec = self._action(button), self._codec()
        if method == "GET":
            url = absolute(f"{url.partition('?')[0]}?{urlencoded(pairs, codec).decode()}")
            return Request(url, callback, **options)
        if kind == MULTIPART:
            kind, body = multipart(pairs, all_files, codec)
        else:
            body = plain(pairs, codec) if kind == PLAIN else urlencoded(pairs, codec)
        headers = {"Content-Type": kind, **dict(options.pop("headers", None) or {})}
        return Request(url, callback, method="POST", headers=headers, body=body, **options)

    def _entries(
        self, values: Mapping[str, Any], button: Control | None, files: Mapping[str, File], *, is_multipart: bool
    ) -> tuple[list[tuple[str, str]], dict[str, File]]:
        """Return the texts and files to send. A given value takes the position of the first control of its name."""
        controls = self._element.controls
        # Of radio buttons with one name, the last that is checked is.
        radios = {control.name: control for control in controls if control.kind == "radio" and _is_checked(control)}
        pairs: list[tuple[str, str]] = []
        all_files: dict[str, File] = {}
        given = {name: self._texts(name, value) for name, value in values.items()}
        for control in controls:
            name = control.name
            if name in given:
                pairs += [(name, text) for text in given.pop(name)]
            elif name in values or name in files or control.is_disabled:
                continue
            elif control is button:
                pairs += _clicked(control)
            elif not name or control.kind in ("submit", "image", "reset", "button"):
                continue
            elif control.kind == "radio":
                pairs += [(name, control.checked_value)] if radios.get(name) is control else []
            elif control.kind == "file" and is_multipart:
                all_files[name] = NO_FILE
            elif control.kind == "hidden" and name.lower() == "_charset_" and "value" not in control.attributes:
                pairs.append((name, name_of(self._codec())))
            else:
                pairs += [(name, value) for value in control.values()]
        pairs += [(name, text) for name, texts in given.items() for text in texts]
        return pairs, {**all_files, **files}

    def _texts(self, name: str, value: Any) -> list[str]:
        if value is None:
            return []
        if isinstance(value, bool):
            boxes = [
                control for control in self._element.controls if (control.name, control.kind) == (name, "checkbox")
            ]
            if not boxes:
                raise FormError(f"True and False are for checkboxes: {name}", hint="write the value as text")
            return [box.checked_value for box in boxes] if value else []
        if isinstance(value, (str, int, float)):
            return [str(value)]
        if isinstance(value, (list, tuple)):
            return [text for each in value for text in self._texts(name, each)]
        raise FormError(
            f"the value of a field must be text, a number or a list, not {type(value).__name__}: {name}",
            hint=_OPTIONS_HINT,
        )

    def _button(self, click: str | bool) -> Control | None:
        if click is False:
            return None
        buttons = [control for control in self._element.controls if control.is_submit]
        if click is True:
            found = buttons
        else:
            found = [button for button in buttons if button.name == click] or self._selected(buttons, click)
        if not found:
            names = [button.name or button.attributes.get("value") or button.node.text().strip() for button in buttons]
            hint = "its buttons: " + ", ".join(repr(name)[:50] for name in names[:10]) if names else "it has no button"
            raise FormError(f"no such button in the form: {click}: {self!r}", hint=hint)
        return found[0]

    def _selected(self, buttons: Sequence[Control], selector: str) -> list[Control]:
        try:
            ids = {node.mem_id for node in find(self._root, selector)}
        except SelectorError:
            return []
        return [button for button in buttons if button.node.mem_id in ids]

    def _action(self, button: Control | None) -> str:
        given = self._element.attributes.get("action")
        if button is not None and "formaction" in button.attributes:
            given = button.attributes["formaction"]
        action = (given or "").strip(" \t\n\r\f")
        # No action is the page itself, whatever its <base> says.
        try:
            return absolute(in_encoding(action, self._encoding), self._base) if action else absolute(self._page_url)
        except UrlError as error:
            raise UrlError(error.rule, f"the form cannot be submitted: {error}", hint=error.hint) from error

    def _codec(self) -> str:
        labels = (self._element.attributes.get("accept-charset") or "").replace(",", " ").split()
        codec = next(filter(None, map(codec_of, labels)), self._encoding)
        return "utf-8" if codec.startswith("utf") else codec


def pick_form(
    forms: Sequence[FormElement],
    root: LexborNode,
    *,
    css: str | None = None,
    name: str | None = None,
    form_id: str | None = None,
    index: int | None = None,
) -> FormElement:
    """Return one form of a page. Raises FormError, which lists the forms of the page, if none matches."""
    found: Sequence[FormElement] = forms
    if css is not None:
        chosen = _forms_of(find(root, css), forms)
        found = [form for form in found if form.node.mem_id in chosen]
    if name is not None:
        found = [form for form in found if form.attributes.get("name") == name]
    if form_id is not None:
        found = [form for form in found if form.attributes.get("id") == form_id]
    place = index or 0
    if -len(found) <= place < len(found):
        return found[place]
    asked = {"css": css, "name": name, "id": form_id, "index": index}
    shown = ", ".join(f"{key}={value!r}" for key, value in asked.items() if value is not None) or "it has none"
    there = "; ".join(described(form) for form in forms[:10]) or "none"
    raise FormError(f"no such form on the page: {shown}", hint=f"its forms: {there}")


def described(form: FormElement) -> str:
    """Return one line that describes a form: its id, name, method and action."""
    attributes = form.attributes
    names = "".join(f'[{key}="{value[:50]}"]' for key in ("id", "name") if (value := attributes.get(key)))
    return f"form{names} {_method(attributes.get('method'))} {(attributes.get('action') or '')[:80]}".rstrip()


def _forms_of(nodes: Iterable[LexborNode], forms: Sequence[FormElement]) -> set[int]:
    """Return the forms that own these controls or contain these elements. Each ancestor is visited once."""
    owners = {control.node.mem_id: form.node.mem_id for form in forms for control in form.controls}
    chosen: set[int] = set()
    seen: set[int] = set()
    for node in nodes:
        around: LexborNode | None = node
        if (owner := owners.get(node.mem_id)) is not None:
            chosen.add(owner)
            continue
        while around is not None and (identity := around.mem_id) not in seen:
            seen.add(identity)
            if around.tag == "form":
                chosen.add(identity)
                break
            around = around.parent
    return chosen


def _is_checked(control: Control) -> bool:
    return "checked" in control.attributes


def _clicked(button: Control) -> list[tuple[str, str]]:
    if button.kind == "image":
        prefix = f"{button.name}." if button.name else ""
        return [(f"{prefix}x", "0"), (f"{prefix}y", "0")]
    return [(button.name, button.attributes.get("value") or "")] if button.name else []


def _method(given: str | None) -> str:
    method = (given or "").upper()
    return method if method in ("POST", "DIALOG") else "GET"


def _enctype(given: str | None, method: str) -> str:
    kind = (given or "").lower()
    return kind if method == "POST" and kind in (MULTIPART, PLAIN) else URLENCODED
