"""The one reader of the event streams in a process, for any number of listeners.

It holds a connection of its own, in a cluster one to each shard, and reads all projects there that somebody listens to
with one blocking command, so the store does not notice how many listeners there are. A new listener first reads for
itself, over the connection that all calls share, until it has caught up with the reader. Each entry is decoded and
encoded once; an index by id and root finds the listeners that want it, so that events of other trees cost them nothing.

Whenever the connection is a new one, the position in each project is checked against the stream (``position.py``): what
another server lacks, or what was trimmed meanwhile, is reported as a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import Context
from typing import Any

import redis.exceptions
import structlog

from coordinator.errors import ToolFailure
from coordinator.feed import position
from coordinator.feed.cursor import START, Cursor, Entry, entry_of, epoch_of, prefix
from coordinator.feed.events import Event, event_of
from coordinator.feed.filters import Filter
from coordinator.feed.kinds import HIDDEN
from coordinator.feed.listener import Batch, Item, Listener
from coordinator.feed.metrics import GAPS, LAG
from coordinator.metrics.throttled import ThrottledWarnings
from coordinator.service import Service, end_tasks
from coordinator.store import Store, StoreError, keys
from coordinator.store.fences.known import Fenced
from coordinator.store.link.shared import Link

COUNT = 500
"""Entries of a project that are read at a time."""
BLOCK_SECONDS = 0.5
_LATE_SECONDS = 2.0
"""How much longer than that the server may take to answer."""
PACE_SECONDS = 0.02
"""The least time between two reads: what happens in between is read together."""
PAUSE_SECONDS = 0.2
"""The pause before it connects again."""
LINGER_SECONDS = 10.0
"""How long a project is followed after its last listener: clients that poll come back."""


_log = structlog.get_logger(__name__)


Told = Callable[[Entry | None, bool], None]
"""Hears of an entry about an id that it watches (``FeedReader.watch``): the entry's id, and whether only the root of
the item matches. Without an entry: anything may have changed, as entries are missing or another server answers."""


class _Lost(Exception):
    """The connection must not be used any longer."""


class _Followed:
    """A project that is read, and its listeners by what they want."""

    def __init__(self, at: Cursor) -> None:
        self.project = at.project
        self.key = keys.events.key(at.project)
        self.at(at.epoch, at.entry)
        self.left = 0.0
        """When its last listener left; counts while it has none."""
        self.away = False
        """Whether the project was refused when its position was to be checked, which is due once it is not."""
        self.watches: dict[str, set[Told]] = {}
        """Who watches which id."""
        self._groups: dict[Filter, set[Listener]] = {}
        self._by_id: dict[str, set[Filter]] = {}
        self._by_root: dict[str, set[Filter]] = {}
        self._others: set[Filter] = set()

    def at(self, epoch: str, entry: Entry) -> None:
        """Where it is read from on."""
        self.epoch, self.entry, self.cursors = epoch, entry, prefix(self.project, epoch)

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.project, self.epoch, self.entry)

    @property
    def listeners(self) -> Iterator[Listener]:
        return (listener for group in self._groups.values() for listener in group)

    @property
    def idle(self) -> bool:
        """Whether nobody listens or watches."""
        return not self._groups and not self.watches

    @property
    def heard(self) -> bool:
        """Whether somebody listens."""
        return bool(self._groups)

    def tell(self, fields: Mapping[str, str]) -> None:
        """Tells those who watch an id that the entry at the present position is about."""
        if fields.get("k") in HIDDEN:
            return
        for letter in ("i", "o", "R"):
            for watcher in tuple(self.watches.get(fields.get(letter, ""), ())):
                watcher(self.entry, letter == "R")

    def upset(self) -> None:
        """Tells all who watch that anything may have changed."""
        for watcher in {watcher for group in self.watches.values() for watcher in group}:
            watcher(None, False)

    def add(self, listener: Listener) -> None:
        wanted = listener.filter
        group = self._groups.get(wanted)
        if group is None:
            group = self._groups[wanted] = set()
            for places in self._places(wanted):
                places.add(wanted)
        group.add(listener)

    def remove(self, listener: Listener) -> None:
        wanted = listener.filter
        group = self._groups.get(wanted, set())
        group.discard(listener)
        if not group and self._groups.pop(wanted, None) is not None:
            for places in self._places(wanted):
                places.discard(wanted)
            for index, names in ((self._by_id, wanted.ids), (self._by_root, wanted.roots)):
                for name in names:
                    if not index.get(name, True):
                        del index[name]
            self.left = time.monotonic()

    def _places(self, wanted: Filter) -> Iterable[set[Filter]]:
        if wanted.ids:
            return [self._by_id.setdefault(name, set()) for name in wanted.ids]
        if wanted.roots:
            return [self._by_root.setdefault(name, set()) for name in wanted.roots]
        return (self._others,)

    def group(self, wanted: Filter) -> Iterable[Listener]:
        return tuple(self._groups.get(wanted, ()))

    def wanting(self, event: Event) -> list[Filter]:
        """The filters whose listeners get an event."""
        candidates = {*self._others, *self._by_root.get(event.root, ())}
        if self._by_id:
            for name in event.ids:
                candidates.update(self._by_id.get(name, ()))
        return [wanted for wanted in candidates if sees(wanted, event)]


class _ServerReader:
    """A server, and what reads the projects that are there."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()
        """Set when other projects are to be read."""
        self.verified = ""
        """The epoch of the server at which all positions were last checked."""
        self.connects = -1
        self.read_at = 0.0


def sees(wanted: Filter, event: Event) -> bool:
    """Whether a listener with this filter gets the event."""
    if event.kind.name not in wanted.kinds:
        return False
    if wanted.ids and wanted.ids.isdisjoint(event.ids):
        return False
    if wanted.roots and event.root not in wanted.roots:
        return False
    toolset = event.toolset
    if wanted.toolsets is not None and toolset not in wanted.toolsets:
        return False
    return toolset != "flows" or wanted.may_read_flow(event.fields.get("u"), event.approver_roles)


class FeedReader(Service):
    """The feeds of all projects, as this process reads them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followed: dict[str, _Followed] = {}
        self._sources: dict[Link, _ServerReader] = {}
        self._warn = ThrottledWarnings()

    async def position(self, project: str, after: Cursor | None, ids: Sequence[str] = ()) -> position.Slice:
        """Where a listener to a project would begin, and what some ids are (see ``position.Slice``).

        Args:
            after: the cursor that it has; None: now.

        Raises:
            ToolFailure: the store does not answer.
        """
        place = await position.read(self._store, after or Cursor(project, "", START), 0, tuple(ids))
        return place if after is not None else place._replace(position=place.last)

    def listen(self, at: Cursor, wanted: Filter, alone: bool = False) -> Listener:
        """A listener from a position on (``position``); to be closed.

        Args:
            alone: it gets what is in the stream by now, also what this process has not read yet, and nothing later.
        """
        return Listener(at, wanted, self._catch_up, alone)

    async def departed(self, projects: Iterable[str]) -> set[str]:
        """Those of these projects that are served from another store. Raises ToolFailure: the store does not answer."""
        departed, fenced = set[str](), self._store.projects.fenced
        for project in fenced.intersection(projects) if fenced else ():
            try:
                await self._store.projects.checked(project, writes=False)
            except Fenced as fence:
                if fence.for_good:
                    departed.add(project)
        return departed

    def close(self, listener: Listener) -> None:
        """A listener has left."""
        listener.end("gone")
        if not listener.behind and listener.project in self._followed:
            self._followed[listener.project].remove(listener)

    def cursor_of(self, listener: Listener) -> str:
        """The position of a listener that has taken everything, also of events that were not for it."""
        followed = self._followed.get(listener.project)
        if not (listener.behind or listener.alone) and followed is not None and followed.entry >= listener.entry:
            listener.entry, listener.cursors = followed.entry, followed.cursors
        return listener.cursor

    def watch(self, at: Cursor, name: str, watcher: Told) -> None:
        """Calls ``watcher`` for each entry about an item, workflow, session or instance, or an item below it (by its
        root), until ``unwatch``: from the position that the reader has ``reached``, or from this one if the project is
        not read yet."""
        followed = self._followed.get(at.project) or self._follow(at)
        followed.watches.setdefault(name, set()).add(watcher)

    def unwatch(self, project: str, name: str, watcher: Told) -> None:
        followed = self._followed.get(project)
        if followed is not None and name in followed.watches:
            followed.watches[name].discard(watcher)
            if not followed.watches[name]:
                del followed.watches[name]
            followed.left = time.monotonic()

    def reached(self, project: str) -> Cursor | None:
        """Up to where the entries of a project have been told; None: it is not read."""
        followed = self._followed.get(project)
        return None if followed is None else followed.cursor

    async def stop(self, deadline: float = 0.0) -> None:
        await end_tasks(*(source.task for source in self._sources.values() if source.task is not None))

    async def _catch_up(self, listener: Listener) -> list[Item]:
        """Reads on for a listener that is behind; puts it among the others once it is not."""
        at = Cursor(listener.project, _epoch_in(listener.cursors), listener.entry)
        if not listener.alone and at.project in self._followed and self._join(listener, at):
            return []
        missed = await position.read(self._store, at, COUNT)
        items: list[Item] = [] if missed.gap is None else [missed.gap]
        cursors, entry = prefix(listener.project, missed.epoch), missed.position
        for row_id, flat in missed.rows:
            entry = entry_of(row_id)
            event = event_of(listener.project, entry, dict(zip(flat[::2], flat[1::2], strict=False)), cursors)
            if event is not None and sees(listener.filter, event):
                items.append(event)
        listener.cursors, listener.entry = cursors, entry
        if len(missed.rows) < COUNT and listener.alone:
            listener.behind = False
        elif len(missed.rows) < COUNT and listener.ended is None:
            self._join(listener, Cursor(listener.project, missed.epoch, entry))
        return items

    def _join(self, listener: Listener, at: Cursor) -> bool:
        """Puts a listener among those that the reader serves, unless the reader is ahead of it."""
        if not at.epoch:
            return False
        followed = self._followed.get(at.project)
        if followed is None:
            followed = self._follow(at)
        elif followed.entry > at.entry:
            return False
        followed.add(listener)
        listener.behind = False
        return True

    def _follow(self, at: Cursor) -> _Followed:
        followed = self._followed[at.project] = _Followed(at)
        source = self._source_of(at.project)
        if source is not None:
            source.verified = source.verified if source.verified == at.epoch else ""
        self._start(source)
        return followed

    def _source_of(self, project: str) -> _ServerReader | None:
        """Where a project is; None: no server has it now."""
        try:
            link = self._store.link(project)
        except ToolFailure:
            return None
        return self._sources.get(link) or self._sources.setdefault(link, _ServerReader(link))

    def _start(self, source: _ServerReader | None) -> None:
        if source is None:
            return
        source.changed.set()
        if source.task is None or source.task.done():
            # In an empty context, so that its log lines do not carry the id of a request.
            source.task = asyncio.create_task(self._run(source), name="feed reader", context=Context())

    def _at(self, source: _ServerReader) -> list[_Followed]:
        """The projects that are followed and are at a server; those that have moved are read where they are now."""
        here = []
        for followed in self._followed.values():
            other = self._source_of(followed.project)
            if other is source:
                here.append(followed)
            elif other is not None and (other.task is None or other.task.done()):
                self._start(other)
        return here

    async def _run(self, source: _ServerReader) -> None:
        while self._at(source):
            try:
                await self._session(source)
            except (redis.exceptions.RedisError, OSError, TimeoutError, ToolFailure, StoreError, _Lost) as error:
                if not isinstance(error, _Lost):
                    self._warn("lost", "the feed cannot be read", reason=f"{type(error).__name__}: {error}")
                    await asyncio.sleep(PAUSE_SECONDS)
            except Exception:
                _log.exception("a defect of the feed's reader; it goes on")
                await asyncio.sleep(PAUSE_SECONDS)
        del self._sources[source.link]

    async def _session(self, source: _ServerReader) -> None:
        """Reads over one connection, until it breaks or nobody listens any more."""
        client = self._store.further_client(2, self._at(source)[0].project)
        try:
            async with asyncio.timeout(_LATE_SECONDS):
                pool: Any = client.connection_pool
                connection = await pool.get_connection()
            await self._verify(source, connection)
            while self._drop_idle() and (streams := self._at(source)):
                await asyncio.sleep(source.read_at + PACE_SECONDS - time.monotonic())
                if source.connects != source.link.connects:
                    raise _Lost  # calls go to another server now, perhaps
                source.read_at = time.monotonic()
                fenced = self._store.projects.fenced
                suspect = [followed for followed in streams if followed.away or followed.project in fenced]
                await self._check_all(suspect, source.verified)
                await self._dispatch(await self._read(source, streams, connection))
        finally:
            with contextlib.suppress(redis.exceptions.RedisError, OSError):
                await client.aclose()

    async def _read(self, source: _ServerReader, streams: Sequence[_Followed], connection: Any) -> list[Any]:
        """The new entries of projects, by key; none if the projects have changed meanwhile."""
        source.changed.clear()
        words = [stream.key for stream in streams] + [f"{stream.entry[0]}-{stream.entry[1]}" for stream in streams]
        await connection.send_command("XREAD", "COUNT", COUNT, "BLOCK", int(BLOCK_SECONDS * 1000), "STREAMS", *words)
        reading = asyncio.ensure_future(connection.read_response())
        changed = asyncio.ensure_future(source.changed.wait())
        try:
            late = BLOCK_SECONDS + _LATE_SECONDS
            await asyncio.wait((reading, changed), timeout=late, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result() or []
            if changed.done():
                raise _Lost  # a blocked connection takes no other command
            raise TimeoutError("the store is silent")
        finally:
            reading.cancel()
            changed.cancel()
            await asyncio.gather(reading, changed, return_exceptions=True)

    async def _verify(self, source: _ServerReader, connection: Any) -> None:
        """Checks all positions, unless this is the server that they were last checked at."""
        connects = source.link.connects
        await connection.send_command("INFO", "replication")
        lines = (await connection.read_response()).decode().splitlines()
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        epoch = epoch_of(facts.get("master_replid", ""))
        if facts.get("role") != "master":
            raise redis.exceptions.ConnectionError("the server is not the primary")
        if epoch != source.verified or connects != source.connects:
            await self._check_all(self._at(source), epoch)
            for followed in self._at(source):
                followed.upset()
            again = source.connects != -1
            source.verified, source.connects = epoch, connects
            if again:
                self._renew(source)

    def _renew(self, source: _ServerReader) -> None:
        for followed in self._at(source):
            for listener in tuple(followed.listeners):
                if listener.renewed is not None:
                    listener.renewed()

    async def _check_all(self, some: Sequence[_Followed], epoch: str) -> None:
        """Checks positions at the server with this epoch. A project that is refused holds up no others; whoever
        waits in one that is served from another store is told."""
        for followed in some:
            try:
                served_by = await self._check(followed)
            except Fenced as failure:
                followed.away = True
                if failure.for_good:
                    followed.upset()
                continue
            followed.away = False
            if served_by != epoch:
                raise redis.exceptions.ConnectionError("two servers answer: a failover is under way")

    async def _check(self, followed: _Followed) -> str:
        """Checks the position in a project, and reports a gap to its listeners. Returns the server's epoch."""
        place = await position.read(self._store, followed.cursor, 0)
        followed.at(place.epoch, place.position)
        if place.gap is not None:
            GAPS.labels(place.gap.reason).inc()
            followed.upset()
            for listener in followed.listeners:
                if listener.entry >= place.position and (
                    place.gap.reason == "trimmed"
                    or (place.gap.reason == "failover" and listener.cursors == followed.cursors)
                ):
                    continue  # it joined ahead of the reader, perhaps after a look at this very server
                listener.entry, listener.cursors = place.position, followed.cursors
                listener.push(place.gap)
        return place.epoch

    def _drop_idle(self) -> bool:
        """Follows no project any longer that nobody listens to; returns whether there is one that is followed."""
        now = time.monotonic()
        for project, followed in list(self._followed.items()):
            if followed.idle and now - followed.left > LINGER_SECONDS:
                del self._followed[project]
        return bool(self._followed)

    async def _dispatch(self, reply: list[Any]) -> None:
        for key, rows in reply:
            followed = self._followed.get(_project_of(key))
            if followed is None:
                continue
            if len(rows) >= COUNT:
                # So much came at once that entries before these may have been trimmed; XREAD does not tell.
                await self._check(followed)
            self._deliver(followed, rows)

    def _deliver(self, followed: _Followed, rows: Sequence[Any]) -> None:
        """Gives the listeners of a project what is for them."""
        batches: dict[Filter, Batch] = {}
        first = 0
        for row_id, flat in rows:
            followed.entry = entry_of(row_id.decode())
            if followed.idle:
                continue
            fields = _fields(flat)
            if followed.watches:
                followed.tell(fields)
            if not followed.heard:
                continue
            event = event_of(followed.project, followed.entry, fields, followed.cursors)
            if event is None:
                continue
            for wanted in followed.wanting(event):
                first = first or followed.entry[0]
                if wanted in batches:
                    batches[wanted].events.append(event)
                else:
                    batches[wanted] = Batch([event])
        if batches:
            lag = max(0.0, time.time() - first / 1000)
            for wanted, batch in batches.items():
                for listener in followed.group(wanted):
                    listener.give(batch)
            LAG.observe(lag)


def _fields(flat: Sequence[bytes]) -> Mapping[str, str]:
    return {flat[n].decode(): flat[n + 1].decode(errors="replace") for n in range(0, len(flat), 2)}


def _project_of(key: bytes) -> str:
    return key[4 : key.index(b"}")].decode()


def _epoch_in(cursors: str) -> str:
    return cursors[8:-1]
