"""Checks the dependency edges of callers (README.md, 'Dependencies')."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from coordinator.errors import ToolFailure, invalid
from coordinator.toolsets.items.contract.dependencies import THRESHOLDS, TYPES, DependencySpec, ManageDependencies
from coordinator.toolsets.items.field_types.base import Failure
from coordinator.toolsets.items.rules.ids import parse
from coordinator.toolsets.items.rules.refusals import refused
from coordinator.toolsets.items.rules.roles import ROLE_CODES, ROLE_NAMES, one_of
from coordinator.toolsets.items.rules.values import not_blank

MAX_EDGES = 150
_TOLD = 20
"""How many further invalid edges a refusal names."""


class Edge(NamedTuple):
    """A checked edge. Its ends are item ids that are not resolved yet, or refs of items of a new tree."""

    source: str
    target: str
    type: str
    unblock_at: str | None

    @property
    def order(self) -> tuple[str, str] | None:
        """(blocker, blocked), None for RELATES_TO."""
        if self.type == "RELATES_TO":
            return None
        return (self.source, self.target) if self.type == "BLOCKS" else (self.target, self.source)


def edge_type(value: str | None, field: str) -> str:
    """One of BLOCKS, IS_BLOCKED_BY, RELATES_TO. Accepts any case, and '-' in place of '_'.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    name = (not_blank(value) or "BLOCKS").upper().replace("-", "_")
    if name not in TYPES:
        raise invalid(field, f"'{str(value)[:64]}' is not one of {', '.join(TYPES)}")
    return name


def threshold(value: str | None, kind: str, field: str) -> str | None:
    """The threshold of an edge; None if none is given.

    Raises:
        ToolFailure: VALIDATION_ERROR.
    """
    given = not_blank(value)
    if not given:
        return None
    role = one_of(given, THRESHOLDS, field)
    if kind == "RELATES_TO":
        raise invalid(field, "cannot be given for RELATES_TO, which blocks nothing")
    return role


def mark(unblock_at: str | None) -> str:
    """The stored form of a threshold: a role's code, or '-' if none was given."""
    return str(ROLE_CODES[unblock_at]) if unblock_at else "-"


def unblock_at(mark: str) -> str | UnsetType:
    """A threshold in results, from its stored form: that of the first call, as a repeated one may write out what is
    the default."""
    return UNSET if mark == "-" else ROLE_NAMES[int(mark)]


def _pattern(args: ManageDependencies) -> list[DependencySpec]:
    shape = one_of(not_blank(args.pattern), ("linear", "fan-out", "fan-in"), "pattern")
    if shape == "linear":
        ids = args.item_ids or []
        if len(ids) < 2:
            raise invalid("itemIds", "linear needs at least 2 items")
        pairs, field = list(pairwise(ids)), "itemIds"
    elif shape == "fan-out":
        source = not_blank(args.source)
        if not source or not args.targets:
            raise invalid("source", "fan-out needs source and a non-empty targets")
        pairs, field = [(source, target) for target in args.targets], "targets"
    else:
        target = not_blank(args.target)
        if not args.sources or not target:
            raise invalid("target", "fan-in needs target and a non-empty sources")
        pairs, field = [(source, target) for source in args.sources], "sources"
    if len(pairs) > MAX_EDGES:
        raise invalid(field, f"must make at most {MAX_EDGES} edges")
    return [DependencySpec(from_item_id=source, to_item_id=target) for source, target in pairs]


def edges_asked_for(args: ManageDependencies) -> list[DependencySpec]:
    """The edges of a create, from ``dependencies`` or ``pattern``.

    Raises:
        ToolFailure: VALIDATION_ERROR: both or neither is given, the pattern is incomplete, or there are no or too many
            edges.
    """
    if (args.dependencies is not None) == bool(not_blank(args.pattern)):
        raise invalid("dependencies", "give either dependencies or pattern")
    edge_type(args.type, "type")
    specs = args.dependencies if args.dependencies is not None else _pattern(args)
    if not 1 <= len(specs) <= MAX_EDGES:
        raise invalid("dependencies", f"must hold 1 to {MAX_EDGES} edges")
    return specs


def checked(specs: list[DependencySpec], args: ManageDependencies) -> tuple[list[Edge], list[Failure]]:
    """The edges with the call's shared defaults, and a failure for each one that is malformed."""
    edges: list[Edge] = []
    failures: list[Failure] = []
    for number, spec in enumerate(specs):
        try:
            edges.append(_edge(spec, args, _ends(args.pattern, number)))
        except ToolFailure as failure:
            failures.append(Failure(index=number, error=failure.message))
    return edges, failures


def refusal(number: int, reason: str, end: str, pattern: str | None) -> Failure:
    """The failure for an edge that a script rejected; names the field of the end at fault."""
    source, target = _ends(pattern, number)
    field = {"from": f"{source}: ", "to": f"{target}: "}.get(end, "")
    return Failure(index=number, error=field + refused(reason))


def as_one(failures: list[Failure]) -> Failure:
    """The failures of a batch as one: that of the first invalid edge, with the others in its text."""
    first, *others = failures
    texts = [first.error, *(f"edge {failure.index}: {failure.error}" for failure in others[:_TOLD])]
    if len(others) > _TOLD:
        texts.append(f"{len(others) - _TOLD} more")
    return Failure(index=first.index, error="; ".join(texts))


def _ends(pattern: str | None, number: int) -> tuple[str, str]:
    """The fields that hold the ends of an edge."""
    return {
        "linear": (f"itemIds[{number}]", f"itemIds[{number + 1}]"),
        "fan-out": ("source", f"targets[{number}]"),
        "fan-in": (f"sources[{number}]", "target"),
    }.get((pattern or "").lower(), ("fromItemId", "toItemId"))


def _edge(spec: DependencySpec, args: ManageDependencies, ends: tuple[str, str]) -> Edge:
    kind = edge_type(not_blank(spec.type) or args.type, "type")
    threshold(args.unblock_at, "BLOCKS", "unblockAt")  # an invalid default is rejected even if no edge uses it
    role = threshold(not_blank(spec.unblock_at) or args.unblock_at, kind, "unblockAt")
    return Edge(parse(spec.from_item_id, ends[0]), parse(spec.to_item_id, ends[1]), kind, role)
