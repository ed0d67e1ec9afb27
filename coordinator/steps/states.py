"""States that servers keep from call to call, such as the page of a browser: which worker has which.

A state belongs to a connection, a project and an owner: a run (a flow, an instance of the gateway), a caller, or
``ANY``, all of the project together. One worker has it, under a lease by the store's clock, and makes all calls that
use it; other workers give such steps back for it (``run_kind.NotHere``). Each state has a number, which is never used
again. Before a call, the number that the state has now is compared with the one that the owner used last (``use``).
Where they differ, what the owner has done there is lost, so the call must not be made: whatever ended the state, and
whether or not anybody has noticed.

The table of states is fleet-wide (``lua/modules/states.lua``). What an owner used last is kept in its project, with its
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from coordinator.steps.store import LIBRARY
from coordinator.steps.times import LEASE_MS
from coordinator.store import Script, Store, keys

ANY = ""
"""The owner of a state that is shared by all of a project."""
LOST, SAME, FIRST = 0, 1, 2
"""How the number of a state compares with the one that its owner used last; FIRST: it has used none."""
_CALLER = "c_"
"""Begins owners that are callers; runs have other ids."""

_ACQUIRE: Script[Any] = Script(LIBRARY, "acquire_state", scope="fleet")
_KEEP: Script[Any] = Script(LIBRARY, "keep_states", scope="fleet")
_USE: Script[Any] = Script(LIBRARY, "use_state")
_ONGOING = (b"r", b"p")
"""Statuses of runs that have not ended."""


class StateName(NamedTuple):
    connection: str
    project: str
    owner: str

    @property
    def own(self) -> str:
        """Its name among the states of the connection."""
        return f"{self.project} {self.owner}"

    @property
    def of_run(self) -> bool:
        return self.owner != ANY and not self.owner.startswith(_CALLER)


class Told(NamedTuple):
    """What a worker tells of a state that it has."""

    name: StateName
    number: int
    what: Literal["busy", "idle", "used", "end", "over"]
    """See ``lua/keep_states.lua``."""
    idle_ms: int


def owner_of_caller(id: str) -> str:
    """The owner that a caller is, by its verified id. It can be part of a key whatever characters the id has."""
    return _CALLER + blake2b(id.encode(), digest_size=16).hexdigest()


class StateStore:
    """The states in the store. Every method raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def acquire(self, name: StateName, worker: str, have: int, most: int, idle_ms: int) -> tuple[int, str]:
        """Acquires a state for a worker.

        Args:
            have: the number under which the worker has it; 0: it does not have it.

        Returns:
            The number that it has now, and the worker. 0: another worker has it, which is named; or there is no room.
        """
        number, holder = await self._store.run(
            _ACQUIRE, keys.FLEET, name.connection, name.own, worker, have, most, idle_ms, LEASE_MS
        )
        return int(number), holder.decode()

    async def make_room(self, connection: str, worker: str, most: int) -> None:
        """Forgets states of runs that have ended, if there are ``most``: others would make room in their place."""
        key = keys.state_owners.key(keys.FLEET, connection)
        if await self._store.command("HLEN", key) < most:
            return
        states = await self._store.command("HKEYS", key)
        names = [StateName(connection, *state.decode().split(" ", 1)) for state in states]
        over = await asyncio.gather(*(self.over(name, set()) for name in names))
        ended = [state for state, is_over in zip(states, over, strict=True) if is_over]
        numbers = await self._store.command("HMGET", key, *ended) if ended else []
        told = [
            Told(StateName(connection, *state.decode().split(" ", 1)), int(number.split()[0]), "over", 0)
            for state, number in zip(ended, numbers, strict=True)
            if number
        ]
        if told:
            await self.keep(worker, told)

    async def keep(self, worker: str, states: Sequence[Told], *, last: bool = False) -> list[Told]:
        """Renews the lease of a worker's states; returns those that it does not have any more.

        Args:
            last: whether the worker gives its lease up.
        """
        words = [
            word for one in states for word in (one.name.connection, one.name.own, one.number, one.what, one.idle_ms)
        ]
        gone = await self._store.run(_KEEP, keys.FLEET, worker, 0 if last else LEASE_MS, *words)
        return [states[number - 1] for number in gone]

    async def use(
        self, name: StateName, memory: str, number: int, step: str, *, anew: bool = False, again: bool = False
    ) -> int:
        """Notes that the owner uses this number from now on; returns ``LOST``, ``SAME`` or ``FIRST``.

        Args:
            memory: the run or caller that remembers.
            step: the step that calls.
            anew: whether the owner has used no state yet, whatever it remembers.
            again: whether this was asked for the step before, and the answer may not have been heeded.
        """
        found: int = await self._store.run(
            _USE, name.project, memory, name.connection, number, int(anew), step, int(again)
        )
        return found

    async def over(self, name: StateName, users: set[str]) -> bool:
        """Whether the run that a state belongs to has ended, and all others that use it. Callers do not end.

        Args:
            users: these other runs; those that have ended are removed.
        """
        if not name.of_run:
            return False
        for run in [*users]:
            if await self._ended(name.project, run):
                users.discard(run)
        return not users and await self._ended(name.project, name.owner)

    async def _ended(self, project: str, run: str) -> bool:
        return await self._store.command("HGET", keys.run.key(project, run), "s") not in _ONGOING
