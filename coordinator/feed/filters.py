"""What a listener wants: filters by kind, id and root."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from coordinator.errors import invalid, that_exist
from coordinator.feed.kinds import GATEWAY_ID, GROUPS, KINDS, NAMES

MOST_IDS = 256

_ITEM = re.compile(r"[0-9a-f]{8}(-?)([0-9a-f]{4}\1){3}[0-9a-f]{12}", re.IGNORECASE)
_FLOW = re.compile(r"[1-9]\d{9,16}")
_INSTANCE = re.compile(GATEWAY_ID + r"[0-9a-f]{12,64}")
ANY: frozenset[str] = frozenset()
"""No condition. One object for all filters: each empty set takes 200 bytes."""
_BY_DEFAULT = frozenset(kind.name for kind in KINDS.values() if not kind.asked)


class Filter(NamedTuple):
    """Which events a listener gets: those that meet all of the conditions. Equal filters share their work."""

    kinds: frozenset[str] = _BY_DEFAULT
    ids: frozenset[str] = ANY
    """As in the stream, and of sessions also with dashes; empty: any."""
    roots: frozenset[str] = ANY
    """Ids of items without a parent, as in the stream; empty: any."""
    toolsets: frozenset[str] | None = None
    """Toolsets whose events the listener may read; None: all."""
    creator: str | None = None
    """Of workflows (flows), the listener may read only those of this creator and those whose gates they may approve;
    None: all."""
    roles: frozenset[str] = ANY
    """The roles of the listener, with a ``creator``."""

    def may_read_flow(self, creator: str | None, roles: Callable[[], Collection[str]]) -> bool:
        """Whether the listener may read a workflow.

        Args:
            roles: gives the roles that may approve its gates.
        """
        if self.creator is None or creator == self.creator:
            return True
        return bool(self.roles) and not self.roles.isdisjoint(roles())


def kinds_of(texts: Iterable[str] | None) -> frozenset[str]:
    """The kinds that a listener names, each by its name or by its group (``item.*``); None: those given by default.

    Raises:
        ToolFailure: VALIDATION_ERROR: there is no such kind.
    """
    if texts is None:
        return _BY_DEFAULT
    kinds: set[str] = set()
    for text in texts:
        if text in GROUPS:
            kinds.update(name for name in NAMES if name.startswith(text[:-1]))
        elif text in NAMES:
            kinds.add(text)
        else:
            raise invalid("kinds", f"there is no kind '{text[:80]}'{that_exist(text, (*GROUPS, *NAMES))}")
    if not kinds:
        raise invalid("kinds", "must name at least one kind")
    return frozenset(kinds)


def ids_of(texts: Collection[str], field: str, *, items_only: bool = False) -> frozenset[str]:
    """The ids that a listener names, as they are in the stream.

    Raises:
        ToolFailure: VALIDATION_ERROR: one is malformed, or there are too many.
    """
    if len(texts) > MOST_IDS:
        raise invalid(field, f"must be at most {MOST_IDS} ids, not {len(texts)}")
    if not texts:
        raise invalid(field, "must be at least one id")
    return frozenset(form for text in texts for form in forms(text, field, items_only=items_only))


def forms(text: str, field: str, *, items_only: bool = False) -> tuple[str, ...]:
    """An id as it may be in the stream: a UUID is that of an item there, or of a session. Raises as ``ids_of``."""
    if _ITEM.fullmatch(text):
        digits = text.replace("-", "").lower()
        return (digits,) if items_only else (digits, dashed(digits))
    if items_only:
        raise invalid(field, f"'{text[:80]}' is not the id of an item: a UUID")
    if not (_FLOW.fullmatch(text) or _INSTANCE.fullmatch(text)):
        what = f"an item or session (a UUID), a workflow (a number) or a gateway instance ({GATEWAY_ID}...)"
        raise invalid(field, f"'{text[:80]}' is not the id of {what}")
    return (text,)


def dashed(digits: str) -> str:
    """A UUID with its dashes."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
