"""Write docs/reference/settings.md from src/skitter/settings.py; with --check, say whether it is up to date.

Names, types and defaults are asked of the structs. The descriptions are the string literals under
the fields, which exist only in the source and are read with ``ast``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import msgspec

from skitter import settings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "settings.md"

HEAD = """\
# Settings

<!-- Written by scripts/gen_reference.py from src/skitter/settings.py. Change the source, then run `make docs`. -->

A setting has one name, whichever way it is given. From the lowest rank to the highest:

1. the default on this page
2. the spider's `custom_settings`
3. `skitter.toml`, or `[tool.skitter]` in `pyproject.toml`
4. the environment: `SKITTER_` and the name in upper case, as in `SKITTER_TIMEOUT_SECONDS=5`
5. the command line: `--set timeout_seconds=5`, or the option that stands for the setting

A name that does not exist is an error, and so is a value outside its range. `none` takes a limit away where the
type allows it. Durations are in seconds and sizes in bytes.
"""


def descriptions(source: str) -> dict[tuple[str, str], str]:
    """``(class, field)`` to the string literal that follows the field."""
    found = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, after in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[node.name, field.target.id] = " ".join(after.value.value.split())
    return found


def groups() -> list[tuple[str, type[msgspec.Struct]]]:
    """The fields of ``Settings`` and their structs, in order."""
    return [(field.name, type(field.default_factory())) for field in msgspec.structs.fields(settings.Settings)]


def page() -> str:
    texts = descriptions(Path(settings.__file__).read_text(encoding="utf-8"))
    parts = [HEAD]
    for name, struct in groups():
        parts.append(f"\n## {name}\n\n{_sentence(struct.__doc__)}\n\n| setting | type | default | meaning |\n")
        parts.append("| --- | --- | --- | --- |\n")
        types = msgspec.json.schema(struct)["$defs"][struct.__name__]["properties"]
        for field in msgspec.structs.fields(struct):
            text = texts.get((struct.__name__, field.name))
            if text is None:
                raise SystemExit(f"error: a setting without a description: {struct.__name__}.{field.name}")
            kind = _kind(types[field.name])
            parts.append(f"| `{field.name}` | {kind} | {_value(field.default)} | {_cell(text)} |\n")
    return "".join(parts)


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(_value(value) for value in schema["enum"])
    kinds = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}
    kind = kinds.get(schema["type"], str(schema["type"]).replace("null", "none"))
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    for key, sign in (
        ("exclusiveMinimum", "over"),
        ("minimum", "from"),
        ("exclusiveMaximum", "under"),
        ("maximum", "to"),
    ):
        if key in schema:
            kind += f" {sign} {schema[key]:g}"
    return kind


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return f"`{value}`" if isinstance(value, str) else _cell(str(value))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(doc: str | None) -> str:
    return " ".join((doc or "").split())


def main(arguments: list[str]) -> int:
    text = page()
    if arguments == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print(f"error: not up to date: {PAGE.relative_to(ROOT)}", file=sys.stderr)
            print("hint: make docs", file=sys.stderr)
            return 1
        return 0
    if arguments:
        print(f"error: unknown arguments: {' '.join(arguments)}", file=sys.stderr)
        print("hint: gen_reference.py [--check]", file=sys.stderr)
        return 2
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
