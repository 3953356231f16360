"""The composition root: the one place that knows every room and puts them together.

``backends`` picks a backend by URL, ``crawl`` runs a job on this machine, ``child`` is the process
of one worker, ``script`` is ``skitter.crawl``. Names are imported when they are first asked for: a
command that only reads a frontier does not load the fetch engine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from skitter.app.backends import default_frontier as default_frontier
    from skitter.app.backends import drop_job as drop_job
    from skitter.app.backends import list_jobs as list_jobs
    from skitter.app.backends import open_frontier as open_frontier
    from skitter.app.crawl import run_crawl as run_crawl
    from skitter.app.crawl import run_worker as run_worker
    from skitter.app.draining import run_drain as run_drain
    from skitter.app.exporting import run_export as run_export
    from skitter.app.looking import look_at_file as look_at_file
    from skitter.app.looking import look_at_job as look_at_job
    from skitter.app.outputs import collect_outputs as collect_outputs
    from skitter.app.plan import CrawlPlan as CrawlPlan
    from skitter.app.plan import Summary as Summary
    from skitter.app.plan import trusting_own_code as trusting_own_code

_HOME = {
    "CrawlPlan": "skitter.app.plan",
    "Summary": "skitter.app.plan",
    "collect_outputs": "skitter.app.outputs",
    "default_frontier": "skitter.app.backends",
    "drop_job": "skitter.app.backends",
    "list_jobs": "skitter.app.backends",
    "look_at_file": "skitter.app.looking",
    "look_at_job": "skitter.app.looking",
    "open_frontier": "skitter.app.backends",
    "run_crawl": "skitter.app.crawl",
    "run_drain": "skitter.app.draining",
    "run_export": "skitter.app.exporting",
    "run_worker": "skitter.app.crawl",
    "trusting_own_code": "skitter.app.plan",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
