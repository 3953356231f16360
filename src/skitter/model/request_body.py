"""Request content: ``form``, ``json`` and ``files`` of a Request as its body and Content-Type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from skitter.errors import RequestError
from skitter.model.form_data import URLENCODED, Part, multipart_body
from skitter.model.request import DEFAULT_METHOD, Request, wrong
from skitter.model.secrets import shown_url

MAX_CONTENT_BYTES = 16 << 20
"""A request is stored whole, and goes along with each of its leases."""
JSON_TYPE = "application/json"
DEFAULT_FILE_TYPE = "application/octet-stream"

Pairs = list[tuple[bytes, bytes]]


def take_content(request: Request) -> None:
    """Make the method, the Content-Type and the body of a request's ``form``, ``json`` and ``files``."""
    form, value, files = request.form, request.json, request.files
    request.form = request.json = request.files = None
    # An empty body was not given, and content that is given twice has no meaning.
    given = {"body": bool(request.body), "json": value is not None, "form": form is not None, "files": bool(files)}
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1 and names != ["form", "files"]:
        raise RequestError(
            f"a request can have only one kind of content, not {' and '.join(names)}: {shown_url(request.url)}",
            hint="form and files can be combined; body, json and form cannot",
        )
    is_get = request.method is not DEFAULT_METHOD and request.method.upper() == "GET"
    if is_get and form is not None and not files:
        request.url = with_query(request.url, form_pairs(request, form))
        return
    if request.method is DEFAULT_METHOD:
        request.method = "POST"
    if value is not None:
        content_type, body = JSON_TYPE, _json_body(request, value)
    elif files is not None and (files or form is None):
        fields = [(_quoted(name), None, b"", each) for name, each in form_pairs(request, form or {})]
        content_type, body = multipart_body([*fields, *_file_parts(request, files)])
    else:
        content_type, body = URLENCODED, urlencode(form_pairs(request, form)).encode()
    if len(body) > MAX_CONTENT_BYTES:
        raise RequestError(
            f"a request's content has more than {MAX_CONTENT_BYTES} bytes: {shown_url(request.url)}",
            hint="it is stored until it is sent; send larger content with a program of your own",
        )
    request.body = body
    if not any(name.lower() == "content-type" for name in request.headers):
        request.headers = request.headers | {"Content-Type": content_type}


def with_query(url: str, pairs: Pairs) -> str:
    """Return the URL with the fields of a form added to its query."""
    url, mark, fragment = url.partition("#")
    if pairs:
        joint = "?" if "?" not in url else "" if url.endswith(("?", "&")) else "&"
        url += joint + urlencode(pairs)
    return url + mark + fragment


def form_pairs(request: Request, form: Any) -> Pairs:
    """Return the fields of a form in their order, each as bytes."""
    found: Pairs = []
    for name, value in _pairs(request, "form", form):
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, bool) or not isinstance(each, (str, bytes, int, float)):
                # The value is not repeated: it may be a secret.
                raise wrong(request, "form", f"{type(each).__name__} ({name!r:.50})")
            found.append((name, _bytes(request, "form", each)))
    return found


def _pairs(request: Request, field: str, given: Any) -> Iterator[tuple[bytes, Any]]:
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, (list, tuple)):
        pairs = list(given)
        if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in given):
            raise wrong(request, field, f"a {type(given).__name__} of other values")
    else:
        raise wrong(request, field, type(given).__name__)
    for name, value in pairs:
        if not isinstance(name, (str, bytes)):
            raise wrong(request, field, f"{type(name).__name__} as the name of a field ({name!r:.50})")
        yield _bytes(request, field, name), value


def _bytes(request: Request, field: str, value: str | bytes | float) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return str(value).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise wrong(request, field, f"text with half a surrogate pair ({half!a:.20})") from error


def _json_body(request: Request, value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong(request, "json", f"{type(value).__name__} ({error!s:.100})") from error


# ---- multipart/form-data


def _quoted(name: bytes) -> bytes:
    return name.replace(b'"', b"%22").replace(b"\r", b"%0D").replace(b"\n", b"%0A")


def _file_parts(request: Request, files: Any) -> Iterator[Part]:
    for name, value in _pairs(request, "files", files):
        for each in value if isinstance(value, list) else (value,):
            yield _file_part(request, name, each)


def _file_part(request: Request, name: bytes, value: Any) -> Part:
    file_name: Any = None
    content_type: Any = DEFAULT_FILE_TYPE
    content = value
    if isinstance(value, tuple):
        if len(value) not in (2, 3):
            raise wrong(request, "files", f"a tuple of {len(value)} ({name!r:.50})")
        file_name, content = value[:2]
        content_type = value[2] if len(value) == 3 else content_type
    elif isinstance(value, Path):
        file_name = value.name
    if file_name is None:
        file_name = name
    if not isinstance(file_name, (str, bytes)) or not isinstance(content_type, str):
        raise wrong(request, "files", f"a tuple whose file name or content type is not text ({name!r:.50})")
    if not content_type.isascii() or not content_type.isprintable():
        raise wrong(request, "files", f"a content type that cannot be sent ({content_type!a:.50})")
    if isinstance(content, Path):
        content = _read(request, content)
    if not isinstance(content, (bytes, bytearray)):
        raise wrong(request, "files", f"{type(content).__name__} ({name!r:.50})")
    named = _quoted(_bytes(request, "files", file_name))
    return _quoted(name), named, content_type.encode(), bytes(content)


def _read(request: Request, path: Path) -> bytes:
    try:
        # Not what never ends, such as a pipe.
        if not path.is_file():
            raise wrong(request, "files", f"a path that is not a file ({path})")
        with path.open("rb") as file:
            return file.read(MAX_CONTENT_BYTES + 1)
    except OSError as error:
        raise wrong(request, "files", f"a file that cannot be read ({path}: {error.strerror})") from error
