"""New projects and spiders, written from templates; no file is ever overwritten."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from string import Template

from skitter.app.crawl_source import seed_url
from skitter.errors import UsageError
from skitter.model.url import host_key
from skitter.spiders.loading import DEFAULT_SPIDER_PATHS

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT_URL = "https://example.com/"
_PROJECT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SPIDER_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = frozenset(("request", "skitter", "spider", "spiders", "test", "tests"))
_PROJECT_FILES = {
    "skitter.toml": "skitter.toml",
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "pytest.ini": "pytest.ini",
}
"""Files of a project, and their templates."""


def new_project(folder: Path, name: str, url: str = DEFAULT_URL) -> list[Path]:
    """Make the folder of a project, with a spider for a site and its tests; return the files. UsageError: it cannot be.

    ``folder``: where the folder is made. The spider has the name of the project.
    """
    if not _PROJECT_NAME.fullmatch(name):
        raise UsageError(
            f"invalid project name: {name}",
            hint="use letters, digits, - and _, beginning with a letter, as in book-shop",
        )
    spider = _checked_name(name.lower().replace("-", "_"))
    home = folder / name
    if home.exists() and (not home.is_dir() or any(home.iterdir())):
        raise UsageError(f"it already exists: {name}", hint="choose another name, or run skitter new NAME URL in it")
    place = DEFAULT_SPIDER_PATHS[0]
    values = _values(spider, url, place) | {"project": name}
    files = {home / file: _filled(template, values) for file, template in _PROJECT_FILES.items()}
    return _write(files | _spider_files(home, place, values))


def new_spider(folder: Path, name: str, url: str, spider_paths: Sequence[str] = DEFAULT_SPIDER_PATHS) -> list[Path]:
    """Write a spider and its tests into a project; return the files. UsageError if one of them is there."""
    place = next((path for path in spider_paths if not path.endswith(".py")), DEFAULT_SPIDER_PATHS[0])
    return _write(_spider_files(folder, place, _values(_checked_name(name), url, place)))


def _checked_name(name: str) -> str:
    if not _SPIDER_NAME.fullmatch(name) or keyword.iskeyword(name):
        hint = "use lower-case letters, digits and _, beginning with a letter, as in book_shop"
        raise UsageError(f"invalid spider name: {name}", hint=hint)
    if name in sys.stdlib_module_names or name in _RESERVED:
        # Its folder is searched for modules: a spider in json.py would be found in place of Python's own.
        raise UsageError(f"the name is reserved: {name}", hint=f"choose another name, such as {name}_site")
    return name


def _values(name: str, url: str, place: str) -> dict[str, str]:
    # It stands between quotes in Python and HTML.
    seed = seed_url(url.partition("#")[0])
    for mark, code in (("\\", "%5C"), ('"', "%22"), ("'", "%27")):
        seed = seed.replace(mark, code)
    authority = host_key(seed).partition("//")[2]
    host = authority if authority.endswith("]") else authority.rpartition(":")[0] or authority
    parts = [*PurePosixPath(place).parts, name]
    return {
        "name": name,
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "url": seed,
        "host": host,
        "file": "/".join([*parts[:-1], f"{name}.py"]),
        "module": ".".join(parts),
    }


def _spider_files(home: Path, place: str, values: Mapping[str, str]) -> dict[Path, str]:
    name = values["name"]
    return {
        home / place / f"{name}.py": _filled("spider.py", values),
        home / "tests" / f"test_{name}.py": _filled("test_spider.py", values),
    }


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = (TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _write(files: Mapping[Path, str]) -> list[Path]:
    if there := [path for path in files if path.exists() or path.is_symlink()]:
        raise UsageError(f"it already exists: {there[0].name}", hint="choose another name, or remove it")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"cannot write: {path}: {error.strerror}", hint="check the folder") from error
    return list(files)
