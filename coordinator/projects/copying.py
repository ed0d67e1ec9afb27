"""Copies a project to another store, under the same name, while other projects are in use.

Both stores refuse the project meanwhile (``coordinator/store/fences/known.py``). In this order:

1. The target gets a fence, and must have nothing else of the project.
2. The source gets one. From now on, it changes no more.
3. All keys are copied, the names are compared, and the copy is audited.
4. With ``deletes``: the fence of the source says that the project was moved. That is the point of no return.
   Then the target's fence goes, the source's keys are deleted, and its fence stays, so that nobody fills an empty
   project there. Otherwise the fence of the target says that it is a copy, which is not served (``accept``), and that
   of the source goes.

Whoever is killed in between leaves fences that say where it was. The same command continues from there: before step 4
it begins the copy anew, after it the rest is done. Each run has an id of its own and changes the fences to it, so one
that was only paused can do nothing more.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from coordinator.errors import ToolFailure
from coordinator.projects import transfer
from coordinator.projects.errors import NotPossible, ProjectProblem
from coordinator.projects.passing import PassingStore
from coordinator.projects.transfer import Keys
from coordinator.settings.sections.workflows import Signing
from coordinator.steps.left_jobs import remove_jobs
from coordinator.steps.queue_place import queues_of
from coordinator.store import ServerError, Store, keys
from coordinator.store.cluster.places import listed as listed_in
from coordinator.store.fences.copies import Fence, FenceLost, Fencing
from coordinator.store.fences.known import State
from coordinator.store.fleet.leader_lease import LeaderLeases
from coordinator.store.fleet.processes import GONE_SECONDS, read_processes
from coordinator.store.following import LOOK_SECONDS
from coordinator.store.signing_keys import SALT
from coordinator.toolsets.items.audit import audit

CLOCKS_MS = 500
"""How far the clocks of two stores may differ: expiries are times of a store."""
HEARD_SECONDS = 2 * LOOK_SECONDS
"""Each process has looked for fences within this time, unless it is stopped."""
LEASE_MS = 5_000
"""How long a command that was killed holds up the next."""
_TURN = "project copy"

Say = Callable[[str], None]


class End(NamedTuple):
    """One end of a copy."""

    fencing: Fencing
    place: str
    """Where the store is, without secrets."""

    @property
    def store(self) -> Store:
        return self.fencing.store

    @property
    def identity(self) -> str:
        return self.store.identity.known


@asynccontextmanager
async def turn(*ends: End) -> AsyncIterator[None]:
    """Makes this the only command that copies a project of these stores. Raises ProjectProblem: another one does."""
    me = secrets.token_hex(8)
    leases = [LeaderLeases(end.store) for end in ends]
    deadline = time.monotonic() + LEASE_MS / 1000 + 1

    async def renew() -> None:
        while True:
            await asyncio.sleep(LEASE_MS / 5000)
            await asyncio.gather(*(lease.acquire(_TURN, me, LEASE_MS) for lease in leases), return_exceptions=True)

    renewing = None
    try:
        for one, end in zip(leases, ends, strict=True):
            while not await one.acquire(_TURN, me, LEASE_MS):
                if time.monotonic() > deadline:
                    raise ProjectProblem(f"another command copies a project from or to {end.place} right now")
                await asyncio.sleep(0.2)  # that of a command that was killed ends soon
        renewing = asyncio.create_task(renew(), name="project copy turn")
        yield
    finally:
        if renewing is not None:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        for one in leases:
            await one.release(_TURN, me)


class Copy:
    """One run of a copy.

    Args:
        passing: the target's store again.
        deletes: whether the project is moved, and deleted at the source.
        signing: the settings of the source's signing keys.
    """

    def __init__(
        self,
        source: End,
        target: End,
        passing: PassingStore,
        project: str,
        deletes: bool,
        say: Say,
        signing: Signing | None = None,
    ) -> None:
        self._source, self._target, self._passing, self._project = source, target, passing, project
        self._deletes, self._say, self._signing = deletes, say, signing or Signing()
        self._id = secrets.token_hex(8)
        self._ours = False
        """Whether all that the target has of the project is of this copy."""
        self._frozen = ""
        """The id of the source's fence, if it is a copy itself, which nobody changes."""
        self._before: Fence | None = None
        """The fence of the target, if the project was moved from there earlier."""

    async def run(self) -> str:
        """Copies; returns what was done, in a sentence.

        Raises:
            ProjectProblem: it cannot be; what was begun is undone, as far as both stores answer.
            ToolFailure, StoreError: a store does not answer, or refuses a command.
        """
        if self._source.identity == self._target.identity:
            raise NotPossible("--to is the same store")
        source, target = self._source.fencing, self._target.fencing
        identity, state = await source.found(self._project)
        there, its_state = await target.found(self._project)
        listed = (await source.all()).get(self._project)
        if state in ("leaving", "moved") and listed is not None and listed.store != self._target.identity:
            verb, advice = ("was", "copy it from there") if state == "moved" else ("is", "end that first, with --abort")
            raise NotPossible(f"the project {self._project} {verb} {listed.said}, not to --to: {advice}")
        if state == "moved":
            return await self._continue(identity, there, its_state, known=listed is not None)
        if state == "leaving" and its_state == "moved":  # the source has lost its last writes
            raise NotPossible(await _gone(self._target, self._project))
        if state == "leaving" and its_state == "copy" and there == identity:
            self._id = identity
            return await self._give_back()
        if state == "copy":
            if self._deletes:
                raise NotPossible(
                    f"the project {self._project} is a copy here, which is not served: without --delete-source, or "
                    "after `fleet project accept`"
                )
            self._frozen = identity
        if state in ("reserved", "arriving"):
            raise ProjectProblem(f"the project {self._project} is being copied to this store: end that first")
        await self._check_stores()
        if not state and not await Keys(source, self._project, "").names():
            raise NotPossible(f"there is no project {self._project}: nobody has written to it")
        try:
            await self._prepare(there, its_state)
            if not self._frozen:
                await self._fence_source(identity)
            number = await self._copy()
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, FenceLost):
                await self._undo()
            raise
        if not self._deletes:
            await target.turn(self._project, self._id, self._id, "copy")
            return await self._give_back(number)
        await source.turn(self._project, self._id, self._id, "moved")
        return await self._move_on(number)

    async def _check_stores(self) -> None:
        source, target = self._source.store, self._target.store
        queues = await queues_of(source)
        if queues is not None and queues == await queues_of(target):
            raise NotPossible(
                "the fleets of both stores have their queues of steps in the same Redis, and would take each other's "
                "steps: give one of them another steps.queue_url, and restart its workers"
            )
        await transfer.check_clocks(source, target, CLOCKS_MS)

    # --- steps 1 to 3

    def _fence(self, state: State, other: End) -> Fence:
        before = self._before if other is self._source else None
        at = round(time.time() * 1000)
        return Fence(self._id, state, at, other.identity, other.place, self._deletes, before=before)

    async def _prepare(self, identity: str, state: str) -> None:
        """Fences the target, and empties what an earlier run has left there."""
        fencing, project = self._target.fencing, self._project
        listed, there = (await fencing.all()).get(project), Keys(fencing, project, self._id)
        if state and (listed is None or (state != "moved" and listed.store != self._source.identity)):
            said = f"a copy of the project from {listed.place}" if listed else "a fence of the project"
            raise NotPossible(f"the target has {said}")
        if state == "copy" and self._deletes:
            raise NotPossible(
                f"the target has a copy of the project, which is not served: to move the project there, delete that "
                f"copy first (fleet project copy {project} --abort, with the target as --redis-url)"
            )
        if state not in ("arriving", "copy"):
            await self._check_empty(there)
        if state and listed is not None:
            self._before = listed.before or (listed if state == "moved" else None)
        await fencing.note(project, self._fence("reserved", self._source))
        await fencing.begin(self._id)
        if not state:
            await fencing.put(project, self._id, "reserved")
        if state in ("", "reserved"):  # somebody may have made one until the fence was there
            await self._check_empty(there)
        await fencing.turn(project, identity or self._id, self._id, "arriving")
        self._ours = True
        if state in ("arriving", "copy"):
            self._say("deleting what an earlier copy has left there")
            await there.empty()

    async def _check_empty(self, there: Keys) -> None:
        store, project = self._target.store, self._project
        if await there.names() or (store.sharded and project in await listed_in(store.command_of)):
            raise NotPossible(f"the target has a project {project}")

    async def _fence_source(self, identity: str) -> None:
        fencing = self._source.fencing
        await fencing.note(self._project, self._fence("leaving", self._target))
        await fencing.begin(self._id)
        if identity:
            await fencing.turn(self._project, identity, self._id, "leaving")
        else:
            await fencing.put(self._project, self._id, "leaving")

    async def _copy(self) -> int:
        """Copies and checks; returns the number of keys."""
        project = self._project
        source = Keys(self._source.fencing, project, self._frozen or self._id)
        target = Keys(self._target.fencing, project, self._id)
        places = [end.store.link(project) for end in (self._source, self._target)]
        self._say("copying")
        had = await transfer.transfer(source, target, self._say)
        number = await transfer.compare(source, target, had)
        self._say(f"{number} keys copied; auditing")
        self._passing.identity_of_copy = self._id
        if differences := (await audit(self._passing, project)).differences:
            first = differences[0]
            raise ProjectProblem(
                f"the audit of the copy has found {len(differences)} differences, as {first.key}: {first.problem}; "
                "audit the source (fleet audit)"
            )
        if places != [end.store.link(project) for end in (self._source, self._target)]:
            raise ProjectProblem(f"the project {project} has moved to another shard meanwhile: copy it again")
        for end, identity in ((self._source, source.identity), (self._target, self._id)):
            if (await end.fencing.found(project))[0] != identity:
                raise FenceLost(f"the copy of the project {project} was ended by another process")
            if not self._frozen and not await end.fencing.looks():
                raise ProjectProblem(f"a process of another release has begun to use {end.place}: copy again")
        return number

    async def _undo(self) -> None:
        """Gives the project back to the source, and deletes the copy; each as far as its store answers."""
        for undo, end in ((self._release_source, self._source), (self._drop_target, self._target)):
            try:
                await undo()
            except (Exception, asyncio.CancelledError) as error:
                self._say(
                    f"what was begun in {end.place} cannot be undone: {error}; later give the same command again, or "
                    f"end it there (fleet project copy {self._project} --abort)"
                )

    async def _release_source(self) -> None:
        fencing = self._source.fencing
        if not self._frozen and (await fencing.found(self._project))[0] == self._id:
            await fencing.turn(self._project, self._id, self._id, None)
        await self._forget(self._source)

    async def _drop_target(self) -> None:
        fencing = self._target.fencing
        if (await fencing.found(self._project))[0] == self._id:
            if self._ours:
                await Keys(fencing, self._project, self._id).empty()
            await _turn_back(self._target, self._project, self._id, self._before)
        await self._forget(self._target, self._before)

    async def _forget(self, end: End, before: Fence | None = None) -> None:
        """Takes the fence of this run off a list, if it is there, and puts the one before it back."""
        listed = (await end.fencing.all()).get(self._project)
        if listed is not None and listed.id == self._id:
            await end.fencing.note(self._project, before)
        await end.fencing.end()

    # --- step 4

    async def _continue(self, identity: str, there: str, its_state: str, known: bool) -> str:
        """Does the rest of a move that was interrupted after the copy was complete."""
        self._id = identity
        if its_state == "arriving" and there == identity:
            self._say("the copy is complete: continuing")
            return await self._move_on()
        served = not its_state and await Keys(self._target.fencing, self._project, "").names()
        done = ""
        if known and (served or its_state == "moved"):
            done = await self._tidy_source()
        if not (known and served):
            raise NotPossible(await _gone(self._target, self._project))
        return done

    async def _move_on(self, number: int | None = None) -> str:
        source, target, project = self._source, self._target, self._project
        await source.fencing.note(project, self._fence("moved", target))
        await transfer.bring_along(source.store, target.store, project)
        there = Keys(target.fencing, project, self._id)
        await transfer.hand_over_keys(source.store, there, self._signing)
        await transfer.hand_over_anew(there)
        await transfer.publish(target.store, project)
        await target.fencing.turn(project, self._id, self._id, None)
        self._say(f"the project is served by {target.place}; deleting it here")
        return await self._tidy_source(number)

    async def _tidy_source(self, number: int | None = None) -> str:
        source, project = self._source, self._project
        await self._forget(self._target)
        await Keys(source.fencing, project, self._id).empty()
        await transfer.withdraw(source.store, project)
        try:
            await remove_jobs(source.store, project)
        except (ToolFailure, ServerError) as error:  # they are of no use to anybody, and do no harm
            self._say(f"its jobs cannot be removed from the queues here: {error}")
        await self._settle(source, "moved", self._target)
        return f"moved the project {project} to {self._target.place}{_counted(number)}"

    async def _give_back(self, number: int | None = None) -> str:
        """Serves the source again; the target is a copy."""
        await self._target.fencing.note(self._project, self._fence("copy", self._source))
        await self._release_source()
        await self._settle(self._target, "copy", self._source)
        return (
            f"copied the project {self._project} to {self._target.place}{_counted(number)}; it is served here, and not "
            "there unless it is accepted (fleet project accept)"
        )

    async def _settle(self, end: End, state: State, other: End) -> None:
        fence = self._fence(state, other)
        await end.fencing.note(self._project, fence)
        await _heard(end.store)
        fence.settled = True
        await end.fencing.note(self._project, fence)
        await end.fencing.end()


def _counted(number: int | None) -> str:
    return "" if number is None else f", {number} keys; its audit agrees"


async def _heard(store: Store) -> None:
    """Waits until all processes of a fleet know of its fences; those that do not report for long count as gone."""
    since = await store.time() // 1000 + 1
    while True:
        await asyncio.sleep(HEARD_SECONDS)
        if all(process.noted_at > since for process in (await read_processes(store, GONE_SECONDS)).running):
            return


async def _gone(there: End, project: str) -> str:
    """The message about a project that was moved to a store, and is not served there any more."""
    listed = (await there.fencing.all()).get(project)
    now = f"which says: {listed.said}; copy it from the store that serves it" if listed else "which does not have it"
    return f"the project {project} was moved to {there.place}, {now}"


async def drop(end: End, project: str, identity: str) -> None:
    """Deletes what a store has of a project that is or was copied there, its fence at last."""
    await Keys(end.fencing, project, identity).empty()
    listed = (await end.fencing.all()).get(project)
    await release(end, project, identity, listed.before if listed else None)


async def release(end: End, project: str, identity: str, before: Fence | None = None) -> None:
    """Takes the fence of a project away, and puts the one before it back."""
    await _turn_back(end, project, identity, before)
    await end.fencing.note(project, before)
    await end.fencing.end()


async def _turn_back(end: End, project: str, identity: str, before: Fence | None) -> None:
    await end.fencing.turn(project, identity, before.id if before else identity, before.state if before else None)


async def abort(here: End, there: End | None, project: str) -> str:
    """Ends a copy that was interrupted; returns what was done.

    Args:
        here: the store to which the command was given: the source, or the target with what is there of the copy.
        there: its target, if that is given.

    Raises:
        ProjectProblem: there is nothing to abort, or it is complete.
    """
    identity, state = await here.fencing.found(project)
    listed = (await here.fencing.all()).get(project)
    if there is not None and listed is not None and listed.store != there.identity:
        raise NotPossible(f"the other store of this copy is {listed.place}, not --to")
    if state == "reserved":
        await release(here, project, identity)
        return f"the project {project} is not fenced here any more"
    if state in ("arriving", "copy"):
        await drop(here, project, identity)
        return f"deleted the copy of the project {project} from this store"
    if state == "" and listed is not None:
        await here.fencing.note(project, None)
        await here.fencing.end()
        return f"the project {project} is served"
    if state not in ("leaving", "moved"):
        raise NotPossible(f"no copy of the project {project} is under way")
    if there is not None:
        its, its_state = await there.fencing.found(project)
        if its_state == "arriving" and its == identity:
            if await there.store.command_of(project, "EXISTS", keys.project_keys.key(project)):
                await _renew_keys(Keys(here.fencing, project, identity))  # the target could have kept what it was given
            await drop(there, project, its)
        elif its_state == "reserved" and its == identity:
            await release(there, project, its)
        # A source that has lost its last writes may have forgotten that the project has left.
        elif its_state == "moved" or (state == "moved" and its_state):
            raise ProjectProblem(await _gone(there, project))
        elif state == "moved" or (its_state == "" and await Keys(there.fencing, project, "").names()):
            raise ProjectProblem(f"the project {project} was moved: it is at {there.place}")
    elif state == "moved":
        raise ProjectProblem(
            f"the project {project} was moved: give --to with the store that it was moved to; if that is lost, "
            "`fleet project accept` serves what is left here"
        )
    await release(here, project, identity)
    return f"the copy of the project {project} has ended: it is served here"


async def _renew_keys(here: Keys) -> None:
    """Has a project sign with keys that no other store knows; what was signed before is not valid any more."""
    await here.set_signing_keys({SALT: secrets.token_hex(8)})


async def accept(end: End, project: str) -> str:
    """Serves what a store has of a project that it refuses; returns what was done."""
    identity, state = await end.fencing.found(project)
    if state in ("leaving", "reserved", "arriving"):
        raise ProjectProblem(
            f"the project {project} is being copied: run that command again, or end it "
            f"(fleet project copy {project} --abort)"
        )
    if not state:
        raise NotPossible(f"the project {project} is not refused here")
    listed, said = (await end.fencing.all()).get(project), f"the project {project} is served here"
    here = Keys(end.fencing, project, identity)
    await _renew_keys(here)
    if await here.names():
        await transfer.hand_over_anew(here)
        await transfer.publish(end.store, project)
    else:
        said += ", and empty: nothing of it was left"
    await release(end, project, identity)
    return f"{said}; what {listed.place} has of it is another project from now on" if listed else said
