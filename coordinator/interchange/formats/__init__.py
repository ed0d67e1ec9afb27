"""A module for each format. Each has ``read`` (bytes, or of folders a path, to an ``ImportSource``) and ``STATES``:
what the statuses of the format mean, in lower case; ``''`` is an item without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coordinator.interchange.model import State

_LONGEST = 200


def states(names: Mapping[State, Sequence[str]]) -> dict[str, State]:
    """``STATES`` of a format, by what its statuses mean."""
    return {name: state for state, of_state in names.items() for name in of_state}


def assigned(names: Sequence[str], lost: Counter[str]) -> dict[str, str]:
    """The field ``assignee``: an item has one, so of several the first counts; the others are counted in ``lost``."""
    assignees = [name.strip() for name in names if name.strip()]
    lost["assignees besides the first"] += len(assignees) > 1
    lost[f"assignees of more than {_LONGEST} characters"] += bool(assignees) and len(assignees[0]) > _LONGEST
    return {"assignee": assignees[0]} if assignees and len(assignees[0]) <= _LONGEST else {}
