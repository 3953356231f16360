"""The profile of a page's time: crawls in one process each, sampled.

``python -m skitter.bench.profile`` is that process: it reads a Question, crawls, and prints what was found. It works
inline, without a supervisor, so that everything a page costs is in it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from skitter.app.config import CrawlConfig
from skitter.app.crawl_node import make_crawl_node
from skitter.app.event_loop import new_loop
from skitter.app.outputs import collect_outputs
from skitter.app.summary import Summary
from skitter.bench.bench_frontiers import Store, names_of, own_store
from skitter.bench.crawl_bench import IN_FLIGHT, check_pages
from skitter.bench.figures import Machine, rounded, this_machine
from skitter.bench.measured_process import answer_question, measured
from skitter.bench.profile_parts import PARTS
from skitter.bench.sampling import Sampled, Sampler, uncertainty
from skitter.bench.sites import Site
from skitter.model.job import JobSpec
from skitter.settings import Settings
from skitter.spiders.loading import load_spider, make_spider


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The crawl of one process."""

    url: str
    store: Store
    max_pages: int | None = None
    spider: str = ""
    """A file, or FILE:CLASS; empty: the built-in one."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The page counts and the samples of one crawl."""

    pages: int
    failed: int
    sampled: Sampled


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a page's time."""

    part: str
    us_per_page: float
    percent: float
    plus_or_minus: float
    """Standard error of ``percent``, due to sampling."""
    meaning: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the profile. The rows add up to the CPU time of a page."""

    machine: Machine
    site: str
    frontier: str
    rounds: int
    pages: int
    """Pages of all rounds."""
    samples: int
    cpu_us_per_page: float
    rows: list[Row]


def measure(site: Site, address: str, rounds: int, on_step: Callable[[str], None]) -> Report:
    """Run the crawls and join their samples. ``on_step`` is called with the name of each step."""
    ((address, name),) = names_of([address]).items()
    answers = []
    for number in range(1, rounds + 1):
        on_step(f"round {number} of {rounds}: {name}")
        answers.append(_ask(site, address))
        check_pages(site, name, msgspec.structs.asdict(answers[-1]), msgspec.structs.asdict(answers[0]))
    return _report(site, name, answers)


def _ask(site: Site, address: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder, own_store(address, Path(folder)) as store:
        question = Question(url=site.url, store=store, max_pages=None if site.is_own else site.pages)
        found = measured(["skitter.bench.profile"], folder=Path(folder), stdin=msgspec.json.encode(question))
    return msgspec.convert(found.answer, Answer)


def _report(site: Site, name: str, answers: list[Answer]) -> Report:
    pages = sum(answer.pages for answer in answers)
    samples = sum(answer.sampled.samples for answer in answers)
    seconds = sum(answer.sampled.cpu_seconds for answer in answers)
    parts: Counter[str] = Counter()
    for answer in answers:
        parts.update(answer.sampled.parts)
    rows = [
        Row(
            part=part,
            us_per_page=round(parts[part] / pages * 1e6, 2),
            percent=round(parts[part] / seconds * 100, 2),
            plus_or_minus=rounded(uncertainty(parts[part] / seconds, samples) * 100),
            meaning=meaning,
        )
        for part, meaning in PARTS.items()
    ]
    return Report(
        machine=this_machine(),
        site=site.description,
        frontier=name,
        rounds=len(answers),
        pages=pages,
        samples=samples,
        cpu_us_per_page=round(seconds / pages * 1e6, 2),
        rows=rows,
    )


# ---- the process that is sampled


def crawl(question: Question) -> Answer:
    """Crawl in this process while it is sampled."""
    # A few pages first, and the store opened once: reading modules is no part of a page's time.
    _run(msgspec.structs.replace(question, store=Store("memory:", "warm-up"), max_pages=IN_FLIGHT), "warm-up.jsonl")
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(question.store.open().close())
    kind = load_spider(question.spider, Path.cwd())
    with Sampler({kind.__module__: "callback"}) as sampler:
        summary = _run(question, "out.jsonl")
    return Answer(pages=summary.pages, failed=summary.failed, sampled=sampler.result())


def _run(question: Question, results: str) -> Summary:
    spider = make_spider(load_spider(question.spider, Path.cwd()), {})
    seeds = [] if question.spider else [question.url]
    spider.start_urls = seeds or spider.start_urls
    given = {"concurrency": IN_FLIGHT, "per_host": IN_FLIGHT, "max_pages": question.max_pages}
    settings = Settings.from_layers([("bench", given)])
    job = question.store.job
    config = CrawlConfig(
        spec=JobSpec(name=job, spider=question.spider, seeds=seeds, settings=settings.job_wide()),
        frontier=question.store.address,
        settings=settings,
        outputs=collect_outputs(typed=[(results, False)], job=job),
    )
    with asyncio.Runner(loop_factory=new_loop) as runner:
        summary = runner.run(make_crawl_node(config, on_report=_ignore, on_event=_ignore, spider=spider).run())
    assert summary is not None, "nobody stops it"
    return summary


def _ignore(_: object) -> None:
    pass


if __name__ == "__main__":
    sys.exit(answer_question(Question, crawl))
