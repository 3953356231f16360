"""Loading of spiders by reference: ``file.py``, ``file.py:Class``, ``file.py:function``, or a name in the project.

A spider's file is code of the user's own and is run when it is loaded. Looking for a name runs
nothing: the files are only read. Every way in which it can go wrong is a SpiderError with a hint.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
import sys
import threading
import traceback
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from skitter.errors import SkitterError, SpiderError
from skitter.model.import_ref import add_to_path, is_trusted_file, resolve, untrusted
from skitter.spiders.base import Spider
from skitter.spiders.foreign_project import adapter_of, framework_of_class, framework_of_file
from skitter.spiders.function_spider import function_spider
from skitter.spiders.scrapy_names import check_attributes
from skitter.spiders.site_spider import SiteSpider

DEFAULT_SPIDER_PATHS = ("spiders",)
"""The files and folders that are searched for spiders, unless the project names others."""
LOADING: ContextVar[str] = ContextVar("LOADING", default="")
"""The spider file whose code runs at this moment because it is being loaded."""
_RELATIVE_IMPORT = re.compile(rb"^\s*from\s+\.", re.MULTILINE)
_IMPORT_LOCK = threading.RLock()
"""One spider file is loaded at a time: another thread would take a module from ``sys.modules`` that is half run.

Re-entrant, because a spider file may load another one.
"""


def load_spider(reference: str, folder: Path, trusted: Sequence[str] | None = None) -> type[Spider]:
    """Load the spider class of a reference, relative to ``folder``; an empty reference is the built-in spider.

    ``trusted``: see ``check_trusted``.
    """
    if not reference:
        return SiteSpider
    place, _, class_name = reference.partition(":")
    if not place.endswith(".py"):
        raise SpiderError(f"not a spider: {reference}", hint="give file.py, file.py:Class or file.py:function")
    check_trusted(reference, folder, trusted)
    with _IMPORT_LOCK:
        module = _module(folder / place, place, folder)
    return _pick(module, place, class_name, folder)


def check_trusted(reference: str, folder: Path, trusted: Sequence[str] | None) -> None:
    """Raise UsageError for a spider that may not be loaded. ``trusted``: the store named it; None: this command did."""
    place = reference.partition(":")[0]
    if trusted is not None and place and not is_trusted_file(str(folder / place), str(folder), trusted):
        raise untrusted(reference, place, f"skitter worker {reference}, or ")


def load_function(reference: str, trusted: Sequence[str] | None = None) -> Any:
    """Load ``module:name``; modules of the current folder are found too. ``trusted``: see ``resolve``."""
    try:
        return resolve(reference, str(Path.cwd()), trusted)
    except SkitterError:
        raise
    except Exception as error:
        raise SpiderError(
            f"cannot be imported: {reference}: {type(error).__name__}: {error}", hint="write it as module:function"
        ) from error


def full_reference(reference: str, kind: type[Spider] | FunctionType, folder: Path) -> str:
    """Return the reference that a job stores: with the class or function, and relative if the file is below ``folder``.

    So ``./books.py`` and ``books.py:Books`` are the same spider, and another machine may keep the
    project elsewhere.
    """
    path = (folder / reference.partition(":")[0]).resolve()
    home = folder.resolve()
    place = path.relative_to(home) if path.is_relative_to(home) else path
    return f"{place}:{kind.__name__}"


def code_of(reference: str, folder: Path) -> str:
    """Return a hash of the spider's file, to detect changes; empty if there is no file."""
    file = reference.partition(":")[0]
    try:
        content = (folder / file).read_bytes() if file.endswith(".py") else b""
    except OSError:
        return ""
    return hashlib.blake2b(content, digest_size=8).hexdigest() if content else ""


def make_spider(kind: type[Spider], arguments: Mapping[str, str]) -> Spider:
    """Make an instance with the arguments of ``-a``."""
    try:
        return kind(**arguments)
    except Exception as error:
        raise SpiderError(
            f"a spider cannot be constructed: {kind.__name__}: {type(error).__name__}: {error}",
            hint="are arguments={…} (-a) the ones that its __init__ takes?",
        ) from error


def check_spider(spider: Spider, *, starts_empty: bool = False) -> None:
    """Raise SpiderError for a spider without start URLs or without a callback, before anything runs.

    ``starts_empty``: it needs no start URLs.
    """
    kind = type(spider)
    check_attributes(kind)
    starts_itself = kind.start is not Spider.start
    for name, example in (("start_urls", "https://…"), ("sitemap_urls", "https://…"), ("allowed_domains", "a.example")):
        # With a start method of its own it may do with start_urls whatever it likes.
        if isinstance(getattr(spider, name), str) and not (starts_itself and name == "start_urls"):
            raise SpiderError(
                f"{name} must be a list, not a text: {kind.__name__}", hint=f'as in {name} = ["{example}"]'
            )
    if not starts_itself and not spider.start_urls and not spider.sitemap_urls and not starts_empty:
        raise SpiderError(
            f"the spider has no start URLs: {kind.__name__}",
            hint="set start_urls or sitemap_urls, or write a start method",
        )
    # What start() yields may all have callbacks of its own, and so may what parse_sitemap yields.
    needs_parse = (spider.start_urls and not starts_itself) or (
        spider.sitemap_urls and kind.parse_sitemap is Spider.parse_sitemap
    )
    if spider.rules:
        from skitter.spiders.rules import check_rules

        check_rules(spider)
    elif needs_parse and kind.parse is Spider.parse:
        raise SpiderError(
            f"the spider has no parse method: {kind.__name__}",
            hint="write def parse(self, response): …, or rules, or a start method whose requests have other callbacks",
        )


def _module(path: Path, shown: str, folder: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise SpiderError(f"no such spider file: {shown}", hint=_other_files(path))
    # Named after the whole path: a spider in json.py must not pass for the json module.
    name = f"_skitter_spider_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return sys.modules[name]
    if framework := framework_of_file(path):
        module = _foreign_module(framework, path, shown, folder)
        if module is not None:
            return module
    # Its neighbours can be imported, and so can the project's packages.
    add_to_path(str(path.parent), str(folder.resolve()))
    spec = _spec_in_package(path, folder.resolve()) or importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    if (name := spec.name) in sys.modules:
        return sys.modules[name]
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before it runs: dataclasses and pydantic look their module up by name.
    sys.modules[name] = module
    before = LOADING.set(shown)
    try:
        # Standard output is for data; whatever the file prints is not.
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _import_failure(error, shown) from error
    finally:
        LOADING.reset(before)
    return module


def _spec_in_package(path: Path, folder: Path) -> ModuleSpec | None:
    """Return the spec of a file with relative imports by its dotted name; None: it is loaded as a file of its own."""
    if not _RELATIVE_IMPORT.search(path.read_bytes()):
        return None
    home = path.parent
    while (home / "__init__.py").is_file():
        home = home.parent
    if home == path.parent and path.is_relative_to(folder):
        # A package without __init__.py begins in the project folder.
        home = folder
    add_to_path(str(home))
    dotted = ".".join(path.relative_to(home).with_suffix("").parts)
    try:
        spec = importlib.util.find_spec(dotted)
    except (ImportError, ValueError):
        return None
    # Another package of this name may be installed, or imported already.
    return spec if spec is not None and spec.origin and Path(spec.origin).resolve() == path else None


def _foreign_module(framework: str, path: Path, shown: str, folder: Path) -> ModuleType | None:
    """Import a file of another framework's project by its package; None: it is loaded as a file."""
    adapter = adapter_of(framework)
    before = LOADING.set(shown)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return adapter.import_file(path, folder)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SkitterError)):
            raise
        raise _import_failure(error, shown) from error
    finally:
        LOADING.reset(before)


def _import_failure(error: BaseException, shown: str) -> SpiderError:
    # SystemExit too: a script that ends itself when it is imported is not a spider.
    if isinstance(error, SyntaxError):
        where = f"line {error.lineno}" if error.lineno else "somewhere"
        file = Path(error.filename).name if error.filename else shown
        line = (error.text or "").strip()
        return SpiderError(
            f"the spider has a syntax error: {shown}: {file}, {where}: {error.msg}",
            hint=f"see: {line}" if line else "correct it and run the same command again",
        )
    if isinstance(error, SkitterError):
        return SpiderError(f"a spider cannot be imported: {shown}: {error}", hint=error.hint)
    if isinstance(error, ModuleNotFoundError):
        return SpiderError(
            f"a spider cannot be imported: {shown}: {error}",
            hint=f"install {(error.name or 'it').partition('.')[0]} into the environment that skitter runs in",
        )
    frames = traceback.extract_tb(error.__traceback__)
    line = f", line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
    return SpiderError(
        f"a spider cannot be imported: {shown}: {type(error).__name__}: {error}{line}",
        hint="run the same command with -v for the traceback",
    )


def _pick(module: ModuleType, place: str, class_name: str, folder: Path) -> type[Spider]:
    here = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and (issubclass(value, Spider) or framework_of_class(value))
    ]
    if class_name:
        return _named_class(module, place, class_name, [kind.__name__ for kind in here], folder)
    # A base class of the others in the file is not meant to be run.
    leaves = [kind for kind in here if not any(other is not kind and issubclass(other, kind) for other in here)]
    if not leaves:
        raise SpiderError(
            f"no spider in the file: {place}",
            hint="write a class that inherits from skitter.Spider, or name a function: file.py:scrape",
        )
    if len(leaves) > 1:
        choices = ", ".join(f"{place}:{kind.__name__}" for kind in leaves)
        raise SpiderError(f"several spiders in one file: {place}", hint=f"choose one: {choices}")
    return _adapted(leaves[0], folder)


def _adapted(kind: type[Any], folder: Path) -> type[Spider]:
    framework = "" if issubclass(kind, Spider) else framework_of_class(kind)
    return adapter_of(framework).adapt(kind, folder) if framework else kind


def _named_class(module: ModuleType, place: str, class_name: str, known: list[str], folder: Path) -> type[Spider]:
    kind = getattr(module, class_name, None)
    if isinstance(kind, type) and framework_of_class(kind):
        return _adapted(kind, folder)
    if isinstance(kind, type) and issubclass(kind, Spider) and kind is not Spider:
        return kind
    if isinstance(kind, FunctionType):
        return function_spider(kind)
    if kind is not None:
        raise SpiderError(f"not a spider: {place}:{class_name}", hint="it does not inherit from skitter.Spider")
    near = _nearest(class_name, known)
    if near:
        hint = f"did you mean {place}:{near} ?"
    else:
        hint = f"in the file: {', '.join(known)}" if known else "write a class that inherits from skitter.Spider"
    raise SpiderError(f"no such spider class: {place}:{class_name}", hint=hint)


def _other_files(path: Path) -> str:
    try:
        names = [file.name for file in path.parent.glob("*.py")]
    except OSError:
        names = []
    near = _nearest(path.name, names)
    return f"did you mean {near} ?" if near else "give the path of a .py file, from the current folder"


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return the nearest name, or an empty text; difflib is imported only for this case."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")
