"""Helpers shared by tools of this toolset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import UNSET, UnsetType

from coordinator.errors import invalid
from coordinator.store.idempotency import NO_KEY, IdempotencyKey, idempotency_key
from coordinator.toolsets.actor import Actor, Distrusted, checked, stored_actor, stored_verification
from coordinator.toolsets.caller import Delegation
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.items.contract.claims import HeldBack
from coordinator.toolsets.items.contract.dependencies import ManageDependencies
from coordinator.toolsets.items.contract.items import ManageItems
from coordinator.toolsets.items.contract.notes import ManageNotes
from coordinator.toolsets.items.contract.trees import CompleteTree, CreateWorkTree
from coordinator.toolsets.items.field_types.base import Ancestor
from coordinator.toolsets.items.rules.ids import dashed, is_uuid, to_inner
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.store.base import Changed
from coordinator.toolsets.timestamp import iso
from coordinator.toolsets.tool import Services

T = TypeVar("T")
Mutating = CompleteTree | CreateWorkTree | ManageDependencies | ManageItems | ManageNotes
"""Arguments of the tools whose actor is optional."""


def batch(elements: list[T] | None, field: str, most: int) -> list[T]:
    """The elements of a batch parameter.

    Raises:
        ToolFailure: VALIDATION_ERROR unless there are 1 to ``most`` of them.
    """
    if not elements or len(elements) > most:
        raise invalid(field, f"must hold 1 to {most} elements")
    return elements


async def keyed(services: Services, tool: str, args: Mutating, *, partial: bool = False) -> IdempotencyKey:
    """The idempotency key of a call whose actor is optional; ``NO_KEY`` without a usable actor and request id.

    Such a call is never rejected for a bad proof. But it has a record only under an identity that the policy trusts.

    Args:
        partial: as in ``canonical``.

    Raises:
        ToolFailure: VALIDATION_ERROR for a malformed actor.
    """
    if args.actor is None:
        return NO_KEY
    claim = checked(args.actor)
    if not args.request_id or not is_uuid(args.request_id):
        return NO_KEY
    try:
        trusted = await services.resolve_actor(claim)
    except Distrusted:
        return NO_KEY
    return idempotency_key(trusted.id, args.request_id, tool, canonical(args, partial=partial))


class _Signed(Protocol):
    """An element of a batch."""

    @property
    def actor(self) -> Actor | None: ...


def check_signed(elements: Sequence[_Signed], field: str) -> None:
    """Rejects a batch with elements without an actor, where the settings require one on each.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the elements.
    """
    unsigned = [f"{field}[{number}].actor" for number, element in enumerate(elements) if element.actor is None]
    if unsigned:
        named = ", ".join(unsigned[:5]) + (f" and {len(unsigned) - 5} more" if len(unsigned) > 5 else "")
        raise invalid(named, "is required: this fleet accepts no unsigned changes (actor_authentication.enabled)")


def ancestors(path: list[tuple[str, str, int]]) -> list[Ancestor]:
    return [Ancestor(id=dashed(item), title=title, depth=depth) for item, title, depth in path]


def transition(row: Changed) -> dict[str, Any]:
    """The fields of ``ItemTransition`` from a row."""
    return {
        "from_role": ROLE_NAMES[row.from_role],
        "to_role": ROLE_NAMES[row.to_role],
        "trigger": row.trigger,
        "at": iso(row.at),
        "summary": row.summary or UNSET,
        "actor": stored_actor(row.actor),
        "verification": stored_verification(row.verification),
    }


def names(claim: Delegation, given: str | None) -> bool:
    """Whether a text is the id of the item of a live claim."""
    return claim.live and to_inner(given or "") == claim.item


def or_unset(value: str | bool | None) -> str | UnsetType:
    """A text from a script; UNSET if it is absent (False)."""
    return value if isinstance(value, str) else UNSET


def held_back(counts: Mapping[str, Any] | None) -> HeldBack | UnsetType:
    """How many items are held back, as scripts count them by reason; none and None: absent."""
    return HeldBack(**{why: counts.get(why, 0) for why in HeldBack.__struct_fields__}) if counts else UNSET
