"""What items demand of resources, and how much there is (README.md, 'Resources')."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from coordinator.errors import ToolFailure, invalid
from coordinator.settings.sections.resources import (
    KEY_LENGTH,
    KEY_PATTERN,
    KEY_RULE,
    MOST_DEMANDS,
    MOST_UNITS,
    Demand,
    Limit,
    excess,
)
from coordinator.toolsets.items.field_types.resources import GivenResource, Resource

MODES = {"exclusive": "x", "shared": "s"}
_NAMES = {letter: mode for mode, letter in MODES.items()}
_KEY = re.compile(KEY_PATTERN)


@dataclass(frozen=True)
class ResourceConfig:
    """What the settings say about resources."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    """By key; of others there is 1 unit."""
    traits: Mapping[str, tuple[Demand, ...]] = field(default_factory=dict)
    """What items with a trait demand."""

    @cached_property
    def _capacities(self) -> dict[str, int]:
        return {key: limit.capacity for key, limit in self.limits.items()}

    def packed(
        self, schemas: Mapping[str, tuple[Sequence[Demand], Sequence[str]]], default: str | None
    ) -> tuple[object, ...] | None:
        """What scripts read (``lua/resources/demands.lua``); None: nothing is configured.

        Args:
            schemas: of each schema what its items demand, and its default traits.
        """
        by_schema = {
            name: stored([*own, *(demand for trait in traits for demand in self.traits.get(trait, ()))])
            for name, (own, traits) in schemas.items()
        }
        if not (self.limits or self.traits or any(by_schema.values())):
            return None
        by_trait = {name: stored(demands) for name, demands in self.traits.items()}
        rates = {key: limit.per_minute for key, limit in self.limits.items() if limit.per_minute}
        return self._capacities, by_schema, by_trait, default or "", rates

    def problem(self, text: str, field: str = "resources") -> ToolFailure | None:
        """Why an item cannot have these demands (as stored): there is not so much."""
        demands = [Demand(key=demand.key, mode=demand.mode, units=demand.units) for demand in shown(text)]  # type: ignore[arg-type]
        for number, sentence in excess(demands, self._capacities) if text else ():
            return invalid(f"{field}[{number}].units", sentence)
        return None


def stored(demands: Iterable[Demand | Resource]) -> str:
    """Demands in the form of ``lua/resources/demands.lua``; of equal keys the first one counts."""
    first: dict[str, Demand | Resource] = {}
    for demand in demands:
        first.setdefault(demand.key, demand)
    return ",".join(f"{MODES[demand.mode]}{demand.units}:{demand.key}" for demand in first.values())


def shown(text: str) -> list[Resource]:
    """Demands from their stored form; what a claim has taken of a key one after the other is one."""
    totals: dict[tuple[str, str], int] = {}
    for head, _, key in (part.partition(":") for part in text.split(",") if part):
        totals[key, _NAMES[head[0]]] = totals.get((key, _NAMES[head[0]]), 0) + int(head[1:])
    return [Resource(key=key, mode=mode, units=units) for (key, mode), units in totals.items()]


def for_people(text: str) -> str:
    """Demands (as stored) as people read them: ``gpu x2, repo/app (shared)``."""
    amounts = ((demand, " (shared)" if demand.mode == "shared" else f" x{demand.units}") for demand in shown(text))
    return ", ".join(demand.key + (amount if amount != " x1" else "") for demand, amount in amounts)


def demands(wanted: Sequence[GivenResource], field: str = "resources") -> str:
    """Demands as given, in the stored form; '' for none.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field, and what is allowed.
    """
    if len(wanted) > MOST_DEMANDS:
        raise invalid(field, f"must be at most {MOST_DEMANDS} resources, not {len(wanted)}")
    places: dict[str, int] = {}
    demanded: list[Resource] = []
    for number, demand in enumerate(wanted):
        place = f"{field}[{number}]"
        if len(demand.key) > KEY_LENGTH or not _KEY.fullmatch(demand.key):
            raise invalid(f"{place}.key", f"'{demand.key[:64]}' must be {KEY_RULE}")
        if demand.key in places:
            raise invalid(f"{place}.key", f"'{demand.key[:64]}' is there twice; entry {places[demand.key]} has it too")
        places[demand.key] = number
        if (mode := demand.mode.lower()) not in MODES:
            raise invalid(f"{place}.mode", f"must be exclusive or shared, not '{demand.mode[:64]}'")
        if not 1 <= demand.units <= MOST_UNITS:
            raise invalid(f"{place}.units", f"must be 1 to {MOST_UNITS:,}, not {demand.units}")
        if mode == "shared" and demand.units > 1:
            raise invalid(f"{place}.units", "must be 1 or left out: mode shared takes no units")
        demanded.append(Resource(key=demand.key, mode=mode, units=demand.units))
    return stored(demanded)
