"""Links between shards: they are added to the shards of their hosts first, and the page is acked after.

A worker that dies in between leaves a page that is fetched again and links that are known by then. Before anything is
added, the page's own shard is asked whether the lease is still current: so a worker whose lease has expired adds
nothing, except in the instant between the question and the add.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from skitter.frontier.redis.shards.shard import Shard
from skitter.frontier.redis.shards.shard_set import ShardSet
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Outcome
from skitter.model.request import Entry

Relied = dict[int, tuple[str, int]]
"""By the number of another shard: its reigns when it took links of a page, and how many links it had taken then."""


class CrossShardLinks:
    """Adds entries to the shards of their hosts."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set

    def home_of(self, lease: Lease) -> Shard:
        """The shard that has granted a lease. The seeding is the lead's."""
        return self._shard_set.lead if lease.work is Work.SEED else self._shard_set.shard_of(lease.host_key)

    # ---- entries that an operator adds

    async def add(self, entries: Sequence[Entry]) -> int:
        """Add entries, and answer how many were new. A finished job goes on if any were."""
        new = 0
        await self._shard_set.sync_with_lead()
        left = self._by_shard(entries)
        while left:
            run = (await self._shard_set.lead.refresh_status()).run
            permits = await self._permit(run, entries)
            groups, left = left, {}
            answers = await self._add_to_shards(run, permits, groups)
            for (shard, group), (answer, _) in zip(groups.items(), answers, strict=True):
                if answer == "sealed":
                    await self._shard_set.reopen(None, finished=True)
                elif answer not in ("behind", "over"):
                    new += answer.count("1")
                    continue
                left[shard] = group
        return new

    # ---- links of pages

    async def add_links_of(self, outcomes: Sequence[Outcome]) -> tuple[list[Outcome | None], list[int], list[Relied]]:
        """Add the links of outcomes that belong to other shards than their pages.

        Answers the outcomes with the links of their own shard only, or None for one that is refused; and for each
        outcome how many of its other links were new, and what it relies on in other shards.
        """
        await self._shard_set.sync_with_lead()
        crossing = self._with_cross_shard_links(outcomes)
        runs = await self._runs_of(outcomes, crossing)
        kept: list[Outcome | None] = list(outcomes)
        known, new = [0] * len(outcomes), [0] * len(outcomes)
        relied: list[Relied] = [{} for _ in outcomes]
        for run in sorted({run for run in runs.values() if run is not None}):
            mine = [index for index in crossing if runs[index] == run]
            refused = await self._add_links_of_run(run, mine, outcomes, known, new, relied)
            runs.update(dict.fromkeys(refused))
        for index, outcome in enumerate(outcomes):
            home = self.home_of(outcome.lease)
            own = [link for link in outcome.links if self._shard_set.shard_of(link.host_key) is home]
            if index in crossing and runs[index] is None:
                kept[index] = None
            elif len(own) < len(outcome.links):
                # Counted with the ack, as those are that its own shard finds out.
                tally = dict(outcome.tally)
                if known[index]:
                    for name in ("duplicates", "duplicates_sent"):
                        tally[name] = tally.get(name, 0) + known[index]
                kept[index] = msgspec.structs.replace(outcome, links=own, tally=tally)
        return kept, new, relied

    def _with_cross_shard_links(self, outcomes: Sequence[Outcome]) -> list[int]:
        """Indexes of the outcomes that have links for other shards, and do not come after the end of their lease."""
        ended: set[tuple[Work, int, int]] = set()
        indexes = []
        for index, outcome in enumerate(outcomes):
            lease, home = outcome.lease, self.home_of(outcome.lease)
            key = (lease.work, lease.id, lease.epoch)
            if key not in ended and any(
                link.permits or self._shard_set.shard_of(link.host_key) is not home for link in outcome.links
            ):
                indexes.append(index)
            if not outcome.more:
                ended.add(key)
        return indexes

    async def _runs_of(self, outcomes: Sequence[Outcome], indexes: list[int]) -> dict[int, int | None]:
        """The run of each current lease; None for one that is lost."""
        homes: dict[Shard, list[int]] = defaultdict(list)
        for index in indexes:
            homes[self.home_of(outcomes[index].lease)].append(index)

        async def fence(shard: Shard) -> tuple[str, int]:
            return await shard.fence([outcomes[index].lease for index in homes[shard]])

        runs: dict[int, int | None] = {}
        for mine, (current, run) in zip(homes.values(), await self._shard_set.call_each(fence, homes), strict=True):
            for index, mark in zip(mine, current, strict=True):
                runs[index] = run if mark == "1" else None
        return runs

    async def _add_links_of_run(
        self,
        run: int,
        indexes: list[int],
        outcomes: Sequence[Outcome],
        known: list[int],
        new: list[int],
        relied: list[Relied],
    ) -> list[int]:
        """Add the links of these outcomes that belong to other shards; ``known`` and ``new`` count them.

        Answers the indexes of outcomes whose links are refused: the job has ended, or is in another run.
        """
        permits = await self._permit(run, [link for index in indexes for link in outcomes[index].links])
        if permits < 0:
            return indexes
        groups: dict[Shard, list[Entry]] = defaultdict(list)
        sources: dict[Shard, list[int]] = defaultdict(list)
        for index in indexes:
            home = self.home_of(outcomes[index].lease)
            for link in outcomes[index].links:
                shard = self._shard_set.shard_of(link.host_key)
                if shard is not home:
                    groups[shard].append(link)
                    sources[shard].append(index)
        refused: list[int] = []
        while groups:
            answers = await self._add_to_shards(run, permits, groups)
            left: dict[Shard, list[Entry]] = {}
            for (shard, group), (answer, state) in zip(groups.items(), answers, strict=True):
                if answer == "over" or (answer == "sealed" and not await self._shard_set.reopen(run, finished=False)):
                    refused += sources[shard]
                elif answer in ("behind", "sealed"):
                    left[shard] = group
                else:
                    for index, mark in zip(sources[shard], answer, strict=True):
                        (new if mark == "1" else known)[index] += 1
                        relied[index][shard.number] = state
            groups = left
        return refused

    # ---- calls of the shards

    def _by_shard(self, entries: Iterable[Entry]) -> dict[Shard, list[Entry]]:
        groups: dict[Shard, list[Entry]] = defaultdict(list)
        for entry in entries:
            groups[self._shard_set.shard_of(entry.host_key)].append(entry)
        return dict(groups)

    async def _add_to_shards(
        self, run: int, permits: int, groups: dict[Shard, list[Entry]]
    ) -> list[tuple[str, tuple[str, int]]]:
        """Add entries to their shards; what each answered, and then its reigns and its number of links."""

        async def send(shard: Shard) -> tuple[str, tuple[str, int]]:
            answer = await shard.add_links(run, max(0, permits), groups[shard])
            # At once: the next answer of this shard may come from another reign.
            state = (shard.status.reigns, shard.status.foreign)
            if answer == "behind":
                await self._shard_set.lead.refresh_status()
                await self._shard_set.sync_with_lead()
            return answer, state

        return await self._shard_set.call_each(send, groups)

    async def _permit(self, run: int, entries: Iterable[Entry]) -> int:
        """Permit the hosts of seeds: at the lead, then their number at every shard. Answers it; -1: another run.

        A host that was typed is trusted at its shard before that: else another worker may find a link to it, add it as
        untrusted, and the network guard excludes it before the seed has arrived.
        """
        seeds = [entry for entry in entries if entry.permits]
        keys = list(dict.fromkeys(entry.host_key for entry in seeds))
        if not keys:
            return 0
        typed: dict[Shard, dict[str, None]] = defaultdict(dict)
        for entry in seeds:
            if entry.trusts:
                typed[self._shard_set.shard_of(entry.host_key)][entry.host_key] = None
        await self._shard_set.call_each(lambda shard: shard.step("trust_hosts", run, *typed[shard]), typed)
        permits = await self._shard_set.lead.step("permit_hosts", run, *keys)
        if permits > 0:
            await self._shard_set.call_each(
                lambda shard: shard.step("set_permitted_count", run, permits), self._shard_set.others
            )
        return permits
