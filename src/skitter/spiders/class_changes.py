"""Hashes of a spider class, which tell that it was edited or that a worker process has loaded another class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from skitter.errors import SpiderError
from skitter.spiders.base import Spider


def code_of_class(kind: type[Spider]) -> str:
    """Return a hash of the attributes and methods of a class that has no file, to detect changes."""
    found = _members(kind, lambda function: _code(function.__code__))
    return hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=8).hexdigest()


def attributes_of(kind: type[Spider]) -> dict[str, str]:
    """Return a hash of each plain attribute, and of the name of each method, by its name.

    The hashes are those that another process gets from the file of the class, unless the class was changed after it
    was defined. The code of methods is left out: pytest rewrites it in one of the processes.
    """
    found = _members(kind, lambda function: function.__qualname__)
    return {name: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for name, text in found.items()}


def check_attributes_of(kind: type[Spider], expected: Mapping[str, str]) -> None:
    """Raise SpiderError if the class loaded in a worker process is not what a program passed to ``crawl``."""
    loaded = attributes_of(kind)
    if expected and (changed := sorted({name for name, _ in loaded.items() ^ expected.items()})):
        raise SpiderError(
            f"{kind.__name__} in its file differs from the class that was passed in: {', '.join(changed)}",
            hint="worker processes load the class from its file, and globals are each process's own: set the attribute "
            "in the class, pass the value with arguments={…}, or use one worker, which runs in this process",
        )


def _members(kind: type[Spider], of_function: Callable[[FunctionType], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base is object or base.__module__.partition(".")[0] == "skitter":
            continue
        for name, value in vars(base).items():
            if isinstance(value, FunctionType) or not (name.startswith("__") or name == "_abc_impl"):
                found[name] = _text(value, of_function)
    return found


def _text(value: Any, of_function: Callable[[FunctionType], str]) -> str:
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        texts = [_text(member, of_function) for member in value]
        return str(sorted(texts) if isinstance(value, (set, frozenset)) else texts)
    if isinstance(value, dict):
        return str([(_text(key, of_function), _text(member, of_function)) for key, member in value.items()])
    if isinstance(value, FunctionType):
        return of_function(value)
    if isinstance(value, (staticmethod, classmethod, property)):
        return _text(value.fget if isinstance(value, property) else value.__func__, of_function)
    return type(value).__qualname__


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else _text(one, str) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
