"""Who acts, on which store, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from coordinator.errors import invalid
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.store.idempotency import IdempotencyKey
from coordinator.toolsets.actor import Trusted
from coordinator.toolsets.request_id import keyed

MAX_REASON = 500


def given_reason(given: str | None, *, needed: bool = False) -> str:
    """Why an operator acts, in one piece; empty: they do not say. Refused if it is too long, blank or missing."""
    reason = (given or "").strip()
    if len(reason) > MAX_REASON or not (reason or (given is None and not needed)):
        raise invalid("reason", f"must be 1 to {MAX_REASON} characters, not blank")
    return reason.encode(errors="replace").decode()  # a command line can hold what is no text


class Operator(NamedTuple):
    store: Store
    settings: Settings
    actor: Trusted
    """As histories and events have them."""
    via: str
    """``console`` or ``cli``."""
    reason: str
    """As ``given_reason`` returns it."""
    request: str
    """Names the click or the command: repeated with the same, an act has no second effect. Empty: it has no name."""

    @property
    def id(self) -> str:
        return self.actor.id

    def key(self, action: str, *what: Any) -> IdempotencyKey:
        return keyed(self.id, self.request or None, action, *what)
