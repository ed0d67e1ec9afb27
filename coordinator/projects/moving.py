"""Moves a project to another shard of its cluster, with the slot of its keys, and so with all projects in that slot.

Where the servers can move a slot as a whole (Valkey 9, Redis 8.4), they do: the project is served until the end. Else
it is moved key by key, and away meanwhile: nobody is answered from half its keys (``store/cluster/shards.py``). That
way, the state of a move is in the nodes, so one that was interrupted is continued by whoever moves the project next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from coordinator.projects.errors import NotPossible, ProjectProblem
from coordinator.store import Store, keys
from coordinator.store.cluster.facts import ClusterFacts, NodeFacts, ask_node, read_cluster
from coordinator.store.cluster.places import listed
from coordinator.store.fences.copies import Fencing
from coordinator.store.link.address import Address
from coordinator.store.link.replies import mapping
from coordinator.store.link.slot_map import slot_of
from coordinator.store.projects.lists import noted
from coordinator.wording import counted

NODE_SECONDS = 2.0
"""How long a node may take to say how it is."""
STALL_SECONDS = 60.0
"""How long a node may take for anything else: it may be busy with deleting the slot that it gave away."""
BATCH = 100
"""Keys that are moved at once, key by key."""
MANY = 50_000
"""From so many keys on, the shard may be slow to answer for a moment, and is warned about."""
STALL_US = 10
"""About how long a shard is busy at most for each key of a slot that it gives away as a whole."""
_LOOK_SECONDS = 0.1
_ENDED = ("success", "failed", "cancelled", "completed", "canceled")

Say = Callable[[str], None]


async def move(address: Address, store: Store, project: str, to: int, say: Say) -> str:
    """Moves a project to the shard with a number; returns what was done."""
    return await _Move(address, store, project, to, say).run()


class _Move:
    def __init__(self, address: Address, store: Store, project: str, to: int, say: Say) -> None:
        self._address, self._store, self._project, self._to, self._say = address, store, project, to, say
        self._slot = slot_of(project)
        self._facts = ClusterFacts(nodes=[])

    async def run(self) -> str:
        source, target = await self._look()
        if self._slot in (slot_of(keys.FLEET), slot_of(keys.QUEUE)):
            self._say("the slot of the project also has keys of the fleet")
        others = sorted(name for name in await self._known() if slot_of(name) == self._slot and name != self._project)
        if others:
            self._say(f"in the same slot, and moved with it: {', '.join(others)}")
        await self._store.load_functions()
        began = time.monotonic()
        if str(self._slot) in source.moving:
            halfway = self._node(source.moving[str(self._slot)].removeprefix("to "))
            self._say(f"an interrupted move to shard {halfway.shard} is completed first")
            await self._by_keys(source, halfway)
            source, target = await self._look()
        number = 0
        if source.id != target.id:
            number = await self._command(source, "CLUSTER", "COUNTKEYSINSLOT", self._slot)
            way = await self._way(source)
            if way != self._by_keys:
                self._warn(source, number)
            await way(source, target)
            await self._arrived(target)
        self._store.look_for_moves()
        took = time.monotonic() - began
        return f"the project {self._project} is on shard {self._to}: {counted(number, 'key')} moved in {took:.1f} s"

    # --- what there is

    async def _look(self) -> tuple[NodeFacts, NodeFacts]:
        """The primaries that have the slot and shall have it. Raises ProjectProblem: the cluster is not in order."""
        self._facts = facts = await read_cluster(self._address, NODE_SECONDS)
        primaries = facts.primaries
        if self._to not in {node.shard for node in primaries}:
            there = ", ".join(str(node.shard) for node in primaries)
            raise NotPossible(f"--to: there is no shard {self._to}; there are: {there}")
        away = [node.place for node in primaries if node.away]
        unwell = [node.place for node in primaries if not node.away and node.state != "ok"]
        if away or unwell or facts.uncovered:
            why = f"no answer from {', '.join(away)}" if away else f"state at {', '.join(unwell) or 'all nodes'}"
            raise ProjectProblem(f"the cluster is not in order ({why}): see `fleet cluster status`")
        own = str(self._slot)
        opened = {slot for node in primaries for slot in node.moving if slot != own}
        if opened:
            raise ProjectProblem(f"the slot {min(opened)} is being moved: end that first (`fleet cluster status`)")
        if not any(node.moving for node in primaries) and await self._fenced():
            raise ProjectProblem(f"the project {self._project} is being copied: end that first")
        shard = facts.shard_of(self._project)
        by_shard = {node.shard: node for node in primaries}
        return by_shard[shard], by_shard[self._to]

    async def _fenced(self) -> bool:
        return (await Fencing(self._store).found(self._project))[1] in ("leaving", "reserved", "arriving")

    async def _known(self) -> set[str]:
        return await noted(self._store) | await listed(self._store.command_of)

    def _node(self, place: str) -> NodeFacts:
        nodes = [node for node in self._facts.primaries if node.place == place]
        if not nodes:
            raise ProjectProblem(
                f"the slot {self._slot} is being moved to {place}, which has no slots: close it with CLUSTER SETSLOT"
            )
        return nodes[0]

    def _warn(self, source: NodeFacts, number: int) -> None:
        """Says what a large project does to its shard."""
        if number < MANY:
            return
        stall_ms = number * STALL_US / 1000
        limits = [f"redis_timeout_ms of the fleet's processes (calls of all projects of shard {source.shard} may fail)"]
        limit = source.config.get("cluster-node-timeout", "")
        if limit.isdigit() and stall_ms > int(limit) / 2:
            limits.append(f"cluster-node-timeout, {limit} ms (its replica may take over)")
        stalls = f"at the end, shard {source.shard} answers no call for up to about {stall_ms:.0f} ms"
        self._say(f"{number} keys: {stalls}; compare that with {', and '.join(limits)}")

    # --- as a whole

    async def _way(self, source: NodeFacts) -> Callable[[NodeFacts, NodeFacts], Any]:
        known = {line.upper().partition(b" ")[0] for line in await self._command(source, "CLUSTER", "HELP")}
        if b"MIGRATESLOTS" in known:
            return self._by_migrateslots
        return self._by_import if b"MIGRATION" in known else self._by_keys

    async def _by_migrateslots(self, source: NodeFacts, target: NodeFacts) -> None:
        """Valkey: the source sends it."""
        list_ = ("CLUSTER", "GETSLOTMIGRATIONS")
        running = [job for job in await self._jobs(source, *list_) if job[b"state"].decode() not in _ENDED]
        if not running:
            words = ("SLOTSRANGE", self._slot, self._slot, "NODE", target.id)
            await self._command(source, "CLUSTER", "MIGRATESLOTS", *words)
        await self._ended(source, b"message", *list_)

    async def _by_import(self, source: NodeFacts, target: NodeFacts) -> None:
        """Redis: the target fetches it."""
        list_ = ("CLUSTER", "MIGRATION", "STATUS", "ALL")
        running = [job for job in await self._jobs(target, *list_) if job[b"state"].decode() not in _ENDED]
        if not running:
            await self._command(target, "CLUSTER", "MIGRATION", "IMPORT", self._slot, self._slot)
        await self._ended(target, b"last_error", *list_)

    async def _jobs(self, node: NodeFacts, *words: str) -> list[dict[bytes, bytes]]:
        """What a node says of moves of the slot, the newest first."""
        span = f"{self._slot}-{self._slot}".encode()
        jobs = [mapping(reply) for reply in await self._command(node, *words)]
        mine = [job for job in jobs if span in (job.get(b"slot_ranges"), job.get(b"slots"))]
        return sorted(mine, key=lambda job: -int(job[b"create_time"]))

    async def _ended(self, node: NodeFacts, reason: bytes, *words: str) -> None:
        while True:
            newest = next(iter(await self._jobs(node, *words)), None)
            state = newest[b"state"].decode() if newest else "lost"
            if state in ("success", "completed"):
                return
            if newest is None or state in _ENDED:
                why = newest.get(reason, b"").decode(errors="replace") if newest else ""
                raise ProjectProblem(f"the move has {state}{f': {why}' if why else ''}; the project is where it was")
            await asyncio.sleep(_LOOK_SECONDS)

    # --- key by key

    async def _by_keys(self, source: NodeFacts, target: NodeFacts) -> None:
        slot = self._slot
        self._say("moving key by key: callers of the project are told to retry meanwhile")
        try:
            await self._command(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        except ProjectProblem as failure:
            if "already the owner" not in str(failure):
                raise  # else the move was interrupted at its very end
        await self._command(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        words: list[Any] = ["MIGRATE", *target.at, "", 0, round(STALL_SECONDS * 1000)]
        if self._address.username:
            words += ["AUTH2", self._address.username, self._address.password]
        elif self._address.password:
            words += ["AUTH", self._address.password]
        while names := await self._command(source, "CLUSTER", "GETKEYSINSLOT", slot, BATCH):
            await self._command(source, *words, "KEYS", *names)
        for node in (target, source):  # the target first: until then, the source would take it back
            await self._command(node, "CLUSTER", "SETSLOT", slot, "NODE", target.id)
        await self._arrived(target)

    async def _arrived(self, target: NodeFacts) -> None:
        """Waits until all primaries know who has the slot."""
        deadline = time.monotonic() + STALL_SECONDS
        while True:
            facts = await read_cluster(self._address, STALL_SECONDS)
            primaries = facts.primaries
            owner = next((node for node in primaries if node.shard == facts.shard_of(self._project)), None)
            if owner is not None and owner.id == target.id and not any(node.differs for node in primaries):
                return
            if time.monotonic() > deadline:
                raise ProjectProblem(
                    f"the nodes do not agree about the slot {self._slot}: see `fleet cluster status`, and move again"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _command(self, node: NodeFacts, *words: Any) -> Any:
        """The reply of a node. Raises ProjectProblem."""
        try:
            return await ask_node(self._address, node.at, STALL_SECONDS, words)
        except (RedisError, OSError, ValueError) as error:
            text = str(error) or f"no answer within {STALL_SECONDS:.0f} s"
            if "BUSYKEY" in text:
                text = "the other shard has stray keys of this slot (`fleet doctor` counts them): delete those first"
            raise ProjectProblem(f"{node.place} refuses {' '.join(map(str, words[:3]))[:40]}: {text}") from None
