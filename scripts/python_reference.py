"""The page docs/reference/python.md: public classes and functions, by their signatures and docstrings.

Types and defaults are those that the source has; fields and attributes are described by the string literals under
them, which exist only in the source and are read with ``ast``. A public name without a docstring is an error.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import os
import re
import sys
import textwrap
import typing
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec

import skitter
import skitter.cluster
import skitter.dedup
import skitter.schedules
import skitter.testing
from skitter import errors, settings
from skitter.dedup import SeenSet
from skitter.spiders.hooks import Hooks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "python.md"

HEAD = """\
# Python API

<!-- Written by scripts/gen_reference.py from the docstrings of the code. Change those, then run `make docs`. -->

The names that `skitter`, `skitter.cluster`, `skitter.dedup`, `skitter.schedules`, `skitter.contrib.celery`,
`skitter.contrib.scrapy`, `skitter.contrib.crawlo` and `skitter.testing` offer, the values that callbacks meet, and the
contracts for parts of your own. Everything else may change without notice. What is `async` in a signature is a
coroutine.
"""

ERRORS_HEAD = """
## Errors

All are in `skitter.errors`, and `skitter.SkitterError` is the base of all. `hint` says what to do. The command line
ends with `exit_code`.
"""

SETTINGS_HEAD = """
## Settings

`settings={…}` of `crawl` and a spider's `custom_settings` take the names of all groups, without the group:
`{"delay_seconds": 0.5}`.

| group | what it sets |
| --- | --- |
"""

# Beside the public names, what they hand out; a name without a module is one of skitter's.
SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Spiders", "The class that people write, and what its `rules` are.", ("Spider", "Rule")),
    (
        "Hooks",
        "What spiders and classes of the setting `hooks` may do on the way. See the [how-to](../how-to/hooks.md).",
        ("Hooks", "Retry", "Drop", "Answer", "Ban", "Stats", "JobInfo", "CloseSummary"),
    ),
    (
        "Requests and responses",
        "What a callback yields, and what it is given.",
        (
            "Request",
            "Priority",
            "Response",
            "skitter.extract.selector:Selector",
            "skitter.extract.selector:SelectorList",
            "skitter.extract.forms:Form",
            "skitter.model.request:Links",
            "skitter.extract.response_headers:Headers",
            "skitter.extract.robots_directives:Directives",
            "Failure",
        ),
    ),
    (
        "Actions of a browser",
        "What `actions` of a request with `render=True` has, in order. See the [how-to](../how-to/render-pages.md).",
        ("WaitFor", "Click", "Scroll", "Fill", "JavaScript", "Screenshot"),
    ),
    (
        "Items",
        "Any dict, dataclass, msgspec struct, attrs class or pydantic model is an item. Item functions raise these.",
        ("DropItem", "RejectItem"),
    ),
    (
        "Dedup",
        "Sets that say whether a key is new. See the [how-to](../how-to/dedup.md).",
        tuple(f"skitter.dedup:{name}" for name in skitter.dedup.__all__),
    ),
    (
        "Coordination",
        "Locks, elections, groups, watched keys and limits of speed. See the [how-to](../how-to/coordinate.md).",
        (
            # Errors have a section of their own.
            *(f"skitter.cluster:{name}" for name in skitter.cluster.__all__ if not name.endswith("Error")),
            "skitter.cluster.lock:Lock",
            "skitter.cluster.lock_set:LockSet",
            "skitter.cluster.lock_set:HeldSet",
            "skitter.cluster.membership:Membership",
            "skitter.cluster.rate_limit:RateLimit",
        ),
    ),
    (
        "Celery",
        "The tasks themselves are in the [how-to](../how-to/celery.md).",
        tuple(f"skitter.contrib.celery:{name}" for name in ("register", "beat_entry", "response_of")),
    ),
    (
        "Scrapy's engine on skitter's frontier",
        "For `SCHEDULER`, and for spiders that a key feeds: see the [how-to](../how-to/come-from-scrapy-redis.md).",
        tuple(f"skitter.contrib.scrapy:{name}" for name in ("RedisSpider", "RedisCrawlSpider")),
    ),
    (
        "Names of Crawlo",
        "See the [how-to](../how-to/come-from-crawlo.md).",
        tuple(f"skitter.contrib.crawlo:{name}" for name in ("Spider", "Request", "RequestPriority", "Item", "Field")),
    ),
    (
        "Crawling from a script",
        "See the [how-to](../how-to/crawl-from-a-script.md).",
        ("crawl", "acrawl", "stream", "ItemStream", "get", "aget"),
    ),
    (
        "Submitting from a program",
        "See the [how-to](../how-to/submit-from-python.md).",
        (
            "connect",
            "Client",
            "AsyncClient",
            "skitter.model.job:Trace",
            "skitter.model.job:Counts",
            "skitter.model.job:JobState",
            "skitter.app.views.jobs:JobView",
            "skitter.model.worker:WorkerSeen",
            "skitter.model.worker:WorkerCard",
        ),
    ),
    (
        "Schedules",
        "`skitter.schedules.connect(frontier)` gives `Schedules`. See the [how-to](../how-to/schedule-crawls.md).",
        tuple(f"skitter.schedules:{name}" for name in skitter.schedules.__all__ if name != "connect"),
    ),
)

# The suites for these have pages of their own under docs/how-to.
CONTRACTS = (
    ("sink", "skitter.sinks.contract", "write-a-sink.md"),
    ("intake", "skitter.intakes.contract", "write-an-intake.md"),
    ("coordinator", "skitter.cluster.contract", "write-a-coordinator.md"),
    ("fetcher", "skitter.fetch.contract", "write-a-fetcher.md"),
    ("frontier", "skitter.frontier.contract", "write-a-frontier.md"),
)

_SHOWN_SPECIAL = ("__call__",)
_MADE_HERE = ("skitter.extract", "skitter.app.item_stream")
"""Modules whose objects only skitter makes."""


class _Source(str):
    """An annotation as the source has it; ``inspect`` would put quotes around it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    listed: set[str] = set()
    for title, text, names in SECTIONS:
        parts.append(f"\n## {title}\n\n{text}\n")
        for name in names:
            parts.append(_entry(*_found(name)))
            listed.add(name)
        if "crawl" in names:
            # Its module is the application's business; the annotation knows it.
            summary = typing.get_type_hints(skitter.crawl)["return"]
            parts.append(_entry(f"{summary.__module__}.{summary.__name__}", summary))
    parts.append(_errors())
    parts.append(_settings())
    parts.append("\n## Tests\n\nTools for tests of spiders, and suites for parts of your own.\n")
    parts += [_entry(f"skitter.testing.{name}", getattr(skitter.testing, name)) for name in testing_names()]
    parts.append("\n## Contracts\n\nWhat a part of your own has to be. No base class is needed.\n")
    for kind, module, guide in CONTRACTS:
        parts.append(_contract(kind, importlib.import_module(module), guide))
    missing = [name for name in skitter.__all__ if name not in listed and name not in error_names()]
    if missing:
        raise SystemExit(f"error: a public name without an entry in scripts/python_reference.py: {missing[0]}")
    return "".join(parts)


def testing_names() -> list[str]:
    """The public names of ``skitter.testing``."""
    return list(skitter.testing.__all__)


def error_names() -> list[str]:
    """The public errors, base first."""
    found = [value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__]
    return [error.__name__ for error in found]


def _found(name: str) -> tuple[str, Any]:
    module, _, attribute = name.rpartition(":")
    if not module:
        return f"skitter.{attribute}", getattr(skitter, attribute)
    return f"{module}.{attribute}", getattr(importlib.import_module(module), attribute)


def _entry(path: str, value: Any, level: int = 3) -> str:
    text = _doc(value)
    if not text:
        raise SystemExit(f"error: a public name without a docstring: {path}")
    shown = path.rpartition(".")[2]
    if shown in skitter.__all__ and path != f"skitter.{shown}" and isinstance(value, FunctionType):
        # Two of this name.
        shown = path
    parts = [f"\n{'#' * level} {shown}\n\n"]
    if isinstance(value, FunctionType):
        parts.append(_code(_signature(shown, value)) + f"\n{text}\n")
        return "".join(parts)
    home = path.rpartition(".")[0]
    parts.append(f"`from {home} import {shown}`\n\n{text}\n")
    if issubclass(value, SeenSet) and value is not SeenSet:
        parts.append("\nIt has everything of `SeenSet`, and:\n")
    if issubclass(value, Hooks) and value is not Hooks:
        parts.append("\nIt has everything of `Hooks`, and:\n")
    if _is_protocol(value) and (shared := [base.__name__ for base in value.__bases__ if base is not typing.Protocol]):
        names = " and ".join([", ".join(f"`{name}`" for name in shared[:-1]), f"`{shared[-1]}`"][len(shared) == 1 :])
        parts.append(f"\nIt has everything of {names}, and:\n")
    if issubclass(value, enum.Enum):
        rows = [f"| `{member.name}` | `{member.value}` |\n" for member in value]
        return "".join([*parts, "\n| name | value |\n| --- | --- |\n", *rows])
    if constructor := _constructor(value):
        parts.append("\n" + _code(constructor))
    parts.append(_attributes(value))
    parts.append(_methods(value))
    return "".join(parts)


def _contract(kind: str, module: ModuleType, guide: str) -> str:
    link = f"[Write a {kind}](../how-to/{guide}). " if (ROOT / "docs" / "how-to" / guide).exists() else ""
    classes = [
        value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    parts = [f"\n### {module.__name__}\n\n{link}{_first_paragraph(module)}\n"]
    parts += [_entry(f"{module.__name__}.{value.__name__}", value, level=4) for value in classes]
    return "".join(parts)


# ---- attributes and methods


def _attributes(value: type) -> str:
    """A table of the fields and properties that have no underscore."""
    rows = []
    for base in (value,) if _is_protocol(value) else reversed(value.__mro__):
        if not base.__module__.startswith("skitter"):
            continue
        for name, annotation, default, text in fields(base):
            rows.append((name, annotation, default, text))
        for name, member in vars(base).items():
            getter = member.func if isinstance(member, cached_property) else getattr(member, "fget", None)
            if isinstance(member, (property, cached_property)) and not name.startswith("_") and getter is not None:
                annotation = str(getter.__annotations__.get("return", ""))
                rows.append((name, annotation, "", _flat(inspect.getdoc(getter))))
    if not rows:
        return ""
    has_defaults = any(default for _, _, default, _ in rows)
    lines = ["\n| attribute | type | default | meaning |\n| --- | --- | --- | --- |\n"]
    if not has_defaults:
        lines = ["\n| attribute | type | meaning |\n| --- | --- | --- |\n"]
    for name, annotation, default, text in {row[0]: row for row in rows}.values():
        shown = (f" `{_cell(default)}` |" if default else "  |") if has_defaults else ""
        lines.append(f"| `{name}` | `{_cell(annotation)}` |{shown} {_cell(text)} |\n")
    return "".join(lines)


def fields(value: type) -> list[tuple[str, str, str, str]]:
    """Name, type, default and description of each annotated field in the class's own source."""
    body = _class_body(value)
    found = []
    for field, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        if name.startswith("_"):
            continue
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            text = _flat(after.value.value)
        annotation = re.sub(r"^ClassVar\[(.*)\]$", r"\1", ast.unparse(field.annotation))
        # A number with bounds is a number.
        alias: Any = getattr(sys.modules[value.__module__], annotation, None)
        if hasattr(alias, "__metadata__"):
            annotation = alias.__origin__.__name__
        default = _double_quoted(ast.unparse(field.value)) if field.value is not None else ""
        found.append((name, annotation, default, text))
    return found


def _methods(value: type) -> str:
    """Each method that is its own or inherited from skitter's classes, with signature and docstring."""
    found: dict[str, Any] = {}
    # What protocols share is shown once; the parts of a suite have helpers that are its own business.
    for base in (value,) if _is_protocol(value) or _is_suite(value) else reversed(value.__mro__):
        if base.__module__.startswith("skitter"):
            found |= {name: member for name, member in vars(base).items() if _is_method(name, member)}
    if issubclass(value, Hooks) and value is not Hooks:
        found = {name: member for name, member in found.items() if name not in vars(Hooks)}
    if issubclass(value, SeenSet) and value is not SeenSet:
        found = {name: member for name, member in found.items() if name not in vars(SeenSet)}
    parts = []
    for name, member in found.items():
        function: Any = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        text = _doc(function) or _inherited_doc(value, name)
        parts.append("\n" + _code(_signature(name, function)) + (f"\n{text}\n" if text else ""))
    return "".join(parts)


def _is_method(name: str, member: Any) -> bool:
    # The suites consist of tests, several hundred of them.
    if name.startswith(("_", "test_")) and name not in _SHOWN_SPECIAL:
        return False
    return isinstance(member, (FunctionType, classmethod, staticmethod))


def _is_suite(value: type) -> bool:
    return any(name.startswith("test_") for base in value.__mro__ for name in vars(base))


def _is_protocol(value: type) -> bool:
    return bool(getattr(value, "_is_protocol", False))


def _inherited_doc(value: type, name: str) -> str:
    for base in value.__mro__[1:]:
        if text := _doc(vars(base).get(name)):
            return text
    return ""


# ---- signatures


def _constructor(value: type) -> str:
    """How an object is made; nothing for what only skitter makes, and where a table of fields says the same."""
    if issubclass(value, msgspec.Struct):
        return _struct_constructor(value)
    own = value.__dict__.get("__init__")
    if not isinstance(own, FunctionType) or value.__module__.startswith(_MADE_HERE):
        return ""
    if _is_protocol(value) or _is_suite(value) or issubclass(value, Exception) or dataclasses.is_dataclass(value):
        return ""
    return _signature(value.__name__, own).replace(" -> None", "")


def _struct_constructor(value: type[msgspec.Struct]) -> str:
    if all(each.kind is each.KEYWORD_ONLY for each in inspect.signature(value).parameters.values()):
        return ""
    parts = []
    for field in msgspec.structs.fields(value):
        if field.default is not msgspec.NODEFAULT:
            parts.append(f"{field.name}={field.default!r}")
        elif field.default_factory is not msgspec.NODEFAULT:
            parts.append(f"{field.name}={field.default_factory()!r}")
        else:
            parts.append(field.name)
    return _wrapped(f"{value.__name__}(", parts, ")")


def _signature(name: str, function: FunctionType) -> str:
    signature = inspect.signature(function)
    parameters = [
        each if each.annotation is each.empty else each.replace(annotation=_Source(each.annotation))
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    tail = f" -> {returned}" if returned is not inspect.Signature.empty else ""
    shown = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    texts = _split(str(shown)[1:-1])
    texts = [text for text in texts if text not in ("self", "cls")]
    prefix = "async " if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else ""
    return _wrapped(f"{prefix}{name}(", texts, f"){tail}")


def _split(parameters: str) -> list[str]:
    """The parameters of a signature: at commas outside brackets and quotes."""
    parts, depth, begin = [], 0, 0
    for place, sign in enumerate(parameters):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(parameters[begin:place].strip())
            begin = place + 1
    return [*parts, parameters[begin:].strip()] if parameters.strip() else []


def _wrapped(begin: str, parts: list[str], end: str) -> str:
    line = begin + ", ".join(parts) + end
    if len(line) <= 110:
        return line
    return "\n".join([begin, *(f"    {part}," for part in parts), end])


# ---- errors and settings


def _errors() -> str:
    """The tree of errors, as the docstring of their module has it."""
    tree = (errors.__doc__ or "").split("\n\n")[1]
    return ERRORS_HEAD + f"\n```\n{tree.replace('``', '')}\n```\n" + _entry("skitter.SkitterError", errors.SkitterError)


def _settings() -> str:
    lines = [SETTINGS_HEAD]
    for field in msgspec.structs.fields(settings.Settings):
        group = type(field.default_factory())
        lines.append(f"| [`{field.name}`](settings.md#{field.name}) | {_cell(_flat(group.__doc__))} |\n")
    return "".join(lines)


# ---- texts


def _doc(value: Any) -> str:
    """The docstring as Markdown: literals have single backticks, paragraphs stay."""
    text = getattr(value, "__doc__", None)
    if not isinstance(text, str) or (inspect.isclass(value) and "__doc__" not in vars(value)):
        return ""
    text = inspect.cleandoc(text)
    if inspect.isclass(value) and text.startswith(f"{value.__name__}("):
        return ""  # what a struct or a named tuple is given when it has none
    return _linked(text.replace("``", "`"))


def _linked(text: str) -> str:
    """Paths of other pages as links to them."""

    def link(match: re.Match[str]) -> str:
        target = ROOT / match[0]
        if not target.is_file():
            return match[0]
        return f"[{target.stem}]({os.path.relpath(target, PAGE.parent)})"

    return re.sub(r"docs/[\w/-]+\.md", link, text)


def _first_paragraph(module: ModuleType) -> str:
    return _flat((module.__doc__ or "").split("\n\n")[0])


def _flat(text: str | None) -> str:
    return _linked(" ".join((text or "").split()).replace("``", "`"))


def _class_body(value: type) -> list[ast.stmt]:
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        return []
    node = ast.parse(source).body[0]
    return node.body if isinstance(node, ast.ClassDef) else []


def _code(text: str) -> str:
    return f"```python\n{_double_quoted(text)}\n```\n"


def _double_quoted(code: str) -> str:
    """With the quotes that the source has; ``repr`` and ``ast.unparse`` prefer the others."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', code)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
