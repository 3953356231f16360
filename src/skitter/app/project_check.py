"""Checks of spiders before they crawl: they load, and what they name exists. Loading a spider runs its file."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.crawl_source import CrawlSource, source_of_spider
from skitter.app.fetchers import check_fetcher
from skitter.app.frontiers import HTTP_SCHEMES, is_missing_file, is_redis, is_shared, list_jobs, open_frontier
from skitter.app.outputs import Described, collect_outputs
from skitter.errors import SkitterError
from skitter.model.secrets import shown_frontier
from skitter.settings import Settings
from skitter.sinks.targets import sink_of
from skitter.spiders.base import Spider
from skitter.spiders.foreign_project import AdaptedSpider
from skitter.spiders.hook_loading import make_hooks
from skitter.spiders.loading import full_reference, load_spider
from skitter.worker.item_functions import item_functions_of

CONNECT_SECONDS = 20.0
_CALLBACKS = ("callback", "errback")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong."""

    where: str
    problem: str
    hint: str = ""


class SpiderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one spider."""

    reference: str
    findings: list[Finding] = []
    warnings: list[str] = []
    """What was not checked, or has no effect."""


CollectSettings = Callable[[CrawlSource], tuple[Settings, Described]]
"""Joins the settings of a crawl of this source, and the targets that files name."""


def check_spider_reference(
    reference: str, folder: Path, arguments: Mapping[str, str], collect: CollectSettings
) -> SpiderCheck:
    """Load one spider, construct it, and look up everything that it names."""
    check = SpiderCheck(reference=reference, findings=[], warnings=[])
    with _found(check):
        kind = load_spider(reference, folder)
        owner = kind.adapted if issubclass(kind, AdaptedSpider) else kind
        check.findings.extend(
            Finding(where=f"{reference}, line {line}", problem=f"{kind.__name__} has no {field} of this name: {name}")
            for field, name, line in named_callbacks(owner)
            if not hasattr(owner, name)
        )
        if missing := _missing_arguments(kind, arguments):
            check.warnings.append(f"{reference}: not constructed, because it needs arguments: {missing} (-a KEY=VALUE)")
            return check
        source = source_of_spider(kind, full_reference(reference, kind, folder), arguments)
        check.warnings.extend(source.warnings)
        _check_source(check, source, collect)
    return check


def _check_source(check: SpiderCheck, source: CrawlSource, collect: CollectSettings) -> None:
    assert source.instance is not None
    settings, tables = collect(source)
    with _found(check):
        item_functions_of(source.instance, settings.items.item_functions, settings.limits.callback_seconds)
    with _found(check):
        make_hooks(source.instance, settings.hooks.hooks)
    with _found(check):
        for target in collect_outputs(
            typed=(),
            tables=tables,
            spider=(f"the sinks of {source.spider}", source.sinks),
            item_key=source.item_key,
            job=source.name,
        ):
            # It is made and not opened.
            sink_of(target)
    with _found(check):
        check_fetcher(settings)


@contextmanager
def _found(check: SpiderCheck) -> Iterator[None]:
    try:
        yield
    except SkitterError as error:
        check.findings.append(Finding(where=check.reference, problem=str(error), hint=error.hint))


def _missing_arguments(kind: type[Spider], arguments: Mapping[str, str]) -> str:
    """Return the names of arguments that its ``__init__`` needs and nobody gave."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    needed = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    return ", ".join(name for name in needed if name not in arguments)


def named_callbacks(kind: type[Any]) -> list[tuple[str, str, int]]:
    """Callbacks and errbacks that the source of a class names: ``(field, name, line)``.

    What can be read without running it: ``callback=self.parse_book``, ``callback="parse_book"``, and the second
    argument of ``Request``.
    """
    found: dict[tuple[str, str], int] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in ("skitter", "builtins"):
            continue
        try:
            lines, first = inspect.getsourcelines(base)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for field, name in _names_in_call(node):
                    found.setdefault((field, name), first + node.lineno - 1)
    return [(field, name, line) for (field, name), line in found.items()]


def _names_in_call(call: ast.Call) -> Iterator[tuple[str, str]]:
    values = [(each.arg, each.value) for each in call.keywords if each.arg in _CALLBACKS]
    function = call.func
    called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if called == "Request" and len(call.args) > 1:
        values.append(("callback", call.args[1]))
    for field, value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield str(field), value.value
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            yield str(field), value.attr


async def frontier_finding(url: str, *, connect: bool) -> Finding | None:
    """Whether a frontier's URL is understood, and with ``connect`` whether the store answers."""
    try:
        shared = is_shared(url)
        if is_redis(url) or url.partition(":")[0].lower() in HTTP_SCHEMES:
            # Opening reads the address and connects to nothing.
            await open_frontier(url, "check", create=False).close()
        if connect and shared and not is_missing_file(url):
            async with asyncio.timeout(CONNECT_SECONDS):
                await list_jobs(url)
    except SkitterError as error:
        return Finding(where=f"--frontier {shown_frontier(url)}", problem=str(error), hint=error.hint)
    except TimeoutError:
        problem = f"it did not answer within {CONNECT_SECONDS:g} s"
        return Finding(where=f"--frontier {shown_frontier(url)}", problem=problem)
    return None
