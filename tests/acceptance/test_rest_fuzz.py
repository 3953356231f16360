"""Whatever a client sends to the routes of the OpenAPI document, the server answers without a failure of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rig.filled_jobs import fill_job
from rig.master import Master

JOB = "news"
KNOWN = {"job": [JOB, "nothing"], "name": ["nightly"], "proxy": ["0000"]}
LONG_TIMES = {"/api/v1/events"}
"""A stream does not end; its parameters are those of the list of jobs."""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    fill_job(f"sqlite:{folder / 'jobs.db'}", JOB, failures=30, queued=5, workers=2)
    with Master(folder, f"sqlite:{folder / 'jobs.db'}") as master:
        yield master


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.headers.get_content_type(), answer.read()
    finally:
        connection.close()


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def values(schema: dict[str, Any], document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a schema, most of the time."""
    schema = resolved(schema, document)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(one, document) for one in schema["anyOf"]])
    match schema.get("type"):
        case "object" if "properties" in schema:
            needed = {name: values(one, document) for name, one in schema["properties"].items()}
            optional = {name: needed.pop(name) for name in list(needed) if name not in schema.get("required", [])}
            return st.fixed_dictionaries(needed, optional=optional)
        case "array":
            return st.lists(values(schema.get("items", {}), document), max_size=3)
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(schema.get("minimum"), schema.get("maximum"), allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            words = st.sampled_from([JOB, "dns", "http://h0.example/", "running", "delay_seconds", "0"])
            return words | st.text(max_size=30)
    return JSON_VALUES


def test_no_request_makes_the_server_fail(server: Master) -> None:
    document = json.loads(ask(server.port, "GET", "/api/v1/openapi.json")[2])
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path not in LONG_TIMES
    ]
    asked: dict[tuple[str, str], set[int]] = {(method, path): set() for method, path, _ in operations}

    @settings(max_examples=150, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def send(data: st.DataObject) -> None:
        method, path, operation = data.draw(st.sampled_from(operations))
        if method == "DELETE" and path == "/api/v1/jobs/{job}":
            return  # the job stays, for the others
        target, query = path, {}
        for parameter in operation["parameters"]:
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] == "path":
                value = data.draw(st.sampled_from(KNOWN[name]) | st.text(min_size=1, max_size=20))
                target = target.replace(f"{{{name}}}", quote(value, safe="", errors="surrogatepass"))
            elif parameter["required"] or data.draw(st.booleans()):
                query[name] = str(data.draw(values(schema, document) | st.text(max_size=20)))
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            fitting = values(schema, document) | JSON_VALUES
            body = json.dumps(data.draw(fitting)).encode() if data.draw(st.integers(0, 9)) else data.draw(st.binary())
        address = f"{target}?{urlencode(query, errors='surrogatepass')}" if query else target
        status, kind, content = ask(server.port, method, address, body)
        assert status < 500 or status == 503, (method, address, body, content)
        asked[method, path].add(status)
        if status >= 400:
            assert kind == "application/problem+json"
            assert json.loads(content)["status"] == status
        elif content:
            json.loads(content)

    send()
    assert any(200 in statuses for statuses in asked.values())
    assert ask(server.port, "GET", f"/api/v1/jobs/{JOB}")[0] == 200
    assert "request failed" not in server.log()
