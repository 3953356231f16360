"""The summary of a crawl tells a failed crawl from an empty one, and is a plain value for other programs."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from pydantic import TypeAdapter

from skitter import Summary
from skitter.errors import CrawlError
from skitter.model.job import Begun, State


def summary(**changes: Any) -> Summary:
    whole: dict[str, Any] = {"job": "books", "state": State.FINISHED, "run": 1, "pages": 3, "items": 0, "bytes": 9}
    counts = dict.fromkeys(("redirected", "failed", "excluded", "duplicates", "signal", "undelivered", "rejected"), 0)
    rest = {"seconds": 1.0, "pages_per_second": 3.0, "seeds_done": True, "blocked_by": "", "dropped": {}, "errors": {}}
    return Summary(**(whole | counts | rest | {"reason": "", "begun": Begun.NEW} | changes))


@pytest.mark.parametrize(
    "changes",
    [{}, {"failed": 2}, {"state": "stopped", "reason": "max_pages"}, {"state": "stopped", "seeds_done": False}],
)
def test_a_crawl_without_items_that_did_what_was_asked_is_no_failure(changes: dict[str, Any]) -> None:
    found = summary(**changes)
    assert found.raise_for_state() is found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds_done": False, "no_seed_because": "a.example could not be reached"}, "a.example could not be reached"),
        ({"seeds_done": False, "state": "running"}, "there were no requests"),
        ({"state": "running"}, "it is running after 3 pages"),
        ({"state": "stopped", "reason": "command"}, "it is stopped by command after 3 pages"),
        ({"state": "stopped", "reason": "close_after_errors"}, "it is stopped by close_after_errors"),
        ({"undelivered": 7}, "7 items are undelivered"),
        ({"lost_links": 2}, "2 links between shards were lost"),
        ({"reason": "start() failed: KeyError"}, "start() failed: KeyError"),
    ],
)
def test_a_failed_or_incomplete_crawl_is_an_error_on_request(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CrawlError) as caught:
        summary(**changes).raise_for_state()
    assert str(caught.value).startswith("the crawl of job books failed or is incomplete: ")
    assert message in str(caught.value)


def test_a_summary_is_json_for_web_frameworks() -> None:
    """FastAPI makes an answer and its schema with pydantic; without an annotation, with ``dataclasses.asdict``."""
    found = summary(errors={"dns": 1})
    adapter = TypeAdapter(Summary)
    assert json.loads(adapter.dump_json(found)) == json.loads(json.dumps(found.to_dict()))
    assert json.loads(json.dumps(dataclasses.asdict(found))) == found.to_dict()
    assert set(adapter.json_schema()["properties"]) == set(found.to_dict())
    assert type(found.to_dict()["state"]) is str
    assert pickle.loads(pickle.dumps(found)) == found
