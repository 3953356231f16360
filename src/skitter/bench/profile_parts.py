"""The table that maps code (modules, classes, functions) to the parts of a page's time.

A package or module stands for all that is in it, ``module:name`` for one function or class; the longest name that fits
decides. What no name fits is overhead: the loop and its tasks, settings, scope and other rules, counting. A name here
that is nowhere in the code fails a test, so that a part cannot be renamed out of the profile.
"""

from __future__ import annotations

from typing import Final

OVERHEAD: Final = "overhead"
PARTS: Final = {
    "fetch": "libcurl: from the request to the page's bytes",
    "decode": "the page's encoding, and its text",
    "parse": "the tree, and its search: links, title",
    "join": "making hrefs absolute",
    "fingerprint": "identity and stored form of new links",
    "dedup": "duplicates that the worker knows itself",
    "callback": "the spider's own code, item functions",
    "commit": "the frontier: commits, leases, its dedup",
    "sink": "encoding items, and writing them out",
    OVERHEAD: "the rest: event loop, tasks, scope, rules",
}
"""In the order of a page's life."""
PART_BY_NAME: Final = {
    "skitter.fetch": "fetch",
    "skitter.extract": "parse",
    "skitter.extract.encoding": "decode",
    "skitter.extract.charset_guess": "decode",
    "skitter.extract.charset_labels": "decode",
    "skitter.extract.items": "sink",
    "skitter.extract.rejected_items": "sink",
    "skitter.model.url": "join",
    "skitter.model.url:canonical": "fingerprint",
    "skitter.model.session_ids": "fingerprint",
    "skitter.model.request:Fingerprinter": "fingerprint",
    "skitter.worker.known_urls": "dedup",
    "skitter.worker.url_table": "dedup",
    "skitter.spiders": "callback",
    "skitter.worker.item_functions": "callback",
    "skitter.frontier": "commit",
    "skitter.worker.commit_queue": "commit",
    "skitter.sinks": "sink",
    "skitter.delivery.sink_runner": "sink",
    "skitter.delivery.runner": "sink",
    "skitter.delivery.repeated_items": "sink",
    # Import time is not charged to the code that happens to import a module first.
    "importlib._bootstrap": OVERHEAD,
}
THREADS: Final = {
    "skitter-sqlite": ("skitter.frontier.sqlite.store", "commit"),
    "skitter-renewal": ("skitter.worker.lease_renewal", "commit"),
    "sink": ("skitter.delivery.sink_runner", "sink"),
}
"""How names of threads begin -> who starts them, and the part that all their work belongs to."""


def part_at(module: str, name: str, part_by_name: dict[str, str]) -> str | None:
    """Return the part of a function by module and qualified name; None if it belongs to its caller."""
    while name:
        if (part := part_by_name.get(f"{module}:{name}")) is not None:
            return part
        name = name.rpartition(".")[0]
    while module:
        if (part := part_by_name.get(module)) is not None:
            return part
        module = module.rpartition(".")[0]
    return None
