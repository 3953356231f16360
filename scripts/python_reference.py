"""The pages of docs/reference/python/: public classes and functions, by their signatures and docstrings.

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
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType, UnionType
from typing import Any, NamedTuple

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
FOLDER = ROOT / "docs" / "reference" / "python"

_NOTE = (
    "<!-- Written by scripts/gen_reference.py from the docstrings of the code. Change those, then run `make docs`. -->"
)

HEAD = f"""\
# Python API

{_NOTE}

These pages describe the names that `skitter`, `skitter.cluster`, `skitter.dedup`, `skitter.schedules`,
`skitter.contrib.celery`, `skitter.contrib.scrapy`, `skitter.contrib.crawlo` and `skitter.testing` offer, the values
that callbacks get, and the contracts for components of your own. Everything else may change without notice. `async` in
a signature means a coroutine.

| page | contents |
| --- | --- |
"""

ERRORS_HEAD = """
All exceptions are in `skitter.errors`; `skitter.SkitterError` is the base class of all. `hint` says what to do.
The command line exits with `exit_code`.
"""

SETTINGS_HEAD = """
## Settings

`settings={…}` of `crawl` and a spider's `custom_settings` take the names of all groups, without the group:
`{"delay_seconds": 0.5}`.

| group | contents |
| --- | --- |
"""


class Page(NamedTuple):
    """A page of the reference: a title, an introduction, and the names that it describes.

    A name without a module is one of skitter's own.
    """

    file: str
    title: str
    text: str
    names: tuple[str, ...]


def _all_of(module: ModuleType, *, but: Sequence[str] = ()) -> tuple[str, ...]:
    """The public names of a module, except errors, which have a page of their own."""
    names: list[str] = module.__all__
    return tuple(f"{module.__name__}:{name}" for name in names if name not in but and not name.endswith("Error"))


# Beside the public names, what they hand out.
PAGES = (
    Page("spider", "Spider", "The class that you write, and its rules for links.", ("Spider", "Rule")),
    Page(
        "request",
        "Request",
        "Requests, which a callback yields to fetch other pages, and the actions of a request with `render=True`"
        " ([guide](../../how-to/browser.md)).",
        (
            *("Request", "Priority", "skitter.model.request:Links"),
            *("WaitFor", "Click", "Scroll", "Fill", "JavaScript", "Screenshot"),
        ),
    ),
    Page(
        "response-and-selectors",
        "Response and selectors",
        "Responses, which callbacks get, and selectors to read them ([guide](../../how-to/selectors.md)).",
        (
            "Response",
            "skitter.extract.selector:Selector",
            "skitter.extract.selector:SelectorList",
            "skitter.extract.forms:Form",
            "skitter.extract.response_headers:Headers",
            "skitter.extract.robots_directives:Directives",
            "Failure",
        ),
    ),
    Page(
        "items",
        "Items",
        "Any dict, dataclass, msgspec struct, attrs class or pydantic model is an item. Item functions raise these"
        " ([guide](../../how-to/item-functions.md)).",
        ("DropItem", "RejectItem"),
    ),
    Page(
        "hooks",
        "Hooks",
        "Methods of spiders and of the classes in the setting `hooks`, called around requests, responses and jobs"
        " ([guide](../../how-to/hooks.md)).",
        ("Hooks", "Retry", "Drop", "Answer", "Ban", "Stats", "JobInfo", "CloseSummary"),
    ),
    Page(
        "functions",
        "Functions: crawl, stream, get",
        "Crawling from a script or a notebook ([guide](../../how-to/scripts-and-notebooks.md)).",
        ("crawl", "acrawl", "Summary", "stream", "ItemStream", "get", "aget", "Session"),
    ),
    Page(
        "client",
        "Client: submit jobs from a program",
        "`skitter.connect(frontier)` returns a client of a store or a master ([guide](../../how-to/python-client.md)).",
        (
            "connect",
            "Client",
            "AsyncClient",
            "skitter.model.job:Trace",
            "skitter.model.job:Counts",
            "skitter.model.job:JobState",
            "skitter.app.views.jobs:JobView",
            "skitter.model.worker:WorkerSeen",
            "skitter.model.worker:WorkerHeartbeat",
        ),
    ),
    Page("exceptions", "Exceptions", "", ()),
    Page(
        "schedules",
        "Schedules",
        "`skitter.schedules.connect(frontier)` returns `Schedules` ([guide](../../how-to/schedules.md)).",
        _all_of(skitter.schedules, but=["connect"]),
    ),
    Page(
        "cluster",
        "Cluster: locks, elections, groups",
        "Locks, elections, groups, watched keys and rate limits ([guide](../../how-to/locks-and-elections.md)).",
        (
            *_all_of(skitter.cluster),
            "skitter.cluster.lock:Lock",
            "skitter.cluster.lock_set:LockSet",
            "skitter.cluster.lock_set:HeldSet",
            "skitter.cluster.membership:Membership",
            "skitter.cluster.rate_limit:RateLimit",
        ),
    ),
    Page(
        "dedup",
        "Dedup: sets of seen keys",
        "Sets that say whether a key is new ([guide](../../how-to/dedup.md)).",
        _all_of(skitter.dedup),
    ),
    Page(
        "testing",
        "Testing",
        "Tools for tests of spiders ([guide](../../how-to/test-a-spider.md)), and suites for components of your own.",
        _all_of(skitter.testing),
    ),
    Page(
        "celery",
        "Celery",
        "The tasks themselves are described in the [guide](../../how-to/celery.md).",
        tuple(f"skitter.contrib.celery:{name}" for name in ("register", "beat_entry", "response_of")),
    ),
    Page(
        "scrapy",
        "Scrapy's engine on skitter's frontier",
        "Spiders that read their start URLs from a Redis key ([guide](../../how-to/migrate-from-scrapy-redis.md)).",
        tuple(f"skitter.contrib.scrapy:{name}" for name in ("RedisSpider", "RedisCrawlSpider")),
    ),
    Page(
        "crawlo",
        "Names of Crawlo",
        "Names that `skitter.contrib.crawlo` offers to Crawlo spiders ([guide](../../how-to/migrate-from-crawlo.md)).",
        tuple(f"skitter.contrib.crawlo:{name}" for name in ("Spider", "Request", "RequestPriority", "Item", "Field")),
    ),
)

# The test suites for these have guides of their own.
CONTRACTS = (
    ("frontier", "skitter.frontier.contract", "write-a-frontier.md"),
    ("fetcher", "skitter.fetch.contract", "write-a-fetcher.md"),
    ("sink", "skitter.sinks.contract", "write-a-sink.md"),
    ("intake", "skitter.intakes.contract", "write-an-intake.md"),
    ("coordinator", "skitter.cluster.contract", "write-a-coordinator.md"),
)

_SHOWN_SPECIAL = ("__call__",)
_MADE_HERE = ("skitter.extract", "skitter.app.item_stream")
"""Modules whose objects only skitter makes."""


class _Source(str):
    """An annotation as the source has it; ``inspect`` would put quotes around it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def pages() -> dict[Path, str]:
    """All pages, by their paths."""
    made = {FOLDER / f"{page.file}.md": _page(page) for page in PAGES}
    contracts = {kind: importlib.import_module(module) for kind, module, _ in CONTRACTS}
    for kind, _, guide in CONTRACTS:
        made[FOLDER / f"{kind}.md"] = _contract(kind, contracts[kind], guide)
    rows = [f"| [{page.title}]({page.file}.md) | {_listed(page)} |\n" for page in PAGES]
    rows += [
        f"| [{kind.title()} contract]({kind}.md) | {_first_paragraph(module)} |\n" for kind, module in contracts.items()
    ]
    described = {name for page in PAGES for name in page.names}
    missing = [name for name in skitter.__all__ if name not in described and name not in error_names()]
    if missing:
        raise SystemExit(f"error: a public name without an entry in scripts/python_reference.py: {missing[0]}")
    return {FOLDER / "index.md": HEAD + "".join(rows), **made}


def _whole(annotation: str, function: FunctionType) -> str:
    """A name that a module gives to a type that may be None, as what it stands for."""
    alias = function.__globals__.get(annotation)
    whole = str(alias) if isinstance(alias, UnionType) and str(alias).endswith(" | None") else annotation
    return whole.replace("collections.abc.", "").replace("typing.", "")


def _page(page: Page) -> str:
    introduction = f"\n{page.text}\n" if page.text else ""
    parts = [f"# {page.title}\n\n{_NOTE}\n{introduction}"]
    parts += [_entry(*_found(name)) for name in page.names]
    if page.file == "functions":
        parts.append(_settings())
    if page.file == "exceptions":
        parts.append(_errors())
    return "".join(parts)


def _listed(page: Page) -> str:
    """The names of a page, each a link to its entry."""
    if page.file == "exceptions":
        return f"`SkitterError` and {len(error_names()) - 1} classes below it"
    names = [name.rpartition(":")[2] for name in page.names]
    return ", ".join(f"[`{name}`]({page.file}.md#{name.lower()})" for name in names)


def error_names() -> list[str]:
    """The public errors, base first."""
    found = [value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__]
    return [error.__name__ for error in found]


def _found(name: str) -> tuple[str, Any]:
    module, _, attribute = name.rpartition(":")
    if not module:
        return f"skitter.{attribute}", getattr(skitter, attribute)
    return f"{module}.{attribute}", getattr(importlib.import_module(module), attribute)


def _entry(path: str, value: Any) -> str:
    text = _doc(value)
    if not text:
        raise SystemExit(f"error: a public name without a docstring: {path}")
    home, _, shown = path.rpartition(".")
    parts = [f"\n## {shown}\n\n"]
    if isinstance(value, FunctionType):
        parts.append(f"`from {home} import {shown}`\n\n{_code(_signature(shown, value))}\n{text}\n")
        return "".join(parts)
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
    classes = [
        value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    article = "an" if kind[0] in "aeiou" else "a"
    told = f"{_first_paragraph(module)}\n\nModule `{module.__name__}`. No base class is needed."
    parts = [f"# {kind.title()} contract\n\n{_NOTE}\n\n{told} See [Write {article} {kind}](../../how-to/{guide}).\n"]
    parts += [_entry(f"{module.__name__}.{value.__name__}", value) for value in classes]
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
        default = {"field(default_factory=list)": "[]", "field(default_factory=dict)": "{}"}.get(default, default)
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
            parts.append(f"{field.name}={_shown_default(field.default)}")
        elif field.default_factory is not msgspec.NODEFAULT:
            parts.append(f"{field.name}={field.default_factory()!r}")
        else:
            parts.append(field.name)
    return _wrapped(f"{value.__name__}(", parts, ")")


def _signature(name: str, function: FunctionType) -> str:
    signature = inspect.signature(function)
    parameters = [
        each if each.annotation is each.empty else each.replace(annotation=_Source(_whole(each.annotation, function)))
        for each in signature.parameters.values()
    ]
    parameters = [
        each if each.default is each.empty else each.replace(default=_Source(_shown_default(each.default)))
        for each in parameters
    ]
    returned = signature.return_annotation
    tail = f" -> {returned}" if returned is not inspect.Signature.empty else ""
    shown = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    texts = _split(str(shown)[1:-1])
    texts = [text for text in texts if text not in ("self", "cls")]
    prefix = "async " if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function) else ""
    return _wrapped(f"{prefix}{name}(", texts, f"){tail}")


def _shown_default(value: Any) -> str:
    """A default as a program would write it."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return f"{value.__module__}.{value.__qualname__}"
    shown = repr(value)
    return "..." if shown.startswith("<") else shown


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
    return (
        ERRORS_HEAD
        + f"\n```text\n{tree.replace('``', '')}\n```\n"
        + _entry("skitter.SkitterError", errors.SkitterError)
    )


def _settings() -> str:
    lines = [SETTINGS_HEAD]
    for field in msgspec.structs.fields(settings.Settings):
        group = type(field.default_factory())
        lines.append(f"| [`{field.name}`](../settings.md#{field.name}) | {_cell(_flat(group.__doc__))} |\n")
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
    return linked(_fenced(text.replace("``", "`")))


def _fenced(text: str) -> str:
    """Indented examples as blocks with a language."""

    def fence(match: re.Match[str]) -> str:
        code = textwrap.dedent(match[1]).strip("\n")
        if code.startswith(">>> "):
            return f"\n```pycon\n{code}\n```\n"
        return f"\n<!-- not run: an excerpt of a docstring -->\n```python\n{code}\n```\n"

    return re.sub(r"::(?=\n\n {4})", ":", re.sub(r"(?<=\n)\n((?: {4}[^\n]*(?:\n|$)|\n(?= {4}))+)", fence, text))


def linked(text: str, folder: Path = FOLDER) -> str:
    """Paths of other pages as links to them."""

    def link(match: re.Match[str]) -> str:
        target = ROOT / match[0]
        if not target.is_file():
            return match[0]
        return f"[{target.stem}]({os.path.relpath(target, folder)})"

    return re.sub(r"docs/[\w/-]+\.md", link, text)


def _first_paragraph(module: ModuleType) -> str:
    return _flat((module.__doc__ or "").split("\n\n")[0])


def _flat(text: str | None) -> str:
    return linked(" ".join((text or "").split()).replace("``", "`"))


def _class_body(value: type) -> list[ast.stmt]:
    try:
        source = textwrap.dedent(inspect.getsource(value))
    except (OSError, TypeError):
        return []
    node = ast.parse(source).body[0]
    return node.body if isinstance(node, ast.ClassDef) else []


def _code(text: str) -> str:
    return f"<!-- signature -->\n```python\n{_double_quoted(text)}\n```\n"


def _double_quoted(code: str) -> str:
    """With the quotes that the source has; ``repr`` and ``ast.unparse`` prefer the others."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', code)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
