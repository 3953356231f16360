"""The text of metrics, and what a worker counts of its calls."""

from __future__ import annotations

from skitter.model.item import ItemKind, NewItem
from skitter.model.job import State
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Committed, Ending, HostNews, Outcome
from skitter.node.node_metrics import NodeMetrics
from skitter.observe import metrics
from skitter.observe.metrics import Histogram, Metric, Sample, render
from skitter.observe.node_counters import NodeCounters, samples_of
from skitter.worker.loop_status import new_status

INFO = Sample(metrics.BUILD_INFO, ("1", "3"), 1)


def outcome(epoch: int, ending: Ending, work: Work = Work.PAGE, **fields: object) -> Outcome:
    return Outcome(lease=Lease(work=work, id=epoch, epoch=epoch, host_key="h"), ending=ending, **fields)


def values(counters: NodeCounters) -> dict[str, float]:
    found = {}
    for metric, labels, value in samples_of(counters.read()):
        name = ":".join([metric.name.removeprefix("skitter_node_"), *labels])
        found[name] = value if isinstance(value, Histogram) else float(value)
    return found


def test_text_escapes_labels_and_names_metrics_without_series() -> None:
    gauge = Metric("a_gauge", "gauge", "Two\nlines.", {"of": ()})
    counter = Metric("a_total", "counter", "Help.", {})
    both = {"a_gauge": gauge, "a_total": counter}
    text = render([Sample(gauge, ('q"\\\n',), 1.5)], both)
    assert text == (
        '# HELP a_gauge Two\\nlines.\n# TYPE a_gauge gauge\na_gauge{of="q\\"\\\\\\n"} 1.5\n'
        "# HELP a_total Help.\n# TYPE a_total counter\n"
    )
    text = render([Sample(counter, (), 3)], both, open_metrics=True)
    assert text.endswith("# TYPE a counter\na_total 3\n# EOF\n")


def test_buckets_of_a_histogram_add_up() -> None:
    counts = [0] * (len(metrics.LATENCY_SECONDS) + 1)
    counts[0], counts[3], counts[-1] = 2, 1, 4
    text = render([Sample(metrics.NODE_LATENCY, (), Histogram(counts, 12.5))], metrics.NODE_METRICS)
    assert 'skitter_node_latency_seconds_bucket{le="0.005"} 2\n' in text
    assert 'skitter_node_latency_seconds_bucket{le="30.0"} 3\n' in text
    assert 'skitter_node_latency_seconds_bucket{le="+Inf"} 7\n' in text
    assert "skitter_node_latency_seconds_sum 12.5\nskitter_node_latency_seconds_count 7\n" in text


def test_a_worker_counts_what_was_accepted_once() -> None:
    counters = NodeCounters()
    record, reject = NewItem(b"{}"), NewItem(b"x", ItemKind.REJECT)
    counters.part_committed(outcome(1, Ending.DONE, more=True, items=[record, record]), 0)
    counters.part_committed(outcome(2, Ending.DONE, more=True, items=[record]), 0)
    batch = [
        outcome(1, Ending.DONE, items=[record, reject], tally={"bytes": 100, "duplicates": 4}),
        outcome(2, Ending.FAILED, error_class="timeout", tally={"bytes": 50}),
        outcome(3, Ending.RETRY, error_class="never heard of"),
        outcome(4, Ending.DONE, items=[record], tally={"bytes": 999}),
        outcome(5, Ending.DONE, work=Work.ROBOTS, news=HostNews(latency_seconds=0.02)),
        outcome(6, Ending.DONE, news=HostNews(latency_seconds=99.0)),
    ]
    counters.committed(batch, Committed(accepted=[True, True, True, False, True, True], new_links=3))
    found = values(counters)
    assert found["requests_total:done"] == 2
    assert found["requests_total:failed"] == found["requests_total:retry"] == 1
    assert found["errors_total:timeout"] == found["errors_total:other"] == 1
    assert found["refused_commits_total"] == 1
    assert found["items_total"] == 3
    assert found["bytes_total"] == 150
    assert (found["links_total:new"], found["links_total:duplicate"]) == (3, 1)
    latency = found["latency_seconds"]
    assert (latency.counts[2], latency.counts[-1], sum(latency.counts)) == (1, 1, 2)
    counters.called("lease", 0.5)
    counters.granted(Grant(leases=[], state=State.RUNNING, run=1, ask_again_seconds=1, recovered=[("w", 3), ("v", 2)]))
    found = values(counters)
    assert (found["frontier_calls_total:lease"], found["frontier_call_seconds_total:lease"]) == (1, 0.5)
    assert found["recovered_leases_total:expired"] == 5


def test_a_supervisor_reads_the_memory_of_its_worker_and_keeps_it_after_the_end() -> None:
    descriptor = new_status()
    worker, supervisor = NodeCounters(descriptor), NodeCounters(descriptor)
    node = NodeMetrics(INFO)

    def done() -> tuple[float, float]:
        text = render(node.samples(), metrics.NODE_METRICS)
        series = dict(line.split(" ") for line in text.splitlines() if not line.startswith("#"))
        return float(series['skitter_node_requests_total{ending="done"}']), float(series["skitter_node_slots"])

    node.joined(supervisor)
    worker.holds(3, 64)
    worker.committed([outcome(1, Ending.DONE)], Committed(accepted=[True]))
    assert done() == (1, 64)
    worker.committed([outcome(2, Ending.DONE)], Committed(accepted=[True]))
    worker.close()
    node.left(supervisor)
    supervisor.close()
    assert done() == (2, 0)
    another = NodeCounters()
    node.joined(another)
    another.committed([outcome(3, Ending.DONE)], Committed(accepted=[True]))
    assert done() == (3, 0)
