"""The shards of a cluster: which node has a project's keys, and one ``Link`` to each primary.

A project's keys share a hash tag, so they are in one slot and one node has them all. The map of slots comes from a node
that is chosen at random, but not from the one that is in doubt. It is read when the store is opened, every
``REFRESH_SECONDS``, when a link is lost, and when a node says that it does not have a slot (MOVED). A map that is
empty, or older than the one known, is not believed: nodes that were removed from the cluster go on answering.

A connection to a node is only used if another node still names it as the owner of slots: a primary that was paused
during a failover answers again when it resumes, and the writes that it acknowledges then are lost.

A slot that is being moved key by key (ASK) is refused, and never asked for at its new node before it is there as a
whole: scripts would run there on a part of the project's keys.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Any, ClassVar

import structlog
from redis.exceptions import RedisError

from coordinator.errors import ToolFailure
from coordinator.service import end_tasks
from coordinator.store import keys
from coordinator.store.errors import AccessRefused, ServerError, StoreError, StoreUnreachable
from coordinator.store.link.address import Address, Place
from coordinator.store.link.clients import Ask, Confirm, Resolver
from coordinator.store.link.replies import mapping, unavailable
from coordinator.store.link.shared import Link
from coordinator.store.link.slot_map import SLOTS, Map, read_map, slot_of, unanswered
from coordinator.store.metrics import MAPS, REDIRECTS, SHARD_AWAY, SLOTS_UNCOVERED, TORN

_log = structlog.get_logger(__name__)

REFRESH_SECONDS = 30.0
_REDIRECTS_MOST = 3
_APART_SECONDS = 0.1
"""The shortest time between two questions for the map."""
MakeLink = Callable[[Address, Resolver, Confirm], Link]


class OneServer:
    """What ``Shards`` offers, where one server has everything."""

    def __init__(self, link: Link) -> None:
        self.links = [link]
        self.close = link.close

    async def open(self, partly: bool) -> None:
        """Connects. Raises as ``Link.open``."""
        await self.links[0].open()

    def of(self, slot: int) -> Link:
        """The link."""
        return self.links[0]

    def number_of(self, slot: int) -> int:
        """As ``Shards.number_of``."""
        return 0

    tags: ClassVar = {"": keys.FLEET}
    """As ``Shards.tags``."""
    uncovered = 0
    """As ``Shards.uncovered``."""

    def tag_on(self, link: Link) -> str:
        """As ``Shards.tag_on``."""
        return keys.FLEET

    def doubt(self, place: Place | None = None) -> None:
        """There is no map."""

    def keep_trying(self) -> None:
        """As ``Shards.keep_trying``: the link is there."""

    def report(self) -> None:
        """There are no shards."""

    async def moved(self, slot: int, place: Place) -> Link:
        """Raises ToolFailure: the server belongs to a cluster."""
        raise unavailable("belongs to a cluster: its URL must begin with redis+cluster://; nothing was sent")


class Shards:
    """The links to all primaries of a cluster.

    Args:
        address: some of its nodes, and the credentials for all.
        timeout: seconds that a node may take to answer.
        make_link: makes the link to a node, not connected yet.
        on_change: called when slots have changed their owner.
    """

    def __init__(self, address: Address, timeout: float, make_link: MakeLink, on_change: Callable[[], None]) -> None:
        self._address = address
        self._timeout = timeout
        self._make_link = make_link
        self._on_change = on_change
        self._links: dict[str, Link] = {}
        self._places: dict[str, Place] = {}
        self._owners: list[str] = [""] * SLOTS
        self._numbers: dict[str, int] = {}
        self._nodes: frozenset[Place] = frozenset(address.nodes)
        self._epoch = 0
        self._missed: list[Link] = []
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed = 0.0
        self._why: StoreError = StoreUnreachable()
        """Why the last node that was asked for the map did not answer."""
        self._repeating: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[Any]] = set()

    @property
    def links(self) -> list[Link]:
        """Those of all primaries that have slots."""
        return list(self._links.values())

    def of(self, slot: int) -> Link:
        """The link to the node that has a slot.

        Raises:
            ToolFailure: store_unavailable: no node has it.
        """
        link = self._links.get(self._owners[slot])
        if link is None:
            self.doubt()
            raise unavailable("has no node for these keys; nothing was sent")
        return link

    def number_of(self, slot: int) -> int:
        """The number of the shard that has a slot, from 0 in the order of their first slots; -1: none has it.

        All processes give a shard the same number, and it keeps it when a replica takes over.
        """
        return self._numbers.get(self._owners[slot], -1)

    def report(self) -> None:
        """Reports the present state to the metrics."""
        away = {number: not self._links[node].connected for node, number in self._numbers.items()}
        SHARD_AWAY.set_all({(str(shard),): float(gone) for shard, gone in away.items()})
        SLOTS_UNCOVERED.set(self.uncovered)

    @property
    def uncovered(self) -> int:
        """How many slots no node has."""
        return self._owners.count("")

    @property
    def tags(self) -> dict[str, str]:
        """For each shard, by the place of its primary, a hash tag whose keys are there."""
        places = {node: f"{host}:{port}" for node, (host, port) in self._places.items()}
        return {places[node]: self.tag_on(link) for node, link in self._links.items()}

    def tag_on(self, link: Link) -> str:
        """A hash tag whose keys are on the shard of a link."""
        return next(tag for tag in map("s{}".format, itertools.count()) if self.of(slot_of(tag)) is link)

    async def open(self, partly: bool) -> None:
        """Learns the map, and connects to all primaries; those that do not accept us are left to ``keep_trying``.

        Args:
            partly: any primary is enough; else that with the keys of the fleet must accept us.

        Raises:
            AddressError: it is no cluster.
            AccessRefused: it refuses our user or password.
            StoreUnreachable: no node answers with a map, or no primary accepts us, or not the one that must.
            ToolFailure: store_unavailable: no node has the keys of the fleet.
        """
        for counter in (REDIRECTS, MAPS, TORN):
            counter.cells.start_at_zero()
        await self._refresh(None)
        if not self._links:
            raise type(self._why)(f"no node of {self._address} answers with a map of its slots: {self._why}")
        found = await asyncio.gather(*(link.open() for link in self.links), return_exceptions=True)
        failed = [one for one in found if isinstance(one, BaseException)]
        if len(failed) == len(found):
            raise failed[0]
        if not partly and (why := found[self.links.index(self.of(slot_of(keys.FLEET)))]) is not None:
            kind = AccessRefused if isinstance(why, AccessRefused) else StoreUnreachable
            raise kind(f"the shard with the keys of the fleet does not answer: {why}")
        self._missed = [link for link, outcome in zip(self.links, found, strict=True) if outcome is not None]
        self._repeating = asyncio.get_running_loop().create_task(self._repeat(), name="store-shards")

    def keep_trying(self) -> None:
        """Connects to the primaries that ``open`` could not connect to, as soon as they accept us."""
        for link in self._missed:
            if link in self.links:  # a map that was read meanwhile may not have it
                link.begin()
        self._missed.clear()

    async def close(self) -> None:
        await end_tasks(*filter(None, (self._repeating, self._refreshing)))
        await asyncio.gather(*(link.close() for link in self.links), *self._leaving)

    def doubt(self, place: Place | None = None) -> asyncio.Task[None]:
        """Has the map read again, from another node than the one at a place."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh(place), name="store-shards map")
        return self._refreshing

    async def moved(self, slot: int, place: Place) -> Link:
        """The link to the node that has a slot now, as another node says (MOVED).

        Args:
            place: of that node; without a host: that of the known owner.

        Raises:
            ToolFailure: store_unavailable: it cannot be found.
        """
        host = place[0] or self._places.get(self._owners[slot], ("", 0))[0]
        for node, known in self._places.items():
            if known == (host, place[1]) and node in self._links:
                if self._owners[slot] != node:
                    self._owners[slot] = node
                    self._on_change()
                    self.doubt()
                return self._links[node]
        await asyncio.shield(self.doubt())
        return self.of(slot)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS * random.uniform(0.8, 1.2))
            await asyncio.shield(self.doubt())

    async def _refresh(self, doubted: Place | None) -> None:
        """Reads the map from the first node that answers; the one in doubt is asked last."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._refreshed + _APART_SECONDS * random.uniform(1.0, 1.5) - loop.time()))
        known = sorted(self._nodes, key=lambda _: random.random())
        others = sorted(set(self._address.nodes) - self._nodes, key=lambda _: random.random())
        places = sorted(known, key=lambda place: place == doubted) + others
        for place in places:
            found = await self._ask(place)
            if found is not None and self._adopt(found):
                break
        self._refreshed = loop.time()
        MAPS.inc()

    async def _ask(self, place: Place) -> Map | None:
        try:
            return await read_map(self._address, place, self._timeout)
        except (RedisError, OSError, ValueError) as error:
            self._why = unanswered(error, self._timeout)
            _log.debug("a node of the store does not answer with a map", reason=str(self._why))
            return None

    def _adopt(self, found: Map) -> bool:
        """Takes over a map, unless it is empty or older than the known one; returns whether it did."""
        if not found.ranges or found.epoch < self._epoch:
            self._why = StoreUnreachable("its map is out of date" if found.ranges else "it has no slots")
            return False
        self._epoch = found.epoch
        owners, places = [""] * SLOTS, {}
        for one in found.ranges:
            owners[one.first : one.last + 1] = [one.node] * (one.last - one.first + 1)
            places[one.node] = one.place
        self._nodes = found.nodes
        if owners == self._owners and places == self._places:
            return True
        before, self._owners, self._places = self._links, owners, places
        self._numbers = {node: number for number, node in enumerate(dict.fromkeys(filter(None, owners)))}
        self._links = {node: before.get(node) or self._link_to(node) for node in places}
        for node, link in before.items():
            if node not in places:
                self._leave(link)
        self._on_change()
        return True

    def _leave(self, link: Link) -> None:
        task = asyncio.get_running_loop().create_task(link.close(), name="store-shards link")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _link_to(self, node: str) -> Link:
        async def resolve() -> Address:
            place = self._places.get(node)
            if place is not None and self._repeating is not None:  # the link was lost
                await asyncio.shield(self.doubt(place))
                place = self._places.get(node)
            if place is None:
                raise StoreUnreachable(f"a node of {self._address} has no slots any more")
            return self._address.of_node(place)

        async def confirm(_: Address, ask: Ask) -> bool | None:
            (named,) = await ask([("CLUSTER", "MYID")])
            if isinstance(named, ServerError) or named.decode() != node:
                return False
            return await self._confirmed(node)

        link = self._make_link(self._address.of_node(self._places[node]), resolve, confirm)
        if self._repeating is not None:  # the others are open already
            link.begin()
        return link

    async def _confirmed(self, node: str) -> bool | None:
        """Whether another node names this one as the owner of slots; None: none answers. A single node needs nobody."""
        others = [place for place in self._nodes if place != self._places.get(node)]
        if not others:
            return True
        asking = [asyncio.ensure_future(self._ask(place)) for place in random.sample(others, min(3, len(others)))]
        try:
            for answer in asyncio.as_completed(asking, timeout=self._timeout):
                found = await answer
                if found is not None and found.ranges and found.epoch >= self._epoch:
                    return any(one.node == node for one in found.ranges)
        except TimeoutError:
            pass
        finally:
            for one in asking:  # a cancelled redis-py client may leave its socket open
                self._leaving.add(one)
                one.add_done_callback(self._leaving.discard)
        return None


async def node_timeout(link: Link) -> float | None:
    """After how many seconds of silence the nodes of a cluster call one down; None: that cannot be read."""
    with contextlib.suppress(ToolFailure, ServerError):
        found = await link.execute("CONFIG", "GET", "cluster-node-timeout")
        return int(mapping(found).get(b"cluster-node-timeout", 0)) / 1000 or None
    return None


def redirect(error: ServerError) -> tuple[int, Place] | None:
    """Where a slot is, if the reply says that another node has it (MOVED); the host may be empty."""
    words = str(error).split()
    if len(words) != 3 or words[0] != "MOVED" or not words[1].isdigit():
        return None
    host, _, port = words[2].rpartition(":")
    return (int(words[1]), (host, int(port))) if port.isdigit() else None


async def resend(shards: OneServer | Shards, command: bytes, error: ServerError) -> Any:
    """Sends a command again that did not run, because another shard has its keys now.

    Returns:
        The reply of that shard, or the error if it is another one.

    Raises:
        ToolFailure: as ``Link.submit``.
    """
    for _ in range(_REDIRECTS_MOST):
        to = redirect(error)
        if to is None:
            return error
        REDIRECTS.labels("moved").inc()
        reply = await (await shards.moved(*to)).submit(command)
        if type(reply) is not ServerError:
            return reply
        error = reply
    return error
