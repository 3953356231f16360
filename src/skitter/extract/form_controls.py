"""Controls of the forms of a page, by the HTML standard: who owns a control, and what it sends.

The whole page is read in one search, and every ancestor of a control is visited once: hostile pages may nest as they
like. Not there: ``dirname``, ``wrap=hard``, and what scripts would do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from selectolax.lexbor import LexborNode

from skitter.extract.selector import find

_CONTROLS = "form, input, button, select, textarea, option"
_BUTTON_KINDS = frozenset(("submit", "image", "reset", "button"))
_SUBMIT_KINDS = frozenset(("submit", "image"))
_ONE_LINE = frozenset(("text", "search", "tel", "password", "url", "email"))
_KINDS = _BUTTON_KINDS | _ONE_LINE | frozenset("hidden file checkbox radio number range color".split())
_IN_TABLE = frozenset(("table", "tbody", "thead", "tfoot", "tr"))
_TABLES = 32
"""Maximum number of tables around a control that are examined."""
_LINE_ENDS = re.compile(r"[\r\n]+")
_COLOR = re.compile(r"#[0-9a-f]{6}\Z")


class Option(NamedTuple):
    """Element ``option`` of a ``select``."""

    value: str
    is_selected: bool
    is_disabled: bool


class Control:
    """Element ``input``, ``button``, ``select`` or ``textarea``."""

    __slots__ = ("attributes", "is_disabled", "kind", "name", "node", "options")

    def __init__(self, node: LexborNode, attributes: dict[str, str | None], tag: str, is_disabled: bool) -> None:
        self.node = node
        self.attributes = attributes
        self.name = attributes.get("name") or ""
        self.kind = _kind(tag, (attributes.get("type") or "").lower())
        self.is_disabled = is_disabled
        self.options: list[Option] = []

    @property
    def is_submit(self) -> bool:
        """Whether the control is a button that submits its form."""
        return self.kind in _SUBMIT_KINDS and not self.is_disabled

    def values(self) -> list[str]:
        """Return the values that the control sends, unless it is disabled, a button, a radio button or a file field."""
        if self.kind == "select":
            return self._selected()
        if self.kind == "textarea":
            return [self.node.text().replace("\r\n", "\n").replace("\r", "\n")]
        value = self.attributes.get("value") or ""
        if self.kind == "checkbox":
            return [self.checked_value] if "checked" in self.attributes else []
        if self.kind in _ONE_LINE:
            value = _LINE_ENDS.sub("", value)
            return [value.strip() if self.kind in ("url", "email") else value]
        if self.kind == "color":
            return [value.lower() if _COLOR.match(value.lower()) else "#000000"]
        return [value or "50" if self.kind == "range" else value]

    @property
    def checked_value(self) -> str:
        """Value that a checkbox or radio button sends when it is checked."""
        value = self.attributes.get("value")
        return "on" if value is None and "value" not in self.attributes else value or ""

    def _selected(self) -> list[str]:
        chosen = [option for option in self.options if option.is_selected]
        if "multiple" not in self.attributes:
            chosen = chosen[-1:]
            size = self.attributes.get("size") or ""
            if not chosen and not (size.isdecimal() and size.isascii() and len(size) < 10 and int(size) > 1):
                chosen = [option for option in self.options if not option.is_disabled][:1]
        return [option.value for option in chosen if not option.is_disabled]


class FormElement:
    """Element ``form`` with the controls that it owns, in document order."""

    __slots__ = ("attributes", "controls", "node")

    def __init__(self, node: LexborNode) -> None:
        self.node = node
        self.attributes = node.attributes
        self.controls: list[Control] = []


class _Place(NamedTuple):
    """Properties that an element inherits from its ancestors. Elements are identified by ``mem_id``; 0 means none."""

    form: int = 0
    select: int = 0
    table: int = 0
    is_disabled: bool = False
    is_in_datalist: bool = False


class _Places:
    """Places of elements. Those of ancestors are cached."""

    def __init__(self) -> None:
        self._known: dict[int, _Place] = {}
        self._first_legends: dict[int, int] = {}
        self.table_of: dict[int, int] = {}
        """Enclosing table of each table."""

    def of(self, node: LexborNode) -> _Place:
        path = [node]
        known = self._known
        while path[-1].mem_id not in known:
            parent = path[-1].parent
            if parent is None:
                known[path[-1].mem_id] = _Place()
                break
            path.append(parent)
        for parent, child in zip(reversed(path), path[-2::-1], strict=False):
            known[child.mem_id] = self._below(parent, child, known[parent.mem_id])
        return known[node.mem_id]

    def _below(self, parent: LexborNode, child: LexborNode, place: _Place) -> _Place:
        tag = parent.tag
        if tag == "form":
            return place._replace(form=parent.mem_id)
        if tag == "select":
            return place._replace(select=parent.mem_id)
        if tag == "option":
            # One inside another, which only foreign markup can have, is part of its text.
            return place._replace(select=0)
        if tag == "datalist":
            return place._replace(is_in_datalist=True)
        if tag == "table":
            self.table_of[parent.mem_id] = place.table
            return place._replace(table=parent.mem_id)
        if tag == "fieldset" and "disabled" in parent.attributes and self._first_legend(parent) != child.mem_id:
            return place._replace(is_disabled=True)
        return place

    def _first_legend(self, fieldset: LexborNode) -> int:
        found = self._first_legends.get(fieldset.mem_id)
        if found is None:
            legends = (child.mem_id for child in fieldset.iter() if child.tag == "legend")
            found = self._first_legends[fieldset.mem_id] = next(legends, 0)
        return found


def read_forms(root: LexborNode) -> list[FormElement]:
    """Return the forms of a page with their controls."""
    places = _Places()
    elements = [(node, node.tag or "") for node in find(root, _CONTROLS)]
    forms = {node.mem_id: FormElement(node) for node, tag in elements if tag == "form"}
    by_id: dict[str, FormElement] = {}
    for form in forms.values():
        by_id.setdefault(form.attributes.get("id") or "", form)
    selects: dict[int, Control] = {}
    open_in_table: dict[int, FormElement] = {}
    for node, tag in elements:
        place = places.of(node)
        if tag == "form":
            if (parent := node.parent) is not None and parent.tag in _IN_TABLE:
                open_in_table[place.table] = forms[node.mem_id]
        elif tag == "option":
            if (select := selects.get(place.select)) is not None:
                select.options.append(_option(node))
        else:
            attributes = node.attributes
            control = Control(node, attributes, tag, place.is_disabled or "disabled" in attributes)
            if tag == "select":
                selects[node.mem_id] = control
            owner = forms.get(place.form) or _owner_in_table(place.table, open_in_table, places.table_of)
            if "form" in attributes:
                owner = by_id.get(attributes["form"] or " ")
            if owner is not None and not place.is_in_datalist:
                owner.controls.append(control)
    return list(forms.values())


def _owner_in_table(table: int, forms: dict[int, FormElement], table_of: dict[int, int]) -> FormElement | None:
    # <table><form><tr><td><input>: browsers leave the form empty, in the table, and it owns the input all the same.
    for _ in range(_TABLES if forms else 0):
        if table in forms or not table:
            return forms.get(table)
        table = table_of.get(table, 0)
    return None


def _option(node: LexborNode) -> Option:
    attributes, parent = node.attributes, node.parent
    is_in_disabled = parent is not None and parent.tag == "optgroup" and "disabled" in parent.attributes
    value = attributes["value"] or "" if "value" in attributes else " ".join(node.text().split())
    return Option(value, "selected" in attributes, is_in_disabled or "disabled" in attributes)


def _kind(tag: str, given: str) -> str:
    if tag == "button":
        return given if given in ("reset", "button") else "submit"
    if tag == "input":
        # What browsers know and these rules do not (dates) sends its value as it is.
        return given if given in _KINDS or given in ("date", "month", "week", "time", "datetime-local") else "text"
    return tag
