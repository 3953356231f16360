"""The composition root: the one place that knows every room and puts them together.

``backends`` picks a backend by URL, ``crawl`` runs a job on this machine, ``child`` is the process
of one worker, ``script`` is ``skitter.crawl``. Names are imported when they are first asked for: a
command that only reads a frontier does not load the fetch engine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from skitter.app.config import CrawlPlan as CrawlPlan
    from skitter.app.config import Summary as Summary
    from skitter.app.config import trusting_own_code as trusting_own_code
    from skitter.app.crawl import run_crawl as run_crawl
    from skitter.app.crawl import run_worker as run_worker
    from skitter.app.frontiers import default_frontier as default_frontier
    from skitter.app.frontiers import drop_job as drop_job
    from skitter.app.frontiers import list_jobs as list_jobs
    from skitter.app.frontiers import open_frontier as open_frontier
    from skitter.app.outputs import collect_outputs as collect_outputs
    from skitter.delivery.drain import run_drain as run_drain
    from skitter.delivery.export import run_export as run_export
    from skitter.delivery.preview import preview_file as preview_file
    from skitter.delivery.preview import preview_job as preview_job

_HOME = {
    "CrawlPlan": "skitter.app.config",
    "Summary": "skitter.app.config",
    "collect_outputs": "skitter.app.outputs",
    "default_frontier": "skitter.app.frontiers",
    "drop_job": "skitter.app.frontiers",
    "list_jobs": "skitter.app.frontiers",
    "preview_file": "skitter.delivery.preview",
    "preview_job": "skitter.delivery.preview",
    "open_frontier": "skitter.app.frontiers",
    "run_crawl": "skitter.app.crawl",
    "run_drain": "skitter.delivery.drain",
    "run_export": "skitter.delivery.export",
    "run_worker": "skitter.app.crawl",
    "trusting_own_code": "skitter.app.config",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
