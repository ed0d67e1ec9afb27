"""Calls of the store as the front-end makes them, to be made by others: rivals of the front-end and bare connections.

They are caught on their way, so that their arguments are always those of this tree.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from coordinator.settings import Settings
from coordinator.store import Script, Store
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.schema import SchemaSource
from coordinator.toolsets.items.store.base import LIBRARY as ITEMS
from coordinator.toolsets.items.store.claims import ClaimStore
from coordinator.toolsets.items.store.transitions import TransitionStore


class _Sent(Exception):
    """A script call that would have gone to the store."""

    def __init__(self, script: Script[Any], args: Sequence[Any]) -> None:
        super().__init__(script.name)
        self.script, self.sent = script, list(args)


class _Wiretap(Store):
    """A store that sends nothing: it raises what it would have sent to the library of the items."""

    async def run(self, script: Script[Any], project: str, *args: Any, **options: object) -> Any:
        """See ``Store``. Raises _Sent for a call of the items' library."""
        if script.function_library is ITEMS:
            raise _Sent(script, args)


_parts = _Wiretap("unix:///nowhere"), Settings(), SchemaSource(schema_config(Settings()))
claims, transitions = ClaimStore(*_parts), TransitionStore(*_parts)
"""Stores whose calls can be caught."""


class Template:
    """A call of ``claims`` or ``transitions``, to be made with other values in the place of placeholders."""

    def __init__(self, call: Coroutine[Any, Any, object], *placeholders: object) -> None:
        try:
            call.send(None)
        except _Sent as sent:
            self.script, self._args = sent.script, sent.sent
        self._places = [self._args.index(value) for value in placeholders]

    def arguments(self, *values: str | bytes) -> tuple[str | bytes | int, ...]:
        """The arguments of the script; ``values`` take the places of the placeholders."""
        for place, value in zip(self._places, values, strict=True):
            self._args[place] = value
        return tuple(self._args)

    def pack(self, key: bytes, *values: str | bytes) -> bytes:
        """The call in wire format."""
        return self.script.pack(key, self.arguments(*values))
