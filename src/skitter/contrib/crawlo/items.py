"""Crawlo's items: classes with fields that check assigned values."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, ClassVar


class Field:
    """Field of an item with the rules for its values."""

    def __init__(
        self,
        nullable: bool = True,
        *,
        default: Any = None,
        field_type: type | None = None,
        max_length: int | None = None,
        desc: str = "",
    ) -> None:
        self.nullable = nullable
        self.default = default
        self.field_type = field_type
        self.max_length = max_length
        self.desc = desc

    def checked(self, name: str, value: Any) -> Any:
        """Return the value, or the default for an empty one. Raises TypeError or ValueError for an invalid value."""
        if value is None or (isinstance(value, str) and not value.strip()):
            if self.default is None and not self.nullable:
                raise ValueError(f"the field has no value: {name}")
            return value if self.default is None else self.default
        if self.field_type is not None and not isinstance(value, self.field_type):
            raise TypeError(
                f"the field has the wrong type: {name} is {type(value).__name__}, not {self.field_type.__name__}"
            )
        if self.max_length and isinstance(value, str) and len(value) > self.max_length:
            raise ValueError(f"the field is too long: {name} has {len(value)} characters, at most {self.max_length}")
        return value


class Item(MutableMapping[str, Any]):
    """Mapping with declared fields, accessible by key or attribute."""

    fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        for name in own:
            delattr(cls, name)
        cls.fields = {**cls.fields, **own}

    def __init__(self, *args: Any, **values: Any) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in dict(*args, **values).items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        found: Any = self._values[name]
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.fields:
            raise KeyError(f"{type(self).__name__} has no field of this name: {name}")
        self._values[name] = self.fields[name].checked(name, value)

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"{type(self).__name__} has no value of this name: {name}")
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_dict(self) -> dict[str, Any]:
        """Return the values as a plain dict."""
        return dict(self._values)
