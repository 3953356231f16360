"""Crawlo's requests: its keyword arguments, converted to skitter's requests."""

from __future__ import annotations

import base64
import enum
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import skitter
from skitter.errors import RequestError
from skitter.model.secrets import shown_url

_FIELDS = frozenset(skitter.Request.__struct_fields__)


class RequestPriority(enum.IntEnum):
    """Crawlo's names for priorities. As in skitter, the highest is served first."""

    BACKGROUND = -200
    LOW = -100
    NORMAL = 0
    HIGH = 100
    URGENT = 200


def Request(  # noqa: N802  the name that Crawlo spiders use
    url: str,
    callback: Any = None,
    errback: Any = None,
    method: str | None = "GET",
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    form_data: Mapping[str, Any] | None = None,
    json_body: Any = None,
    params: Mapping[str, Any] | None = None,
    cb_kwargs: Mapping[str, Any] | None = None,
    cookies: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    priority: int = RequestPriority.NORMAL,
    dont_filter: bool = False,
    timeout: float | None = None,
    proxy: str | None = None,
    allow_redirects: bool = True,
    auth: tuple[str, str] | None = None,
    verify: bool = True,
    flags: Any = None,
    encoding: str | None = None,
    use_dynamic_loader: bool = False,
) -> skitter.Request:
    """Return skitter's request. Raises RequestError for an option without a counterpart; none is silently ignored."""
    if not verify:
        raise _without_counterpart("verify=False", url, "the setting verify_tls=false applies to the whole job")
    if flags or (encoding or "utf-8").lower() not in ("utf-8", "utf8"):
        raise _without_counterpart("flags" if flags else "encoding", url, "put your own values in meta")
    found: dict[str, Any] = {"headers": dict(headers or {}), "meta": dict(meta or {})}
    if auth is not None:
        secret = base64.b64encode(":".join(auth).encode()).decode()
        found["headers"] |= {"Authorization": f"Basic {secret}"}
    if not allow_redirects:
        found["meta"] |= {"dont_redirect": True}
    if params:
        url += ("&" if "?" in url else "?") + urlencode(params, doseq=True)
    if isinstance(body, Mapping):
        json_body, body = body, None
    contents = {"body": body, "form": form_data, "json": json_body}
    found |= {name: value for name, value in contents.items() if value is not None}
    if method and not (method.upper() == "GET" and (json_body is not None or form_data is not None)):
        found["method"] = method.upper()
    for name, value in (("proxy", proxy), ("render", use_dynamic_loader)):
        if value and name not in _FIELDS:
            raise _without_counterpart(name, url, "this version of skitter does not support it")
        if value:
            found[name] = value
    return skitter.Request(
        url,
        callback=callback,
        errback=errback,
        cookies=dict(cookies or {}),
        cb_kwargs=dict(cb_kwargs or {}),
        priority=int(priority),
        dont_filter=dont_filter,
        timeout=timeout,
        **found,
    )


def _without_counterpart(name: str, url: str, hint: str) -> RequestError:
    return RequestError(f"skitter has no counterpart for {name} of a Crawlo request: {shown_url(url)}", hint=hint)
