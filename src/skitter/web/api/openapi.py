"""The OpenAPI 3.1 document of the REST API, made from the table of routes and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from skitter._version import __version__
from skitter.model.capability import MEANINGS
from skitter.web.access import COOKIE
from skitter.web.api.route import PROBLEM_TYPE, NoQuery, Problem, Route
from skitter.web.capabilities import capability_of_route

_NAME = re.compile(r"\{(\w+)\}")
_REFS = "#/components/schemas/{name}"
_PATH_VALUES = {
    "job": "The name of a job.",
    "name": "The name of a schedule.",
    "proxy": "The id of a proxy, as the list shows it.",
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document, as plain values."""
    kinds: list[Any] = [Problem]
    for route in routes:
        kinds += [kind for kind in (route.query, route.body, route.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFS)
    schema_of = {_key(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.full_path, {})[route.method.lower()] = _operation(route, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "skitter", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


_DESCRIPTION = (
    "Jobs, schedules and stores of a skitter master. Roles: viewer, worker, operator, admin; each includes"
    " the rights of those before it."
)


def _operation(route: Route, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    content = {} if route.answer is None else {"content": {route.media_type: {"schema": schema_of[_key(route.answer)]}}}
    responses: dict[str, Any] = {str(route.status): {"description": HTTPStatus(route.status).phrase, **content}}
    if route.method == "GET" and route.media_type == "application/json":
        responses["304"] = {"description": "Not Modified: If-None-Match has the ETag of the response"}
    problem = {"content": {PROBLEM_TYPE: {"schema": schema_of[_key(Problem)]}}}
    if (word := capability_of_route(route.method, route.path)) in MEANINGS:
        told = f'Forbidden: except for admins, this needs [remote] allow = ["{word}"] in the server\'s skitter.toml'
        responses["403"] = {"description": told, **problem}
    responses["default"] = {"description": "An error, as problem details (RFC 9457)", **problem}
    needed = "everybody" if route.role is None else route.role.name.lower()
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "description": f"Role: {needed}.",
        "tags": [route.path.split("/")[1]],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schema_of, components)],
        "responses": responses,
        "security": [{}] if route.role is None else [{"token": []}, {"session": []}],
    }
    if route.body is not None:
        content = {"application/json": {"schema": schema_of[_key(route.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_VALUES[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _NAME.findall(route.path)
    ]


def _query_parameters(route: Route, schema_of: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is NoQuery:
        return []
    schema = schema_of[_key(route.query)]
    fields = components[schema["$ref"].rpartition("/")[2]]
    return [
        {"name": name, "in": "query", "required": name in fields.get("required", []), "schema": described}
        for name, described in fields["properties"].items()
    ]


def _operation_id(route: Route) -> str:
    words = re.sub(r"[{}.]", "", route.path.replace("/", "_")).strip("_")
    return f"{route.method.lower()}_{words}"


def _key(kind: Any) -> str:
    return repr(kind)
