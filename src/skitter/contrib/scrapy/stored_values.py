"""Stored form of values in ``meta`` and ``cb_kwargs`` of Scrapy's requests: items and similar become tagged dicts.

Types that ``model.meta_codec`` supports (text, numbers, dates, decimals, tuples, sets) are left to it. Nothing is
pickled: a class is stored by its name, and looked up only in modules of the spider's own package or in modules that are
already imported.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import PurePath
from typing import Any

from itemloaders import ItemLoader
from scrapy import Item
from scrapy.http import Request
from scrapy.link import Link

from skitter.errors import RequestError
from skitter.model.meta_codec import has_stored_form

TAG = "\0"
"""Key that marks a dict as the stored form of another type; a user's dict with this key is stored as pairs."""
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_SEQUENCES: dict[type, str] = {tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque"}
_BUILT = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
_LINK_FIELDS = ("url", "text", "fragment", "nofollow")
_HINT = (
    "another process may read it: pass text, numbers, dates, lists, dicts, Items, dataclasses or attrs objects"
    " (for a selector the result of .get(), for a response the values that you need)"
)


class UnstorableError(TypeError):
    """A value has no stored form."""


def pack_values(values: Mapping[str, Any], place: str, url: str) -> dict[str, Any]:
    """Return ``meta`` or ``cb_kwargs`` in stored form. Raises RequestError that names a value without one."""
    try:
        return {
            key: value if type(value) in _PLAIN else _pack(value, f"{place}[{key!r}]") for key, value in values.items()
        }
    except (UnstorableError, RecursionError) as error:
        raise RequestError(f"a request cannot be stored: {url}: {error}", hint=_HINT) from error


def _pack(value: Any, place: str) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        if TAG not in value and all(type(key) in _PLAIN for key in value):
            return {key: _pack(member, f"{place}[{key!r}]") for key, member in value.items()}
        return _tagged("dict", values=_pairs(value, place))
    if kind is list:
        return [_pack(member, f"{place}[{index}]") for index, member in enumerate(value)]
    if kind in _SEQUENCES:
        return _tagged(_SEQUENCES[kind], values=[_pack(member, place) for member in value])
    if has_stored_form(kind):
        return value
    return _pack_object(value, place)


def _pack_object(value: Any, place: str) -> Any:
    if isinstance(value, enum.Enum):
        return _tagged("enum", **{"class": _name(type(value), place), "values": value.name})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _tagged(
            "namedtuple", **{"class": _name(type(value), place), "values": [_pack(each, place) for each in value]}
        )
    if isinstance(value, (str, int, float)):
        # Subclasses, such as the text that lxml returns, are stored as their base type.
        base = next(each for each in (str, int, float) if isinstance(value, each))
        return base(value) if base is not str else str.__str__(value)
    if isinstance(value, (OrderedDict, defaultdict, Counter)):
        return _tagged("dict", values=_pairs(value, place))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Link):
        return _tagged("link", values=[getattr(value, name) for name in _LINK_FIELDS])
    if isinstance(value, ItemLoader):
        return _pack_loader(value, place)
    if isinstance(value, Request):
        fields = {
            name: getattr(value, name) for name in value.attributes if name not in ("callback", "errback", "headers")
        }
        fields["headers"] = dict(value.headers)
        return _tagged("request", **{"class": _name(type(value), place), "values": _pack(fields, place)})
    fields_of = _item_fields(value)
    if fields_of is not None:
        return _tagged(
            "item",
            **{
                "class": _name(type(value), place),
                "values": {name: _pack(member, f"{place}.{name}") for name, member in fields_of.items()},
            },
        )
    raise UnstorableError(f"{place} is of a type that has no stored form: {type(value).__name__}")


def _item_fields(value: Any) -> dict[str, Any] | None:
    """Return the fields that are set in an item of any kind, or None if the value is not an item."""
    if isinstance(value, Item):
        return dict(value)
    if dataclasses.is_dataclass(value):
        return {
            field.name: getattr(value, field.name) for field in dataclasses.fields(value) if hasattr(value, field.name)
        }
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return {field.name: getattr(value, field.name) for field in attributes if hasattr(value, field.name)}
    if callable(getattr(value, "model_dump", None)):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return None


def _pack_loader(loader: ItemLoader, place: str) -> dict[str, Any]:
    """Return the stored form of a loader: its item and collected values, but not the page that it reads."""
    return _tagged(
        "loader",
        **{
            "class": _name(type(loader), place),
            "item": _pack(loader.item, f"{place}.item"),
            "values": {name: _pack(list(each), f"{place}.{name}") for name, each in loader._values.items()},  # noqa: SLF001
        },
    )


def _pairs(value: Mapping[Any, Any], place: str) -> list[list[Any]]:
    return [[_pack(key, place), _pack(member, f"{place}[{key!r}]")] for key, member in value.items()]


def _tagged(kind: str, **parts: Any) -> dict[str, Any]:
    return {TAG: kind, **parts}


def _name(kind: type, place: str) -> str:
    if "<locals>" in kind.__qualname__:
        raise UnstorableError(f"{place} is of a class that is defined inside a function: {kind.__qualname__}")
    return f"{kind.__module__}:{kind.__qualname__}"


class ValueReader:
    """Reads stored values. ``package`` is that of the spider, whose modules may be imported to find classes."""

    def __init__(self, package: str) -> None:
        self._package = package.partition(".")[0]
        self._kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "dict": lambda form: {self._hashable(key): self.read(value) for key, value in form["values"]},
            "enum": lambda form: self.find_class(form["class"], enum.Enum)[form["values"]],
            "namedtuple": lambda form: self.find_class(form["class"], tuple)(*map(self.read, form["values"])),
            "link": lambda form: Link(**dict(zip(_LINK_FIELDS, form["values"], strict=True))),
            "request": self._request,
            "item": self._item,
            "loader": self._loader,
        }

    def read_values(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return ``meta`` or ``cb_kwargs`` with their original values."""
        return {key: value if type(value) in _PLAIN else self.read(value) for key, value in values.items()}

    def read(self, value: Any) -> Any:
        """Return the value of a stored form."""
        if type(value) is list:
            return [self.read(member) for member in value]
        if type(value) is not dict:
            return value
        kind = value.get(TAG)
        if kind is None:
            return {key: self.read(member) for key, member in value.items()}
        if kind in _BUILT:
            return _BUILT[kind](self.read(member) for member in value["values"])
        return self._kinds[kind](value)

    def find_class(self, name: str, base: type = object) -> type[Any]:
        """Return the class with a stored name. Raises RequestError if it is not found or not trusted."""
        module_name, _, qualified = name.partition(":")
        if module_name not in sys.modules and module_name.partition(".")[0] == self._package:
            import_module(module_name)
        found: Any = sys.modules.get(module_name)
        for part in qualified.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, type) or not issubclass(found, base):
            raise RequestError(
                f"a stored request has a value of an unknown class: {name}",
                hint="it must be in a module that the spider imports, as it was when the request was stored",
            )
        return found

    def _hashable(self, key: Any) -> Any:
        key = self.read(key)
        return tuple(key) if isinstance(key, list) else key

    def _item(self, form: dict[str, Any]) -> Any:
        kind = self.find_class(form["class"])
        values = {name: self.read(value) for name, value in form["values"].items()}
        if issubclass(kind, Item):
            return kind(values)
        if dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
            # Without the constructor, which already ran when the item was first created.
            made = object.__new__(kind)
            for name, value in values.items():
                object.__setattr__(made, name, value)
            return made
        if callable(construct := getattr(kind, "model_construct", None)):
            return construct(**values)
        raise RequestError(f"a stored request has a value of a class that is not an item: {form['class']}")

    def _loader(self, form: dict[str, Any]) -> Any:
        loader = self.find_class(form["class"], ItemLoader)(item=self.read(form["item"]))
        loader._values.clear()  # noqa: SLF001
        loader._values.update({name: self.read(each) for name, each in form["values"].items()})  # noqa: SLF001
        return loader

    def _request(self, form: dict[str, Any]) -> Any:
        return self.find_class(form["class"], Request)(**self.read(form["values"]))
