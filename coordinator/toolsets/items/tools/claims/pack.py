"""The words of the scripts that a call of claim_item consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from coordinator.toolsets.items.contract.claims import DELEGATED, ClaimEntry, ReleaseEntry
from coordinator.toolsets.items.rules.ids import no_id, to_inner
from coordinator.toolsets.items.rules.included import wanted
from coordinator.toolsets.items.rules.resources import demands
from coordinator.toolsets.items.rules.results import result_of
from coordinator.toolsets.items.rules.usage.budgets import packed
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.claims import Release, Wanted
from coordinator.toolsets.items.tools.claims.check import ends


class _Named(Protocol):
    """An entry of claims or releases."""

    @property
    def item_id(self) -> str | None: ...


def ids(entries: Sequence[_Named], field: str) -> Sequence[str]:
    """The item of each entry in the inner form: an id, or an unresolved prefix. Raises ToolFailure VALIDATION_ERROR."""
    found = [to_inner(entry.item_id or "") for entry in entries]
    if "" in found:
        raise no_id(f"{field}[{found.index('')}].itemId")
    return found


def claim(item: str, entry: ClaimEntry) -> Wanted:
    plain = item, entry.ttl_seconds * 1000, entry.fence_token or 0
    further = demands(entry.resources) if entry.resources else None
    if entry.usage is not None:
        return (*plain, further, packed(entry.usage, "usage"))
    return (*plain, further) if further else plain


def release(item: str, entry: ReleaseEntry) -> Release:
    reason = not_blank(entry.reason).lower()
    plain = item, entry.fence_token or 0, reason, not_blank(entry.detail)
    used = False if entry.usage is None else packed(entry.usage, "usage")
    if ends(entry):
        result = None if entry.result is None else result_of(entry.result, "result")
        return *plain, used, (*result, True) if result else False, not_blank(entry.summary)
    return (*plain, used) if used else plain


def parts(include: Sequence[str]) -> str:
    """Letters of what to add about claimed items. Raises ToolFailure VALIDATION_ERROR."""
    return wanted([part for part in include if part.lower() != DELEGATED])
