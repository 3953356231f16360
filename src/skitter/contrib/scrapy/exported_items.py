"""Items in the form that Scrapy's exporters write: selected fields, field serializers, and date formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from itemadapter import ItemAdapter
from scrapy.settings import BaseSettings
from scrapy.utils.serialize import ScrapyJSONEncoder

from skitter.contrib.scrapy.project_settings import feed_fields

_PLAIN = frozenset({str, int, float, bool, type(None), bytes})
_ENCODER = ScrapyJSONEncoder()


class ItemExport:
    """Converts items to records."""

    def __init__(self, settings: BaseSettings) -> None:
        self._fields = feed_fields(settings)

    def record(self, item: Any) -> dict[str, Any]:
        """Return the fields of an item with plain values."""
        pairs: Iterable[tuple[Any, Any]]
        if type(item) is dict:
            pairs = item.items()
        else:
            adapter = ItemAdapter(item)
            pairs = ((name, _serialized(adapter, name, value)) for name, value in adapter.items())
        if self._fields:
            found = dict(pairs)
            pairs = ((shown, found[name]) for name, shown in self._fields.items() if name in found)
        return {name: value if type(value) in _PLAIN else plain(value) for name, value in pairs}


def is_item(value: object) -> bool:
    """Return whether Scrapy treats a value as an item."""
    return type(value) is dict or ItemAdapter.is_item(value)


def _serialized(adapter: ItemAdapter, name: str, value: Any) -> Any:
    serializer = adapter.get_field_meta(name).get("serializer")
    return serializer(value) if serializer is not None else value


def plain(value: Any) -> Any:
    """Return a value in the form that Scrapy's JSON encoder writes."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(member) for member in value]
    try:
        # Dates, decimals, nested items and so on, as the installed version of Scrapy writes them.
        return plain(_ENCODER.default(value))
    except (TypeError, RecursionError):
        # Left to skitter's own item codec, which reports values that it cannot store.
        return value
