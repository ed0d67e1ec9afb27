"""Audits a project: checks that all indexes and counters agree with its items.

Readiness, ranks, counts and claims are kept in indexes and counters beside the items, and changed in the same script as
their cause (``coordinator.toolsets.items``). ``audit`` recomputes them and reports every difference. It changes
nothing, except that it settles debts (``lua/changes/debts.lua``). It may run while the project is in use: it walks the
keys in slices (SCAN), and checks each key on a consistent snapshot. The counters of lapsed claims cover the whole
project, so they are checked only if nothing has changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from coordinator.errors import ToolFailure
from coordinator.store import Script, ServerError, Store, keys
from coordinator.store.link import Link
from coordinator.toolsets.items.audit_report import Difference, Report
from coordinator.toolsets.items.rules import recount, recount_times
from coordinator.toolsets.items.rules import recount_usage as usage
from coordinator.toolsets.items.rules.resources import demanded_by, demanded_text, held_by, held_text
from coordinator.toolsets.items.store.base import LIBRARY, SETTLE

_pack = msgspec.msgpack.Encoder().encode
_MOMENT = Script(LIBRARY, "read_moment", list[Any])
_TRIES = 8
_BENEATH = keys.beneath.suffix
_ITEM, _EDGES, _NOTES, _NOTE = (family.suffix for family in (keys.item, keys.edges, keys.notes, keys.note))
_BY_TIME = keys.retries, keys.backoffs, keys.postponed, keys.quarantined, keys.due, keys.recurring
"""Indexes of items by a time."""
RECORD = b"\xff"
"""What precedes the name of an agent in the field of its record (``lua/agents/agents.lua``)."""
RATE = "~"
"""What precedes a key in the field of its units per minute (``lua/resources/resources.lua``)."""
SLICE = 100
"""How many subjects one script run checks, to keep a run around a millisecond."""

Read = tuple[str, ...]
"""A command, the key without the project's prefix, further arguments."""


class _Subject(NamedTuple):
    """One subject to check."""

    key: str
    first: list[Read]
    """The first reads."""
    extra_reads: Callable[[list[Any]], list[Read]]
    """Further reads, given the replies to ``first``."""
    judge: Callable[[list[Any], list[Any]], Iterable[str]]
    """The problems, given both replies."""


async def audit(store: Store, project: str) -> Report:
    """Audits one project.

    Takes time in proportion to the number of keys in the server, and memory in proportion to the project's lapsed
    claims.

    In a cluster, it starts again if the project moves to another node meanwhile: SCAN finds nothing on the old one.

    Raises:
        ToolFailure: ``store_unavailable``, also if the project moves again and again, or VALIDATION_ERROR for a bad
            project name.
    """
    for _ in range(_TRIES):
        try:
            return await _Audit(store, project).run()
        except _Moved:
            continue
    raise ToolFailure("store_unavailable", f"the project {project} is being moved: audit it later", retry_after_ms=5000)


class _Moved(Exception):
    """The keys of the project are on another node than at the beginning, or not all of them are on this one."""


class _Audit:
    def __init__(self, store: Store, project: str) -> None:
        self._store = store
        self._project = project
        self._prefix = keys.project_prefix(project)
        self._report = Report()
        self._found: set[Difference] = set()
        self._claimed: dict[str, list[str]] = {}
        self._requiring: dict[str, str] = {}
        self._occurrences: dict[str, str] = {}
        self._demanding: dict[str, str] = {}
        self._holding: dict[str, str] = {}
        self._used: dict[str, usage.Used] = {}
        self._now = 0
        self._pinned: tuple[Link, int] | None = None
        """In a cluster, the connection to the project's node."""
        self._subjects: dict[str, Callable[[str, str], _Subject]] = {
            _ITEM: self._item,
            keys.text.suffix: self._owned,
            _NOTE: self._note,
            keys.dependency.suffix: self._dependency,
            keys.queue.suffix: self._queue,
            keys.answered.suffix: self._answered,
        }
        self._walkers: dict[str, Callable[[str, str], AsyncIterator[_Subject]]] = {
            _EDGES: self._edges,
            _NOTES: self._notes,
            keys.ranked.suffix: self._ranked,
            keys.beneath.suffix: self._beneath,
            keys.prefixes.suffix: self._bucket,
            keys.leases.suffix: self._leases,
            keys.abandoned.suffix: self._listed,
            **{family.suffix: self._listed for family in _BY_TIME},
            keys.apart.suffix: self._sets,
            keys.agents.suffix: self._agents,
            keys.agent_seen.suffix: self._seen,
            keys.usage_ranked.suffix: self._listed,
            keys.spent_budgets.suffix: self._spent,
        }

    async def run(self) -> Report:
        before = await self._last_event()
        pending: list[_Subject] = []
        async for page in self._pages("SCAN", "MATCH", self._prefix + b"*"):
            async for subject in self._subjects_of(page):
                pending.append(subject)
                if len(pending) == SLICE:
                    await self._judge(pending)
                    pending = []
        await self._judge(pending)
        counters = [
            *await self._lapsed_counters(),
            *await self._requiring_counters(),
            *await self._open_counters(),
            *await self._resource_counters(),
            *await self._sums_of_usage(),
        ]
        if await self._last_event() == before:
            self._found.update(counters)
        else:
            self._report.counters_judged = False
        self._report.claims = len(self._claimed)
        self._report.differences = sorted(self._found)
        return self._report

    # --- reading

    async def _moment(self, reads: list[Read]) -> list[Any]:
        return await self._store.run(_MOMENT, self._project, _pack(reads)) if reads else []

    async def _settle(self) -> None:
        while not await self._store.run(SETTLE, self._project):
            pass

    async def _subjects_of(self, page: list[bytes]) -> AsyncIterator[_Subject]:
        """The subjects of some keys."""
        walks = []
        for key in page:
            name = key.removeprefix(self._prefix).decode()
            suffix, _, rest = name.partition(":")
            if suffix in self._subjects:
                yield self._subjects[suffix](name, rest)
            elif suffix in self._walkers:
                walks.append(self._walkers[suffix](name, rest))
        # Most keys are small and come whole with their first read, so these reads are sent together.
        firsts = await asyncio.gather(*(anext(walk, None) for walk in walks))
        for first, walk in zip(firsts, walks, strict=True):
            if first is not None:
                yield first
                async for subject in walk:
                    yield subject

    async def _pages(self, command: str, *words: str | bytes) -> AsyncIterator[list[bytes]]:
        """The replies of SCAN; with a key, of HSCAN or ZSCAN: fields and values in turn."""
        head, options = (words[:1], words[1:]) if command != "SCAN" else ((), words)
        cursor: bytes | str = "0"
        read = self._scan_pinned if self._store.sharded and command == "SCAN" else self._store.command
        while True:
            cursor, elements = await read(command, *head, cursor, *options, "COUNT", SLICE)
            yield elements
            if cursor == b"0":
                return

    async def _scan_pinned(self, *words: str | bytes | int) -> Any:
        """Scans the node that has had the project from the beginning. Raises ``_Moved``: it may not have all of it."""
        link = self._store.link(self._project)
        pinned = self._pinned = self._pinned or (link, link.connects)
        found, owned = await link.ask([words, ("EXISTS", self._prefix)])
        if isinstance(found, ServerError) or isinstance(owned, ServerError) or pinned != (link, link.connects):
            self._store.look_for_moves()
            raise _Moved
        return found

    async def _entries(self, command: str, name: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """Fields and values of a hash (HSCAN), members and scores of a sorted set (ZSCAN)."""
        async for page in self._pages(command, self._prefix + name.encode()):
            for pair in zip(page[::2], page[1::2], strict=True):
                yield pair

    async def _members(self, command: str, name: str) -> AsyncIterator[tuple[str, str]]:
        """The same as text."""
        async for field, value in self._entries(command, name):
            yield field.decode(), value.decode()

    async def _last_event(self) -> Any:
        return await self._store.command("XREVRANGE", keys.events.key(self._project), "+", "-", "COUNT", 1)

    async def _judge(self, subjects: list[_Subject]) -> None:
        """Checks each subject on a consistent snapshot.

        Where only the first reads show what else to read, everything is read together after them; a subject that has
        changed in between is retried.
        """
        pending = subjects
        for _ in range(_TRIES):
            deep = [one for one in pending if one.extra_reads is not _nothing]
            replies = await self._moment([read for one in deep for read in one.first])
            looks = dict(zip(map(id, deep), _split(replies, [len(one.first) for one in deep]), strict=True))
            wanted = [one.first + _extra_reads(one, looks.get(id(one))) for one in pending]
            owed: Read = ("EXISTS", keys.owed.suffix)
            time, owing, *flat = await self._moment([("TIME",), owed, *(read for reads in wanted for read in reads)])
            if owing:
                await self._settle()
                continue
            self._now = int(time[0]) * 1000 + int(time[1]) // 1000
            moved: list[_Subject] = []
            for one, replies in zip(pending, _split(flat, [len(reads) for reads in wanted]), strict=True):
                first, extra = replies[: len(one.first)], replies[len(one.first) :]
                if first == looks.get(id(one), first):
                    self._found.update(Difference(one.key, problem) for problem in _problems(one, first, extra))
                else:
                    moved.append(one)
            pending = moved
            if not pending:
                return
        self._report.restless += len(pending)

    # --- the subjects of each key family

    def _item(self, name: str, item: str) -> _Subject:
        def extra_reads(first: list[Any]) -> list[Read]:
            fields, edges = _pairs(first[0]), _edges_of(first[1])
            agent = recount.state_of(fields["w"]).holder
            return [
                ("ZSCORE", f"{keys.prefixes.suffix}:{item[:4]}", item[4:]),
                ("ZSCORE", keys.leases.suffix, agent),
                ("HGET", keys.agents.suffix, agent),
                ("HMGET", f"{_ITEM}:{fields.get('pa', '')}", "w", "d"),
                ("ZSCORE", keys.abandoned.suffix, item),
                *(("ZSCORE", family.suffix, item) for family in _BY_TIME),
                ("ZSCORE", keys.apart.suffix, recount.member_of(fields)),
                ("HGET", f"{keys.text.suffix}:{item}", "a"),
                ("SISMEMBER", keys.spent_budgets.suffix, item),
                ("ZSCORE", keys.usage_ranked.suffix, item),
                *(("ZCOUNT", f"{keys.ranked.suffix}:p{item}", *part) for part in recount.COUNTED_CHILDREN),
                *(("ZSCORE", f"{keys.ranked.suffix}:{scope}", item) for scope in recount.scopes(fields)),
                *(("HGET", f"{_ITEM}:{edge.other}", "w") for edge in edges if edge.waits),
            ] if fields else []  # fmt: skip

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            fields, edges, texts = _pairs(first[0]), _edges_of(first[1]), first[2]
            if not fields:
                return  # deleted meanwhile
            self._report.items += 1
            sound = True
            for problem in recount.own_problems(fields, texts, self._now):
                sound = False
                yield problem
            if not sound:
                return
            self._report.terminal += recount.parsed(fields["w"]).role == recount.TERMINAL
            if "rq" in fields:
                self._requiring[item] = fields["rq"]
            if "oc" in fields and recount.parsed(fields["w"]).role != recount.TERMINAL:
                self._occurrences[item] = fields["oc"]
            if recount.claim_of(fields):
                lapsed = recount.lapsed(fields)
                self._claimed[item] = ["*", f"p{fields.get('pa', '')}"] if lapsed else []
            if "rs" in fields and recount.parsed(fields["w"]).role != recount.TERMINAL:
                self._demanding[item] = fields["rs"]
            if "rh" in fields:
                self._holding[item] = fields["rh"]
            in_bucket, lease, held_by_agent, parent, left, *more = extra
            timed, (best, attempts, spent, rank, *more) = more[: len(_BY_TIME)], more[len(_BY_TIME) :]
            scopes, waits = recount.scopes(fields), [edge for edge in edges if edge.waits]
            if in_bucket is False:
                yield "is missing in the index of prefixes"
            yield from recount.claim_problems(item, fields, lease, held_by_agent)
            yield from recount.depth_problems(fields, parent)
            yield from recount.abandoned_problems(fields, left)
            yield from recount_times.held_back_problems(fields, *timed[:4])
            yield from recount_times.time_problems(fields, *timed[4:])
            yield from recount.children_problems(fields, *more[:3])
            yield from recount.attempt_problems(fields, attempts)
            yield from recount.set_problems(fields, item, best)
            yield from usage.item_problems(fields, bool(spent), rank)
            self._used |= usage.used(item, fields)
            for scope, score in zip(scopes, more[3 : len(scopes) + 3], strict=True):
                yield from recount.rank_problems(fields, scope, score)
            yield from recount.blocker_problems(fields, zip(waits, more[len(scopes) + 3 :], strict=True))

        edges, texts = f"{_EDGES}:{item}", f"{keys.text.suffix}:{item}"
        return _Subject(name, [("HGETALL", name), ("HGETALL", edges), ("HKEYS", texts)], extra_reads, judge)

    async def _edges(self, name: str, item: str) -> AsyncIterator[_Subject]:
        async for field, _ in self._members("HSCAN", name):
            yield self._edge(name, item, field)

    def _edge(self, name: str, item: str, field: str) -> _Subject:
        def extra_reads(first: list[Any]) -> list[Read]:
            if first[0] is False:
                return []
            edge = recount.edge(field, first[0])
            return [
                ("HMGET", f"{_ITEM}:{item}", "w", "lv"),
                ("HMGET", f"{_ITEM}:{edge.other}", "w", "lv"),
                ("HGET", f"{_EDGES}:{edge.other}", edge.mirrored + item),
                ("GET", f"{keys.dependency.suffix}:{edge.dependency}"),
            ]

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            if first[0] is False:
                return
            self._report.edges += field[0].isupper()
            yield from recount.edge_problems(item, recount.edge(field, first[0]), first[0], *extra)

        return _Subject(name, [("HGET", name, field)], extra_reads, judge)

    def _owned(self, name: str, item: str) -> _Subject:
        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            if first[0] and not first[1]:
                yield "belongs to an item that does not exist"

        return _Subject(name, [("EXISTS", name), ("EXISTS", f"{_ITEM}:{item}")], _nothing, judge)

    async def _notes(self, name: str, item: str) -> AsyncIterator[_Subject]:
        yield self._owned(name, item)
        async for key, _ in self._members("HSCAN", name):
            yield self._mark(name, item, key)

    def _mark(self, name: str, item: str, key: str) -> _Subject:
        def extra_reads(first: list[Any]) -> list[Read]:
            note = f"{_NOTE}:{first[0][:32]}" if first[0] else ""
            return [("HMGET", note, "i", "k", "r"), ("HSTRLEN", note, "b")] if note else []

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            if first[0]:
                yield from recount.note_problems(item, key, first[0], *extra)

        return _Subject(name, [("HGET", name, key)], extra_reads, judge)

    def _note(self, name: str, note: str) -> _Subject:
        def extra_reads(first: list[Any]) -> list[Read]:
            item, key = first[0]
            return [("HGET", f"{_NOTES}:{item}", key or "")] if item else []

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            if first[0][0] and not (extra[0] or "").startswith(note):
                yield f"is not among the notes of {first[0][0]}"

        return _Subject(name, [("HMGET", name, "i", "k")], extra_reads, judge)

    def _dependency(self, name: str, dependency: str) -> _Subject:
        def extra_reads(first: list[Any]) -> list[Read]:
            ends = first[0] or ""
            return [("HGET", f"{_EDGES}:{ends[1:33]}", ends[:1] + ends[33:])] if ends else []

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            if first[0] and not (extra[0] or "").startswith(dependency):
                yield f"names an edge {first[0]} that is not there"

        return _Subject(name, [("GET", name)], extra_reads, judge)

    async def _ranked(self, name: str, scope: str) -> AsyncIterator[_Subject]:
        def entry(item: str) -> _Subject:
            def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
                score, values = first
                fields = {key: value for key, value in zip(recount.PLACED, values, strict=True) if value is not False}
                if score is not False and not (fields and scope in recount.scopes(fields)):
                    yield f"lists {item}, which is not there or does not belong there"

            reads: list[Read] = [("ZSCORE", name, item), ("HMGET", f"{_ITEM}:{item}", *recount.PLACED)]
            return _Subject(name, reads, _nothing, judge)

        if scope.startswith("p") and scope != "p":
            for role in recount.OPEN_ROLES:
                yield self._bounds(scope[1:], role)
        async for item, _ in self._members("ZSCAN", name):
            yield entry(item)

    def _bounds(self, item: str, role: int) -> _Subject:
        """The bounds of an item with children: the best ready item below it. An item put aside gets them later."""

        def first_of(family: str, band: int) -> Read:
            low, high = band * recount.BAND_SPAN, (band + 1) * recount.BAND_SPAN - 1
            return ("ZRANGEBYSCORE", family, str(low), str(high), "WITHSCORES", "LIMIT", "0", "1")

        def extra_reads(first: list[Any]) -> list[Read]:
            parent = first[0][1] or ""
            return [
                ("ZMSCORE", f"{_BENEATH}:{parent}", *(recount.bound_of(item, band) for band in recount.bands(role)))
            ]

        def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
            (score, _, aside), *firsts = first
            if score is not False and not aside:
                yield from recount.bound_problems(role, firsts, extra[0])

        sets = (f"{keys.ranked.suffix}:p{item}", f"{_BENEATH}:{item}")
        reads = [first_of(family, band) for family in sets for band in recount.bands(role)]
        return _Subject(f"{_ITEM}:{item}", [("HMGET", f"{_ITEM}:{item}", "w", "pa", "k"), *reads], extra_reads, judge)

    async def _beneath(self, name: str, parent: str) -> AsyncIterator[_Subject]:
        def entry(member: str) -> _Subject:
            def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
                score, (there, above, aside) = first
                if score is False or (there and recount.bound_belongs(member, score, parent, above, aside)):
                    return
                yield f"lists {member} at {float(score):.0f}, which is not there or does not belong there"

            reads: list[Read] = [("ZSCORE", name, member), ("HMGET", f"{_ITEM}:{member[:32]}", "w", "pa", "k")]
            return _Subject(name, reads, _nothing, judge)

        async for member, _ in self._members("ZSCAN", name):
            yield entry(member)

    async def _bucket(self, name: str, bucket: str) -> AsyncIterator[_Subject]:
        async for rest, _ in self._members("ZSCAN", name):
            yield self._member(name, ("ZSCORE", name, rest), bucket + rest)

    async def _leases(self, name: str, _: str) -> AsyncIterator[_Subject]:
        async for agent, _score in self._members("ZSCAN", name):
            reads: list[Read] = [("ZSCORE", name, agent), ("HGET", keys.agents.suffix, agent)]
            yield _Subject(name, reads, _nothing, _without(agent, "which has no claim"))

    async def _listed(self, name: str, _: str) -> AsyncIterator[_Subject]:
        async for item, _score in self._members("ZSCAN", name):
            yield self._member(name, ("ZSCORE", name, item), item)

    async def _sets(self, name: str, _: str) -> AsyncIterator[_Subject]:
        """The sets of items that are not for everybody, by their best items."""

        def entry(member: str) -> _Subject:
            def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
                score, best = first
                if score is not False and (not best or recount.place_of(float(best[1]), best[0]) != float(score)):
                    yield f"lists {member} at {score}, whose best item is {best}"

            low = (ord(member[0]) - 48) * recount.CLASS_SPAN
            limits = (str(low), str(low + recount.CLASS_SPAN - 1), "WITHSCORES", "LIMIT", "0", "1")
            scope = f"{keys.ranked.suffix}:R{member[1:]} *"
            reads: list[Read] = [("ZSCORE", name, member), ("ZRANGEBYSCORE", scope, *limits)]
            return _Subject(name, reads, _nothing, judge)

        async for member, _score in self._members("ZSCAN", name):
            yield entry(member)

    async def _spent(self, name: str, _: str) -> AsyncIterator[_Subject]:
        async for page in self._pages("SSCAN", self._prefix + name.encode()):
            for item in map(bytes.decode, page):
                reads: list[Read] = [("SISMEMBER", name, item), ("HGET", f"{_ITEM}:{item}", "bx")]
                yield _Subject(name, reads, _nothing, _without(item, "whose budget is not spent"))

    async def _agents(self, name: str, _: str) -> AsyncIterator[_Subject]:
        async for field, value in self._entries("HSCAN", name):
            if field.startswith(RECORD):
                yield self._known(field[len(RECORD) :].decode())
            else:
                agent = field.decode()
                yield self._member(name, ("HGET", name, agent), value.decode(), agent)

    async def _seen(self, name: str, _: str) -> AsyncIterator[_Subject]:
        async for agent, _score in self._members("ZSCAN", name):
            yield self._known(agent)

    def _known(self, agent: str) -> _Subject:
        """The record of an agent, and its entry among those that were seen."""

        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            yield from recount.agent_problems(agent, *first)

        reads: list[Read] = [("AGENT", keys.agents.suffix, agent), ("ZSCORE", keys.agent_seen.suffix, agent)]
        return _Subject(keys.agents.suffix, reads, _nothing, judge)

    def _member(self, name: str, kept: Read, item: str, agent: str = "") -> _Subject:
        """An index entry, for which there must be an item. (The rest is checked with the item.)"""

        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            if first[0] is not False and (first[1] is False or (agent and recount.state_of(first[1]).holder != agent)):
                yield f"lists {item} ({kept[2]}), which is not there or does not belong there"

        return _Subject(name, [kept, ("HGET", f"{_ITEM}:{item}", "w")], _nothing, judge)

    def _answered(self, name: str, kind: str) -> _Subject:
        """The history of what people were asked, which is bounded."""

        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            if first[0] > keys.MOST_ANSWERED:
                yield f"has {first[0]} answers, of which at most {keys.MOST_ANSWERED} are to be kept"

        return _Subject(name, [("XLEN", name)], _nothing, judge)

    def _queue(self, name: str, queue: str) -> _Subject:
        """The queue of one selector's parked claims must be listed in ``waiting``. (It may be there for longer.)"""

        def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
            if first[0] and first[1] is False:
                yield "is not among those that wait"

        reads: list[Read] = [("EXISTS", name), ("ZSCORE", keys.waiting.suffix, queue)]
        return _Subject(name, reads, _nothing, judge)

    async def _lapsed_counters(self) -> list[Difference]:
        counted = Counter(scope for scopes in self._claimed.values() for scope in scopes)
        return await self._miscounted(keys.lapsed.suffix, counted, "lapsed claims in")

    async def _requiring_counters(self) -> list[Difference]:
        return await self._miscounted(keys.requirements.suffix, Counter(self._requiring.values()), "items that require")

    async def _open_counters(self) -> list[Difference]:
        return await self._miscounted(keys.occurrences.suffix, Counter(self._occurrences.values()), "occurrences of")

    async def _resource_counters(self) -> list[Difference]:
        """What items demand, what claims hold and what is reserved."""
        reserved = [text.partition(" ")[2] async for _, text in self._members("HSCAN", keys.reserved.suffix)]
        held = held_by([*self._holding.values(), *reserved])
        demanded = demanded_by(self._demanding.values())
        return [
            *await self._miscounted(keys.resources.suffix, held, "as held of", held_text, RATE),
            *await self._miscounted(keys.demands.suffix, demanded, "items that demand", demanded_text),
        ]

    async def _sums_of_usage(self) -> list[Difference]:
        entries = [entry async for entry in self._members("HSCAN", keys.usage.suffix)]
        (spent_ended,) = await self._moment([("GET", keys.spent_ended.suffix)])
        found = usage.sum_problems(self._used, entries, int(spent_ended or 0))
        return [Difference(f"{_ITEM}:{item}" if item else keys.usage.suffix, problem) for item, problem in found]

    async def _miscounted(
        self,
        name: str,
        counted: Mapping[str, int | str],
        what: str,
        shown: Callable[[bytes], str] = bytes.decode,
        left_out: str = "\0",
    ) -> list[Difference]:
        """Compares a hash of counters with what was counted."""
        entries = self._entries("HSCAN", name)
        kept = {one.decode(): shown(value) async for one, value in entries if not one.startswith(left_out.encode())}
        derived = {field: str(number) for field, number in counted.items()}
        return [
            Difference(name, f"counts {kept.get(field, 'no')} {what} {field}, should count {derived.get(field, 'no')}")
            for field in sorted({*kept, *derived})
            if kept.get(field) != derived.get(field)
        ]


def _extra_reads(one: _Subject, look: list[Any] | None) -> list[Read]:
    try:
        return one.extra_reads(look) if look is not None else []
    except (KeyError, ValueError):
        return []  # the check reports the same problem


def _problems(one: _Subject, first: list[Any], extra: list[Any]) -> Iterator[str]:
    """The problems of a subject. Unreadable data is also a problem, and does not end the audit."""
    try:
        yield from one.judge(first, extra)
    except (KeyError, ValueError) as error:
        yield f"cannot be read: {error!r}"


def _without(member: str, problem: str) -> Callable[[list[Any], list[Any]], Iterator[str]]:
    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        if first[0] not in (False, 0) and first[1] is False:
            yield f"lists {member}, {problem}"

    return judge


def _nothing(first: list[Any]) -> list[Read]:
    return []


def _split(replies: list[Any], lengths: Iterable[int]) -> list[list[Any]]:
    """Splits the replies to joined reads again."""
    parts, at = [], 0
    for length in lengths:
        parts.append(replies[at : at + length])
        at += length
    return parts


def _pairs(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _edges_of(flat: list[str]) -> list[recount.Edge]:
    return [recount.edge(field, value) for field, value in _pairs(flat).items()]
