"""The section ``resources``: how much there is of what work items demand, and the form of such demands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Struct

from coordinator.settings.problems import Faults, KeyPath
from coordinator.settings.setting import setting

MOST_DEMANDS = 16
"""Per item."""
MOST_UNITS = 1_000_000
KEY_PATTERN = r"[A-Za-z0-9_.:@+-]+(/[A-Za-z0-9_.:@+-]+){0,7}"
KEY_LENGTH = 200
KEY_RULE = (
    f"a path of at most 8 names and {KEY_LENGTH} characters, with '/' between the names; names consist of letters, "
    "digits and -_.:@+"
)
_MOST_LIMITS = 1_000

ResourceKey = Annotated[str, setting(pattern=rf"^{KEY_PATTERN}\Z", max_length=KEY_LENGTH, allowed=KEY_RULE)]
Units = Annotated[int, setting(ge=1, le=MOST_UNITS)]


class Limit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel", omit_defaults=True):
    """How much there is of a resource."""

    capacity: Units = 1
    """Units that claims can hold together."""
    per_minute: Units | None = None
    """Units that come back each minute to be taken by claims; as many as ``capacity`` are saved, and there at first."""


class Demand(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What an item demands of a resource.

    Raises:
        Faults: a shared demand names units.
    """

    key: ResourceKey
    mode: Literal["exclusive", "shared"] = "exclusive"
    units: Units = 1

    def __post_init__(self) -> None:
        if self.mode == "shared" and self.units > 1:
            raise Faults([(("units",), "must be 1 or left out: mode shared takes no units")])


Demands = Annotated[
    tuple[Demand, ...],
    setting(
        max_length=MOST_DEMANDS,
        allowed=f"a list of at most {MOST_DEMANDS} resources, each with key and, if need be, mode and units",
    ),
]
Limits = Annotated[dict[ResourceKey, Units | Limit], setting(max_length=_MOST_LIMITS)]


def limit_of(stated: int | Limit) -> Limit:
    """A limit from its short form, the capacity alone."""
    return Limit(capacity=stated) if isinstance(stated, int) else stated


def capacities(limits: Mapping[str, int | Limit] | None) -> dict[str, int]:
    """The units of each key that has a limit."""
    return {key: limit_of(stated).capacity for key, stated in (limits or {}).items()}


def paths(key: str) -> Iterator[str]:
    """A key, and each of its ancestors."""
    while key:
        yield key
        key = key.rpartition("/")[0]


def excess(demands: Sequence[Demand], known: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Demands for more than there is: their places in the list, and a sentence about each.

    Demands count against each configured ancestor of their keys, and then together.

    Args:
        known: units by key; of others there is 1.
    """
    taken: dict[str, int] = {}
    for number, demand in enumerate(demands):
        if demand.mode == "shared":
            continue
        for path in paths(demand.key):
            taken[path] = taken.get(path, 0) + demand.units
            if path in known:
                most, wanted = known[path], taken[path]
            else:  # it counts for itself only
                most, wanted = 1, demand.units if path == demand.key else 0
            if wanted > most:
                yield number, f"the item demands {wanted} units of {path}, and its capacity is {most}"
                break


def faults_of(demands: Sequence[Demand], known: Mapping[str, int], path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with demands in the settings at ``path``."""
    for number, sentence in excess(demands, known):
        yield (*path, number, "units"), sentence
