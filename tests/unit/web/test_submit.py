"""Jobs submitted over REST: what a user of a server may not name runs nothing in the server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.web.conftest import Service

SEEDS = {"urls": ["http://a.example/"], "job": "shop"}


async def submitted(service: Service, **more: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps(SEEDS | more).encode()
    status, answer = await service.post("/api/v1/jobs", body, "operator", Content_Type="application/json")
    return status, json.loads(answer)


@pytest.mark.parametrize(
    "more",
    [
        {"settings": {"hooks": "odd_module_of_nobody:Hooks"}},
        {"settings": {"item_functions": "odd_module_of_nobody:function"}},
        {"settings": {"file_target": "/etc"}},
        {"settings": {"proxies": "command:id"}},
        {"settings": {"trusted_code": "/"}},
        {"output": ["python:odd_module_of_nobody:Sink"]},
        {"output": ["/etc/items.jsonl"], "settings": {"deliver_node": "one"}},
        {"output": ["../items.jsonl"], "settings": {"deliver_node": "one"}},
        {"output": ["sqlite:/etc/items.db"], "settings": {"deliver_node": "one"}},
    ],
    ids=str,
)
async def test_code_and_places_of_the_machine_are_refused(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd_module_of_nobody.py").write_text("class Hooks:\n    def on_start(self): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    status, problem = await submitted(service, **more)
    assert (status, bool(problem["hint"])) == (400, True), problem
    assert "odd_module_of_nobody" not in sys.modules


async def test_settings_of_the_job_and_outputs_below_the_folder_are_taken(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {"max_pages": 7, "deliver_node": "one"}
    status, answer = await submitted(service, settings=settings, output=["items.jsonl"])
    assert (status, answer["begun"]) == (201, "new"), answer
