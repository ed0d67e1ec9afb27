"""What the items of a project add up to, and the counters of the whole project that must agree with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from coordinator.store import keys
from coordinator.toolsets.items.audit import usage
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.report import Difference
from coordinator.toolsets.items.audit.resources import demanded_by, demanded_text, held_by, held_text
from coordinator.toolsets.items.audit.states import claim_of, lapsed
from coordinator.toolsets.items.audit.subject import ITEM
from coordinator.toolsets.items.rules.classes import TERMINAL
from coordinator.toolsets.items.rules.records import Fields, parsed

RATE = "~"
"""What precedes a key in the field of its units per minute (``lua/resources/resources.lua``)."""


class Tally:
    """Collects from the items what counters of the whole project count. An item may come twice."""

    def __init__(self) -> None:
        self.items = 0
        self.terminal = 0
        self.edges = 0
        self._claimed: dict[str, list[str]] = {}
        self._requiring: dict[str, str] = {}
        self._occurrences: dict[str, str] = {}
        self._demanding: dict[str, str] = {}
        self._holding: dict[str, str] = {}
        self._used: dict[str, usage.Used] = {}

    @property
    def claims(self) -> int:
        """How many items have a claim, live or lapsed."""
        return len(self._claimed)

    def add(self, item: str, fields: Fields) -> None:
        ended = parsed(fields["w"]).role == TERMINAL
        self.terminal += ended
        if "rq" in fields:
            self._requiring[item] = fields["rq"]
        if "oc" in fields and not ended:
            self._occurrences[item] = fields["oc"]
        if claim_of(fields):
            self._claimed[item] = ["*", f"p{fields.get('pa', '')}"] if lapsed(fields) else []
        if "rs" in fields and not ended:
            self._demanding[item] = fields["rs"]
        if "rh" in fields:
            self._holding[item] = fields["rh"]

    def add_usage(self, item: str, fields: Fields) -> None:
        """Adds what was used for an item. Raises ValueError: it cannot be read."""
        self._used |= usage.used(item, fields)

    async def differences(self, reader: Reader) -> list[Difference]:
        """Compares with the counters."""
        return [
            *await self._lapsed(reader),
            *await _miscounted(
                reader, keys.requirements.suffix, Counter(self._requiring.values()), "items that require"
            ),
            *await _miscounted(reader, keys.occurrences.suffix, Counter(self._occurrences.values()), "occurrences of"),
            *await self._resources(reader),
            *await self._sums_of_usage(reader),
        ]

    async def _lapsed(self, reader: Reader) -> list[Difference]:
        counted = Counter(scope for scopes in self._claimed.values() for scope in scopes)
        return await _miscounted(reader, keys.lapsed.suffix, counted, "lapsed claims in")

    async def _resources(self, reader: Reader) -> list[Difference]:
        """What items demand, what claims hold and what is reserved."""
        reserved = [text.partition(" ")[2] async for _, text in reader.members("HSCAN", keys.reserved.suffix)]
        held = held_by([*self._holding.values(), *reserved])
        demanded = demanded_by(self._demanding.values())
        return [
            *await _miscounted(reader, keys.resources.suffix, held, "as held of", held_text, RATE),
            *await _miscounted(reader, keys.demands.suffix, demanded, "items that demand", demanded_text),
        ]

    async def _sums_of_usage(self, reader: Reader) -> list[Difference]:
        entries = [entry async for entry in reader.members("HSCAN", keys.usage.suffix)]
        (spent_ended,) = await reader.moment([("GET", keys.spent_ended.suffix)])
        found = usage.sum_problems(self._used, entries, int(spent_ended or 0))
        return [Difference(f"{ITEM}:{item}" if item else keys.usage.suffix, problem) for item, problem in found]


async def _miscounted(
    reader: Reader,
    name: str,
    counted: Mapping[str, int | str],
    what: str,
    shown: Callable[[bytes], str] = bytes.decode,
    left_out: str = "\0",
) -> list[Difference]:
    """Compares a hash of counters with what was counted."""
    entries = reader.entries("HSCAN", name)
    kept = {one.decode(): shown(value) async for one, value in entries if not one.startswith(left_out.encode())}
    derived = {field: str(number) for field, number in counted.items()}
    return [
        Difference(name, f"counts {kept.get(field, 'no')} {what} {field}, should count {derived.get(field, 'no')}")
        for field in sorted({*kept, *derived})
        if kept.get(field) != derived.get(field)
    ]
