"""What a caller of a fleet can meet, as exceptions.

``FleetError`` is the base. Its ``code`` is one of ``coordinator.errors.CATALOGUE``, or of a toolset with codes of its
own (the gateway), and ``advice`` says what to do. Subclasses are what callers tell apart; ``error_of`` makes the right
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.errors import CATALOGUE, Kind


class FleetError(Exception):
    """A call failed.

    Args:
        code: the stable name of the failure.
        message: a sentence that says what went wrong; of a wrong argument, which one and what is allowed.
        data: the whole structured answer, or the refused element of a batch.
    """

    def __init__(self, code: str, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data: Mapping[str, Any] = data or {}

    @property
    def kind(self) -> Kind:
        """Whether a repeated call may succeed: transient or shedding."""
        known = CATALOGUE.get(self.code)
        return known.kind if known is not None else "permanent"

    @property
    def advice(self) -> str:
        """What to do about it; empty: nothing is known of this code."""
        known = CATALOGUE.get(self.code)
        return known.advice if known is not None else ""


class Invalid(FleetError):
    """An argument is missing or wrong, or a requestId was used before with others."""


class NotFound(FleetError):
    """No such item, note, workflow or project."""


class Denied(FleetError):
    """The credential is missing or not good for this."""


class ClaimLost(FleetError):
    """The claim on the item is over: another agent may be at work on it. Stop, and write nothing more."""


class JobStopped(FleetError):
    """A budget is spent, so the work on the item ends; ``message`` says which. It is handed back, uncounted."""


class Refused(FleetError):
    """A rule refused a change, such as a missing note or an open dependency; ``data`` has the refused element."""


class Unavailable(FleetError):
    """The fleet could not be reached, or had no room, for as long as the call was repeated."""


_OF_CODES: dict[str, type[FleetError]] = {
    "VALIDATION_ERROR": Invalid,
    "request_id_reused": Invalid,
    "RESOURCE_NOT_FOUND": NotFound,
    "unauthenticated": Denied,
    "permission_denied": Denied,
    "actor_mismatch": Denied,
    "rejected_by_policy": Denied,
    "stale_fence": ClaimLost,
    "not_claim_holder": ClaimLost,
    "session_superseded": ClaimLost,
    "INTERNAL_ERROR": FleetError,
    "unavailable": Unavailable,
}


def error_of(code: str, message: str, data: Mapping[str, Any] | None = None) -> FleetError:
    """The exception for a code: by the table, ``Unavailable`` for what is worth a repetition, else ``Refused``."""
    kind = _OF_CODES.get(code)
    if kind is None:
        known = CATALOGUE.get(code)
        kind = Refused if known is None or known.kind == "permanent" else Unavailable
    return kind(code, message, data)
