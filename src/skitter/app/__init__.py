"""The composition root: settings, URLs and a spider become a node that can be run.

``config`` says what is run, ``crawl`` and ``worker`` make nodes, ``frontiers`` picks a frontier by URL, ``worker_main``
is the process of one worker, ``script`` is ``skitter.crawl``. Names are imported when they are first asked for: a
command that only reads a frontier does not load the fetch engine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from skitter.app.config import CrawlConfig as CrawlConfig
    from skitter.app.config import crawl_config as crawl_config
    from skitter.app.config import trusting_own_code as trusting_own_code
    from skitter.app.crawl_node import make_crawl_node as make_crawl_node
    from skitter.app.frontiers import default_frontier as default_frontier
    from skitter.app.frontiers import drop_job as drop_job
    from skitter.app.frontiers import list_jobs as list_jobs
    from skitter.app.frontiers import open_frontier as open_frontier
    from skitter.app.job_items import make_delivery_node as make_delivery_node
    from skitter.app.job_items import make_export_node as make_export_node
    from skitter.app.job_items import preview_job as preview_job
    from skitter.app.outputs import collect_outputs as collect_outputs
    from skitter.app.summary import Summary as Summary
    from skitter.app.worker_node import make_worker_node as make_worker_node
    from skitter.delivery.item_preview import preview_file as preview_file

_HOME = {
    "collect_outputs": "skitter.app.outputs",
    "crawl_config": "skitter.app.config",
    "make_crawl_node": "skitter.app.crawl_node",
    "CrawlConfig": "skitter.app.config",
    "default_frontier": "skitter.app.frontiers",
    "make_delivery_node": "skitter.app.job_items",
    "drop_job": "skitter.app.frontiers",
    "make_export_node": "skitter.app.job_items",
    "list_jobs": "skitter.app.frontiers",
    "open_frontier": "skitter.app.frontiers",
    "preview_file": "skitter.delivery.item_preview",
    "preview_job": "skitter.app.job_items",
    "Summary": "skitter.app.summary",
    "trusting_own_code": "skitter.app.config",
    "make_worker_node": "skitter.app.worker_node",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
