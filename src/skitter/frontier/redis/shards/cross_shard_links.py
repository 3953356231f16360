"""Links between shards: they are added where they belong first, and the page is acked after. Never the reverse.

Who dies in between leaves a page that is fetched again and links that are known by then. Before anything is added, the
page's own shard is asked whether the lease is still current: so a worker that was away for too long adds nothing, but
for the instant between the question and the add.
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


class CrossShardLinks:
    """Adds entries to the shards that they belong to."""

    def __init__(self, shard_set: ShardSet) -> None:
        self._shard_set = shard_set

    def home_of(self, lease: Lease) -> Shard:
        """The shard that has granted a lease. The seeding is the lead's."""
        return self._shard_set.lead if lease.work is Work.SEED else self._shard_set.of(lease.host_key)

    # ---- what an operator adds

    async def add(self, entries: Sequence[Entry]) -> int:
        """How many were new. A finished job goes on if any were."""
        new = 0
        await self._shard_set.keep_step()
        left = self._by_shard(entries)
        while left:
            run = (await self._shard_set.lead.stand()).run
            permits = await self._permit(run, entries)
            groups, left = left, {}
            for (shard, group), answer in zip(groups.items(), await self._send(run, permits, groups), strict=True):
                if answer == "sealed":
                    await self._shard_set.reopen(None, finished=True)
                elif answer not in ("behind", "over"):
                    new += answer.count("1")
                    continue
                left[shard] = group
        return new

    # ---- what pages have found

    async def carry(self, outcomes: Sequence[Outcome]) -> tuple[list[Outcome | None], list[int]]:
        """The outcomes with the links of their own shard only, once all others are where they belong; None: refused.

        And how many of those others were new, of each.
        """
        await self._shard_set.keep_step()
        ahead = self._cross_shard_links(outcomes)
        runs = await self._runs_of(outcomes, ahead)
        carried: list[Outcome | None] = list(outcomes)
        known, new = [0] * len(outcomes), [0] * len(outcomes)
        for run in sorted({run for run in runs.values() if run is not None}):
            mine = [place for place in ahead if runs[place] == run]
            refused = await self._carry(run, mine, outcomes, known, new)
            runs.update(dict.fromkeys(refused))
        for place, outcome in enumerate(outcomes):
            home = self.home_of(outcome.lease)
            own = [link for link in outcome.links if self._shard_set.of(link.host_key) is home]
            if place in ahead and runs[place] is None:
                carried[place] = None
            elif len(own) < len(outcome.links):
                # Counted with the ack, as those are that its own shard finds out.
                tally = dict(outcome.tally)
                if known[place]:
                    for name in ("duplicates", "duplicates_sent"):
                        tally[name] = tally.get(name, 0) + known[place]
                carried[place] = msgspec.structs.replace(outcome, links=own, tally=tally)
        return carried, new

    def _cross_shard_links(self, outcomes: Sequence[Outcome]) -> list[int]:
        """Places of the outcomes that have something for another shard, and are not behind the end of their lease."""
        ended: set[tuple[Work, int, int]] = set()
        places = []
        for place, outcome in enumerate(outcomes):
            lease, home = outcome.lease, self.home_of(outcome.lease)
            key = (lease.work, lease.id, lease.epoch)
            if key not in ended and any(
                link.permits or self._shard_set.of(link.host_key) is not home for link in outcome.links
            ):
                places.append(place)
            if not outcome.more:
                ended.add(key)
        return places

    async def _runs_of(self, outcomes: Sequence[Outcome], places: list[int]) -> dict[int, int | None]:
        """The run of each current lease; None for one that is lost."""
        homes: dict[Shard, list[int]] = defaultdict(list)
        for place in places:
            homes[self.home_of(outcomes[place].lease)].append(place)

        async def fence(shard: Shard) -> tuple[str, int]:
            return await shard.fence([outcomes[place].lease for place in homes[shard]])

        runs: dict[int, int | None] = {}
        for mine, (current, run) in zip(homes.values(), await self._shard_set.each(fence, homes), strict=True):
            for place, mark in zip(mine, current, strict=True):
                runs[place] = run if mark == "1" else None
        return runs

    async def _carry(
        self, run: int, places: list[int], outcomes: Sequence[Outcome], known: list[int], new: list[int]
    ) -> list[int]:
        """Add the links of these outcomes that belong elsewhere; ``known`` and ``new`` count them.

        Answers the places of outcomes whose links nobody takes: the job has ended, or is in another run.
        """
        permits = await self._permit(run, [link for place in places for link in outcomes[place].links])
        if permits < 0:
            return places
        groups: dict[Shard, list[Entry]] = defaultdict(list)
        sources: dict[Shard, list[int]] = defaultdict(list)
        for place in places:
            home = self.home_of(outcomes[place].lease)
            for link in outcomes[place].links:
                shard = self._shard_set.of(link.host_key)
                if shard is not home:
                    groups[shard].append(link)
                    sources[shard].append(place)
        refused: list[int] = []
        while groups:
            answers = await self._send(run, permits, groups)
            left: dict[Shard, list[Entry]] = {}
            for (shard, group), answer in zip(groups.items(), answers, strict=True):
                if answer == "over" or (answer == "sealed" and not await self._shard_set.reopen(run, finished=False)):
                    refused += sources[shard]
                elif answer in ("behind", "sealed"):
                    left[shard] = group
                else:
                    for place, mark in zip(sources[shard], answer, strict=True):
                        (new if mark == "1" else known)[place] += 1
            groups = left
        return refused

    # ---- how it is sent

    def _by_shard(self, entries: Iterable[Entry]) -> dict[Shard, list[Entry]]:
        groups: dict[Shard, list[Entry]] = defaultdict(list)
        for entry in entries:
            groups[self._shard_set.of(entry.host_key)].append(entry)
        return dict(groups)

    async def _send(self, run: int, permits: int, groups: dict[Shard, list[Entry]]) -> list[str]:
        async def send(shard: Shard) -> str:
            answer = await shard.add_links(run, max(0, permits), groups[shard])
            if answer == "behind":
                await self._shard_set.lead.stand()
                await self._shard_set.keep_step()
            return answer

        return await self._shard_set.each(send, groups)

    async def _permit(self, run: int, entries: Iterable[Entry]) -> int:
        """Seeds permit their hosts at the lead first, then every shard knows how many there are. -1: another run.

        What was typed is trusted where it belongs before that: else another worker finds a link to it, adds it as a
        stranger's, and the network guard excludes it while the seed is still on its way.
        """
        seeds = [entry for entry in entries if entry.permits]
        keys = list(dict.fromkeys(entry.host_key for entry in seeds))
        if not keys:
            return 0
        typed: dict[Shard, dict[str, None]] = defaultdict(dict)
        for entry in seeds:
            if entry.trusts:
                typed[self._shard_set.of(entry.host_key)][entry.host_key] = None
        await self._shard_set.each(lambda shard: shard.step("trust", run, *typed[shard]), typed)
        permits = await self._shard_set.lead.step("permit", run, *keys)
        if permits > 0:
            await self._shard_set.each(lambda shard: shard.step("permitted", run, permits), self._shard_set.others)
        return permits
