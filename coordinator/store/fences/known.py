"""Fences: a project that is being copied to another store is refused here, and so is one that has left.

The fence is a key of the project: the id of the copy and how far that is (``State``). A script must not run on a fenced
project, but in normal times it must not pay for the question either. So each function library has a second variant, in
which every function looks for the fence first, in the same atomic step (``libraries/build.py``). Which variant is in
use is stated by a *generation* among the keys of the fleet: '' means the usual one, anything else the one that looks.

Whoever copies a project sets the generation, then replaces the functions of all servers, lists them again until none
of the usual variant is left, and only then sets the fence (``copies.py``). A process that finds a
function missing asks for the generation after that, loads the variant that is wanted, and asks again. It cannot undo
the copier's work by being late, because a server does not take the usual variant of a library beside the other.

Processes also remember which projects are fenced, so that they refuse those that have left without a call, when the
functions no longer look. They learn that from a counter of changes: on each new connection, and once a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, get_args

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.errors import ServerError
from coordinator.store.link.clients import Ask

State = Literal["leaving", "reserved", "arriving", "copy", "moved"]
"""leaving: it is being copied from here. reserved: it is about to be copied to here, unless there is one already.
arriving: it is being copied to here, and all that is here of it is of the copy. copy: it is a copy of a project that is
served elsewhere. moved: it was here."""

CHANGES, GENERATION = "n", "g"
"""Fields of the store's identity: how often projects were fenced or released, and the generation of functions."""
UNKNOWN = "0"
"""The generation of functions that were loaded while the fleet's keys could not be read: they look, to be safe."""
RETRY_MS = 1_000
_KEY = keys.identity.key(keys.FLEET)

_WHY: dict[State, str] = {
    "leaving": "is being copied to another store",
    "reserved": "is being copied to this store",
    "arriving": "is being copied to this store",
    "copy": "is a copy here, which is not served: the fleet of another store has the project",
    "moved": "was moved to another store, and is no longer here",
}


class Fenced(ToolFailure):
    """The project is refused; its shard is not at fault."""

    def __init__(self, project: str, state: str) -> None:
        known: State = next((one for one in get_args(State) if one == state), "leaving")
        self.for_good = known in ("copy", "moved")
        """Whether only an operator can bring the project back here."""
        retry = 10 * RETRY_MS if self.for_good else RETRY_MS
        super().__init__("project_away", f"the project {project} {_WHY[known]}; nothing was done", retry_after_ms=retry)


class KnownFences:
    """What a process knows of fences.

    Args:
        now_fenced: called with the projects that may be fenced.
        sharded: whether the store is a cluster, so that the fleet's keys can be away while others are not.
        send: sends a command to the shard of a hash tag.
        ask: asks the shard with the fleet's keys.
    """

    def __init__(
        self, now_fenced: Callable[[set[str]], None], sharded: bool, send: Callable[..., Awaitable[Any]], ask: Ask
    ) -> None:
        self._now_fenced = now_fenced
        self._sharded = sharded
        self._send = send
        self._ask = ask
        self.changes = ""
        """How often projects were fenced or released, as far as this process has heard."""

    async def look(self) -> None:
        """Learns of projects that were fenced or released. Raises ToolFailure, ServerError as ``Store.command``."""
        found = await self._send(keys.FLEET, "HGET", _KEY, CHANGES)
        await self.heard((found or b"").decode(), self._ask)

    async def heard(self, changes: str, ask: Ask) -> None:
        """The store says how often projects were fenced or released: reads which ones, if that is news.

        Raises ToolFailure, ServerError.
        """
        if changes == self.changes:
            return
        # The number first: what changes in between is seen the next time.
        replies = await ask([("HGET", _KEY, CHANGES), ("HKEYS", keys.fenced_projects.key(keys.FLEET))])
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        found, projects = replies
        self.changes = (found or b"").decode()
        self._now_fenced({project.decode() for project in projects})

    async def generation(self) -> str:
        """The generation of functions. Raises ToolFailure: the one server does not answer."""
        try:
            found = await self._send(keys.FLEET, "HGET", _KEY, GENERATION)
        except ServerError:
            return UNKNOWN
        except ToolFailure:
            if not self._sharded:
                raise
            return UNKNOWN
        return (found or b"").decode()
