"""The states that this worker has: sessions with servers that remember something from call to call.

``coordinator.steps.states`` explains owners, leases and numbers. A session is used only while its number is the one
that the store has just confirmed, so a worker that has lost a state without knowing does not use it. Calls that use one
state are made one after the other, unless the connection says ``stateParallel``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import structlog

from coordinator.errors import ToolFailure
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.settings.sections.connections import Connection
from coordinator.steps.handoff import own_queue
from coordinator.steps.model import StepRun
from coordinator.steps.run_kind import NotHere, timeout
from coordinator.steps.states import ANY, FIRST, LOST, StateName, StateStore, Told
from coordinator.steps.times import RENEW_SECONDS
from coordinator.store import Store
from coordinator.store.errors import StoreError
from workers.downstream.failures import CallRefused, NoStateFree, SessionForgotten, StateLost
from workers.metrics import STATES_HELD, STATES_LOST

if TYPE_CHECKING:
    import mcp_types as types

    from workers.downstream.server import DownstreamServer

_log = structlog.get_logger(__name__)

SERVED_SECONDS = 10.0
"""How long the worker serves its own queue after its last state has ended: steps may still be on their way there."""
OVER_ROUNDS = 2
"""In how many rounds of renewals it is looked once for owners that have ended."""
_BATCH = 100
"""How many states one call tells of, at most."""


class _Held:
    def __init__(self, number: int, server: DownstreamServer) -> None:
        self.number = number
        self.server = server
        self.calls = 0
        """How many calls are under way."""
        self.flows: set[str] = set()
        """Flows that use it on behalf of its owner, which may end before them."""
        self.unsure: set[str] = set()
        """Steps that may have been told that the state is lost, and have not heard of it."""


class _State:
    """A state that this worker has, or that a call here is about."""

    def __init__(self, name: StateName, connection: Connection, on_outcome: Callable[[str], None]) -> None:
        self.name = name
        self.connection = connection
        self.on_outcome = on_outcome
        self.held: _Held | None = None
        self.turn = asyncio.Lock()
        """Held by the call whose turn it is; with ``stateParallel`` only until its session is there."""
        self.users = 0
        """How many calls are under way, or wait for their turn."""

    def told(self, held: _Held, what: Literal["busy", "idle", "used", "end"]) -> Told:
        return Told(self.name, held.number, what, round(self.connection.state_idle_seconds * 1000))


class States:
    """The states of one worker.

    Args:
        on_served: called with whether the worker is to serve ``queue`` from now on.
    """

    def __init__(self, store: Store, on_served: Callable[[bool], None] = lambda served: None) -> None:
        self.id = uuid4().hex[:16]
        self.queue = own_queue(self.id)
        """The queue of steps that are for this worker because of its states."""
        self.on_served = on_served
        self._store = StateStore(store)
        self._states: dict[StateName, _State] = {}
        self._ending: dict[asyncio.Task[None], DownstreamServer] = {}
        self._served = False
        self._last_held = 0.0
        self._given_up = False
        self._warn = ThrottledWarnings()

    @property
    def held(self) -> int:
        return sum(state.held is not None for state in self._states.values())

    # --- calls ------------------------------------------------------------------------------------

    async def call(
        self,
        name: StateName,
        connection: Connection,
        step: StepRun,
        make: Callable[[DownstreamServer], Any],
        on_outcome: Callable[[str], None],
    ) -> types.CallToolResult:
        """Makes a call that uses a state.

        Args:
            step: the step that calls; its ``state_owner`` remembers which state it used last.
            make: makes the call.
            on_outcome: as that of ``DownstreamServer``.

        Raises:
            NotHere: another worker has the state; or this one may have none now, or the store does not answer.
            StateLost, NoStateFree, ConnectionFailed, CallRefused: see there.
        """
        state = self._states.get(name)
        if state is not None and state.connection != connection:
            await self._tell_last(self._let_go([state]))
            state = self._states.get(name)
        if state is None:
            state = self._states[name] = _State(name, connection, on_outcome)
        state.users += 1
        anew = False
        try:
            while True:
                async with self._lent(state) as held:
                    seen = await self._use(held, name, step, anew)
                    if seen == LOST:
                        STATES_LOST.inc()
                        raise StateLost(
                            f"the connection {name.connection!r} has lost the state that earlier calls have made; this "
                            "call was not made, and the next one begins with a new state"
                        )
                    try:
                        result: types.CallToolResult = await make(held.server)
                    except SessionForgotten:
                        if anew:
                            raise
                        # If the owner had not used this state before, it has lost nothing.
                        anew = seen == FIRST
                    else:
                        return result
        finally:
            state.users -= 1
            self._tidy(state)

    async def _use(self, held: _Held, name: StateName, step: StepRun, anew: bool) -> int:
        """``StateStore.use``, for a step whose earlier attempt may have asked already."""
        if name.of_run and step.run != name.owner and step.run.isdigit():
            held.flows.add(step.run)
        again = step.crashes > 0 or step.step in held.unsure
        held.unsure.add(step.step)
        used = self._store.use(name, step.state_owner, held.number, step.step, anew=anew, again=again)
        seen: int = await _answered(used)
        held.unsure.discard(step.step)
        return seen

    @asynccontextmanager
    async def _lent(self, state: _State) -> AsyncIterator[_Held]:
        """Waits for the turn of a call, and lends it the session, which is open."""
        await _turn(state.turn)
        ours = True
        try:
            held = await self._acquired(state)
            held.calls += 1
            try:
                if not held.server.alive:
                    await held.server.open()
                if state.connection.state_parallel:
                    state.turn.release()
                    ours = False
                yield held
            finally:
                held.calls -= 1
                await self._ended(state, held)
        finally:
            if ours:
                state.turn.release()

    async def _acquired(self, state: _State) -> _Held:
        """The session of a state, under the number that this has now; it may have to be opened."""
        if self._given_up or self._states.get(state.name) is not state:
            raise NotHere  # it was ended while the call waited for its turn
        held, connection = state.held, state.connection
        self._serve()
        if held is None:
            await _answered(self._store.make_room(state.name.connection, self.id, connection.state_most))
        number, worker = await _answered(
            self._store.acquire(
                state.name,
                self.id,
                held.number if held is not None and held.server.alive else 0,
                connection.state_most,
                round(connection.state_idle_seconds * 1000),
            )
        )
        if not number and worker:
            self._end(state)
            raise NotHere(own_queue(worker))
        if not number:
            raise NoStateFree(
                f"the connection {state.name.connection!r} has {connection.state_most} states, and all are in use "
                "(stateMost)"
            )
        if held is None or held.number != number:
            from workers.downstream.server import DownstreamServer

            self._end(state)
            server = DownstreamServer(state.name.connection, connection, on_outcome=state.on_outcome, keeps=True)
            held = state.held = _Held(number, server)
            self._count()
        return held

    async def _ended(self, state: _State, held: _Held) -> None:
        """A call has ended: says since when the state is idle, or that it is gone."""
        if held.calls:
            return
        alive = held.server.alive
        if not alive and state.held is held:
            self._end(state)
        with suppress(ToolFailure, StoreError):  # the next renewal says it
            await self._store.keep(self.id, [state.told(held, "used" if alive else "end")])

    # --- what becomes of states -------------------------------------------------------------------

    async def run(self) -> None:
        """Renews the lease, and ends what is over, until it is cancelled."""
        turn = 0
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            turn += 1
            try:
                await self.renew()
                if turn % OVER_ROUNDS == 0:
                    await self.end_those_over()
            except (ToolFailure, StoreError) as error:
                self._warn("states", "the lease of states cannot be renewed, trying again", reason=str(error))

    async def renew(self) -> None:
        """Renews the lease. States that have ended meanwhile, here or in the store, end with their sessions."""
        known = [(state, held) for state in self._states.values() if (held := state.held) is not None]
        for state, held in known:
            if not held.calls and not held.server.alive and not state.turn.locked():
                self._end(state)
        if known:
            self._last_held = monotonic()
        elif self._served and monotonic() - self._last_held > SERVED_SECONDS:
            self._served = False
            self.on_served(False)
        for at in range(0, len(known), _BATCH):
            told = []
            for state, held in known[at : at + _BATCH]:
                what: Literal["busy", "idle", "end"] = (
                    "end" if state.held is not held else "busy" if held.calls or state.users else "idle"
                )
                told.append(state.told(held, what))
            for gone in await self._store.keep(self.id, told):
                self._drop(gone)

    async def end_those_over(self) -> None:
        """Ends the states of runs that have ended, once no flow that they have begun uses them any more."""
        held = [(state, held) for state in self._states.values() if (held := state.held) is not None]
        requests = (self._store.over(state.name, held.flows) for state, held in held)
        over = await asyncio.gather(*requests, return_exceptions=True)
        ended = [state for (state, _), is_over in zip(held, over, strict=True) if is_over is True]
        await self._tell_last(self._let_go(ended))

    def forget(self, connection: str) -> Coroutine[Any, Any, None]:
        """Ends all states of a connection whose settings have changed; calls under way are finished.

        Returns:
            What is left to do: the store is told.
        """
        told = self._let_go([state for state in self._states.values() if state.name.connection == connection])
        return self._tell_last(told)

    async def give_up(self, *, for_good: bool = False) -> None:
        """Ends all states, because the worker drains; calls under way are finished.

        Args:
            for_good: whether it makes no further one.
        """
        self._given_up = self._given_up or for_good
        await self._tell_last(self._let_go(list(self._states.values())), last=True)

    async def close(self) -> None:
        self._given_up = True
        for state in self._states.values():
            self._end(state)
        self._states.clear()
        ending = dict(self._ending)
        await asyncio.gather(*(server.close() for server in ending.values()), *ending, return_exceptions=True)

    def _let_go(self, states: list[_State]) -> list[Told]:
        """Ends states and their sessions here; returns what the store is to be told."""
        told = []
        for state in states:
            if state.held is not None:
                told.append(state.told(state.held, "end"))
            # Calls that wait for their turn keep it until they have theirs; later ones begin anew.
            self._end(state)
            if self._states.get(state.name) is state:
                del self._states[state.name]
        return told

    async def _tell_last(self, told: list[Told], *, last: bool = False) -> None:
        if told or last:
            with suppress(ToolFailure, StoreError):  # the lease ends by itself
                await self._store.keep(self.id, told, last=last)

    def _drop(self, gone: Told) -> None:
        """Ends the session of a state that this worker does not have any more."""
        state = self._states.get(gone.name)
        if state is not None and state.held is not None and state.held.number == gone.number:
            self._end(state)
            self._tidy(state)

    def _end(self, state: _State) -> None:
        held, state.held = state.held, None
        if held is None:
            return
        task = asyncio.get_running_loop().create_task(held.server.finish(), name=f"end {state.name.connection}")
        self._ending[task] = held.server
        task.add_done_callback(self._ending.pop)
        self._count()

    def _tidy(self, state: _State) -> None:
        if not state.users and state.held is None and self._states.get(state.name) is state:
            del self._states[state.name]

    def _serve(self) -> None:
        self._last_held = monotonic()
        if not self._served:
            self._served = True
            self.on_served(True)

    def _count(self) -> None:
        STATES_HELD.set(self.held)


class StateCalls:
    """A server that keeps states, as the callers of one of them see it; made for one attempt.

    Args:
        states: those of this worker; None: it has none, like a stock RQ worker, and gives every call back.
        step: the step that calls.
        owned: whether it is known for whom it calls.
        on_outcome: as that of ``DownstreamServer``.
    """

    def __init__(
        self,
        states: States | None,
        name: str,
        connection: Connection,
        step: StepRun,
        owned: bool,
        on_outcome: Callable[[str], None],
    ) -> None:
        self._on_outcome = on_outcome
        self._states = states
        self._name = name
        self._connection = connection
        self._step = step
        self._owner = ANY if connection.state == "shared" else step.state_owner if owned else None
        self._hide: Callable[[str], str] = lambda text: text

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        idempotency_key: str,
        on_progress: Callable[[], None] | None = None,
    ) -> types.CallToolResult:
        if self._owner is None:
            raise CallRefused(
                f"the connection {self._name!r} keeps a state for each caller: it needs an authenticated caller, or "
                "state: shared"
            )
        if self._states is None:
            raise NotHere

        async def make(server: DownstreamServer) -> types.CallToolResult:
            self._hide = server.without_secrets
            return await server.call(tool, arguments, idempotency_key, on_progress)

        name = StateName(self._name, self._step.project, self._owner)
        return await self._states.call(name, self._connection, self._step, make, self._on_outcome)

    def without_secrets(self, text: str) -> str:
        return self._hide(text)


async def _turn(lock: asyncio.Lock) -> None:
    """Takes a lock; the attempt has its full time from then on."""
    clock = timeout.get()
    if not lock.locked() or clock is None:
        await lock.acquire()
        return
    clock.suspend()
    await lock.acquire()
    clock.restart()


async def _answered(reply: Any) -> Any:
    """The answer of the store. Raises NotHere if there is none: nothing was done, and the step comes again."""
    try:
        return await reply
    except ToolFailure as failure:
        if failure.kind == "permanent":
            raise
        raise NotHere from failure
