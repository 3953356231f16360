"""Which events ``skitter logs`` shows."""

from __future__ import annotations

from skitter.cli import logs
from skitter.cli.arguments import Parser


def test_events_are_chosen_by_level_kind_and_node() -> None:
    records = [
        {"event": "job.begun", "level": "info", "node": "a"},
        {"event": "worker.died", "level": "warning", "node": "b"},
        {"event": "leases.granted", "level": "debug", "node": "b"},
        {"event": "of.another.version", "level": "fatal"},
    ]

    def chosen(*arguments: str) -> list[str]:
        parser = Parser(prog="skitter logs", description="")
        logs.configure(parser)
        shows = logs._filter(parser.parse(arguments))
        return [record["event"] for record in records if shows(record)]

    assert chosen() == ["job.begun", "worker.died", "of.another.version"]
    assert chosen("-v") == [record["event"] for record in records]
    assert chosen("--level", "warning") == ["worker.died", "of.another.version"]
    assert chosen("--kind", "job.*", "--kind", "worker.died") == ["job.begun", "worker.died"]
    assert chosen("--node", "b", "--level", "debug") == ["worker.died", "leases.granted"]
