"""Record of changes of a master's users in the audit trails of its stores: names, roles and jobs, never a hash.

``skitter user`` writes a file and knows no store, so the master that reads the file records what it finds changed, also
since it last ran.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from skitter.app.audit import Trails, local_actor
from skitter.audit.entry import DONE, Draft
from skitter.audit.mutations import USERS_CHANGE
from skitter.errors import BackendError, TrailMissingError, UsageError
from skitter.model.audit import Actor
from skitter.observe import events
from skitter.web.file_changes import LOOK_SECONDS
from skitter.web.stores import Store
from skitter.web.users import User, UserFile

END_SECONDS = 2.0
"""How long the end of a server waits for an entry that is being written."""
LOOKED_THROUGH = 5_000
"""Entries among which the last record of the users is looked for; if it is older, they are recorded again."""
Users = Mapping[str, User]


class UserAudit:
    """Compares the users of a file with those that each trail knows, once a second."""

    def __init__(self, users: UserFile, path: Path, stores: Sequence[Store]) -> None:
        self._users = users
        self._file = str(path.resolve())
        self._told: dict[Store, Users | None] = dict.fromkeys(stores)
        self._is_failing = False
        self._ending = asyncio.Event()

    @contextlib.asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Record while the body of this lasts."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._ending.set()
            await asyncio.wait([task], timeout=END_SECONDS)
            task.cancel()

    async def _run(self) -> None:
        while not self._ending.is_set():
            now = {user.name: user for user in self._users.read_again()}
            for store in list(self._told):
                await self._look(store, now)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK_SECONDS)

    async def _look(self, store: Store, now: Users) -> None:
        if self._told[store] == now:
            return
        try:
            await self._record(store, now)
        except UsageError:
            del self._told[store]  # it has no trail
        except TrailMissingError:
            pass  # until its first job is there
        except BackendError as error:
            # Tried again until the store is back.
            if not self._is_failing:
                events.emit(events.AUDIT_UNFINISHED(action=USERS_CHANGE, error=str(error)))
            self._is_failing = True
        else:
            self._told[store], self._is_failing = now, False

    async def _record(self, store: Store, now: Users) -> None:
        told = self._told[store]
        details = {"file": self._file, "users": len(now), "state": _state(now)}
        async with Trails(store.url) as trails:
            if told is None:
                last = await trails.newest(USERS_CHANGE, LOOKED_THROUGH, file=self._file)
                if last is not None and last.details.get("state") == details["state"]:
                    return
                told = {}
            changed = [name for name in sorted({*told, *now}) if told.get(name) != now.get(name)]
            before, after = ({name: one[name] for name in changed if name in one} for one in (told, now))
            draft = Draft(
                actor=Actor(local_actor("serve").name, claim=self._users.changed_by),
                action=USERS_CHANGE,
                details=details,
                before={name: _shown(user) for name, user in before.items()},
                after={name: _shown(user, before.get(name)) for name, user in after.items()},
                outcome=DONE,
            )
            await trails.append(draft)


def _shown(user: User, before: User | None = None) -> str:
    text = " ".join([user.role, *user.jobs])
    is_same = before is not None and (before.role, before.jobs) == (user.role, user.jobs)
    return f"{text}, password changed" if is_same else text


def _state(users: Users) -> str:
    """A short name of all users as they are, by which a later run finds whether they have changed."""
    versions = "\n".join(user.version for _, user in sorted(users.items()))
    return hashlib.blake2b(versions.encode(), digest_size=8).hexdigest()
