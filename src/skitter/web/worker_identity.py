"""The identity of workers comes from their credential: a worker's token acts for its own workers and leases alone.

To the names of its workers and of the owners of its sinks the master adds ``@`` and the name of the credential, so that
no other credential can speak for them, through whichever master. A lease that another credential holds is passed on
with an epoch that no lease has: the store refuses it as it refuses a stale one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.frontier.contract import Frontier
from skitter.model.job import Report, SinkSeen, Trace
from skitter.model.lease import Grant, Lease
from skitter.model.outcome import Committed, Outcome
from skitter.model.worker import WorkerSeen
from skitter.web.credentials import Credential

NO_EPOCH = 0
"""Epochs begin with one."""
MAX_KNOWN = 200_000
"""Leases whose holder is remembered: those of 3,000 workers. Of others the store is asked."""
_NAMES = ("worker", "owner")


class WorkerIdentity:
    """Which credential holds which lease, as far as this master has granted or renewed it."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], str] = {}

    async def own(self, credential: Credential, job: str, frontier: Frontier, arguments: Any) -> None:
        """Give names in a call their credential, and take leases of others out of it."""
        for name in _NAMES:
            if (given := getattr(arguments, name, None)) is not None:
                setattr(arguments, name, tagged(given, credential))
        outcomes: Sequence[Outcome] | None = getattr(arguments, "outcomes", None)
        leases = getattr(arguments, "leases", None) if outcomes is None else [one.lease for one in outcomes]
        if not leases:
            return
        checked = await self._checked(credential, job, frontier, getattr(arguments, "worker", ""), leases)
        if outcomes is None:
            arguments.leases = checked
        else:
            for outcome, lease in zip(outcomes, checked, strict=True):
                outcome.lease = lease

    def note(self, job: str, arguments: Any, answer: Any) -> None:
        """Remember the holder of leases that were granted or renewed."""
        grant = answer.grant if isinstance(answer, Committed) else answer
        if isinstance(grant, Grant):
            self._remember(job, arguments.worker, grant.leases)

    def forget(self, job: str) -> None:
        """Forget the leases of a job that is dropped."""
        self._holders = {key: worker for key, worker in self._holders.items() if key[0] != job}

    def _remember(self, job: str, worker: str, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._holders[job, lease.epoch] = worker
        while len(self._holders) > MAX_KNOWN:
            del self._holders[next(iter(self._holders))]

    async def _checked(
        self, credential: Credential, job: str, frontier: Frontier, worker: str, leases: Sequence[Lease]
    ) -> list[Lease]:
        def is_own(lease: Lease) -> bool:
            return is_of(self._holders.get((job, lease.epoch), ""), credential)

        unknown = [lease for lease in leases if not is_own(lease)]
        if unknown and worker:
            # Another master granted them, or this one before it was started again; or the job was dropped elsewhere and
            # begun anew, with the same epochs. Who may renew a lease holds it.
            kept = await frontier.renew(worker, unknown)
            self._remember(job, worker, [lease for lease, is_kept in zip(unknown, kept, strict=True) if is_kept])
        return [lease if is_own(lease) else msgspec.structs.replace(lease, epoch=NO_EPOCH) for lease in leases]


def tagged(name: str, credential: Credential) -> str:
    """The name of a worker or an owner with its credential."""
    return name if is_of(name, credential) else f"{name}@{credential.name}"


def is_of(name: str, credential: Credential) -> bool:
    """Whether a name is one of this credential."""
    return name.endswith(f"@{credential.name}")


def untagged(answer: Any, credential: Credential) -> Any:
    """An answer in which a credential finds its own workers and owners by the names that it gave them."""
    tag = f"@{credential.name}"
    match answer:
        case Report():
            workers, sinks = untagged(answer.workers, credential), untagged(answer.sinks, credential)
            return msgspec.structs.replace(answer, workers=workers, sinks=sinks)
        case Trace():
            return msgspec.structs.replace(answer, worker=answer.worker.removesuffix(tag))
        case list():
            return [_untagged_row(row, tag) for row in answer]
    return answer


def _untagged_row(row: Any, tag: str) -> Any:
    if isinstance(row, WorkerSeen):
        return msgspec.structs.replace(row, id=row.id.removesuffix(tag))
    if isinstance(row, SinkSeen):
        return msgspec.structs.replace(row, owner=row.owner.removesuffix(tag))
    return row
