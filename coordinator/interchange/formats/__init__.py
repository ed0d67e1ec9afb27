"""A module for each format. Each has ``read`` (bytes, or of folders a path, to a ``Source``) and ``STATES``: what the
statuses of the format mean, in lower case; ``''`` is an item without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_LONGEST = 200


def assigned(names: Sequence[str], lost: Counter[str]) -> dict[str, str]:
    """The field ``assignee`` of a record: an item has one, so of several the first counts.

    Args:
        lost: of the source; what does not come along is counted there.
    """
    found = [one.strip() for one in names if one.strip()]
    lost["assignees besides the first"] += len(found) > 1
    lost[f"assignees of more than {_LONGEST} characters"] += bool(found) and len(found[0]) > _LONGEST
    return {"assignee": found[0]} if found and len(found[0]) <= _LONGEST else {}
