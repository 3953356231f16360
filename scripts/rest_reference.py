"""The page docs/reference/rest.md: every route of the REST API with its role, parameters, body and answer."""

from __future__ import annotations

from typing import Any

from skitter.model.capability import MEANINGS
from skitter.web.access import Access
from skitter.web.api.openapi import document
from skitter.web.api.route import PREFIX
from skitter.web.api.routes import ApiRoutes
from skitter.web.capabilities import capability_of_route

HEAD = """\
# REST

<!-- Written by scripts/gen_reference.py from the table src/skitter/web/api/routes.py; then run `make docs`. -->

The routes of [`skitter serve`](cli.md#serve) below `/api/v1`; see [how to use them](../how-to/rest.md). The server
returns the same as an OpenAPI 3.1 document at `/api/v1/openapi.json`. `?` marks optional fields and parameters. Every
route about a job or a schedule takes `store`, which is optional if the server has one store. New work comes from the
role `admin`, and from operators if the owner of the server [allows](../how-to/masters.md#new-work-from-operators) it.
"""

TITLES = {"session": "Session", "openapi.json": "Document", "stores": "Stores", "events": "Events", "jobs": "Jobs"}


def page() -> str:
    """The text of the page."""
    routes = ApiRoutes({}, Access(None, None), lambda _store, _job, report: report).table
    described = document(routes)
    schemas = described["components"]["schemas"]
    lines, tag = [HEAD], ""
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                lines.append(f"## {TITLES.get(tag, tag.capitalize())}\n")
            lines += _route(method.upper(), path, operation, schemas)
    return "\n".join(lines)


def _route(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    role = operation["description"].removeprefix("Role: ").removesuffix(".")
    word = capability_of_route(method, path.removeprefix(PREFIX))
    needed = f"admin, or {role} if `[remote] allow` has `{word}`" if word in MEANINGS else role
    lines = [f"### {method} {path}\n", f"{operation['summary']}. Role: {needed}.\n"]
    named = {one["name"]: one for one in operation["parameters"] if one["in"] == "query"}
    if named:
        listed = [f"`{name}{'' if one['required'] else '?'}`: {_type(one['schema'])}" for name, one in named.items()]
        lines.append(f"- Parameters: {', '.join(listed)}")
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        lines.append(f"- Body: {_object(schema, schemas)}")
    status, answer = next(iter(operation["responses"].items()))
    content = next(iter(answer.get("content", {}).items()), None)
    if content is None:
        told = "nothing"
    elif content[0] != "application/json":
        told = f"`{content[0]}`"
    else:
        told = _object(content[1]["schema"], schemas)
    return [*lines, f"- Answer {status}: {told}", ""]


def _object(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The fields of an object in a line; of a list of rows, those of a row."""
    found = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    fields = found.get("properties")
    if not fields:
        return "an empty object" if "$ref" in schema else _type(found)
    needed = found.get("required", [])
    rows = fields.get("rows", {}).get("items", {})
    told = [
        f"`{name}{'' if name in needed else '?'}`: {_type(field)}" for name, field in fields.items() if name != "rows"
    ]
    if "$ref" in rows:
        told.insert(0, f"`rows`, each with {_object(rows, schemas)}")
    return "; ".join(told) if "$ref" in rows else ", ".join(told)


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" if value != "" else "nothing" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = {"integer": "whole number", "string": "text", "boolean": "true or false", "array": "list"}.get(
        schema.get("type", "any"), schema.get("type", "any")
    )
    bounds = [
        f"from {schema['minimum']}" if "minimum" in schema else "",
        f"to {schema['maximum']}" if "maximum" in schema else "",
    ]
    return " ".join([kind, *(bound for bound in bounds if bound)])
