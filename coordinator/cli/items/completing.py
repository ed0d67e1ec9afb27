"""Completes the ids of items in a shell: those that are not terminal, with their titles."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

    from coordinator.client import Fleet

_SECONDS = 3.0
_MOST = 50


def ids(context: CompletionContext) -> dict[str, str]:
    """The beginnings of ids with titles, as the flags typed so far say where to ask; empty: the fleet does not answer.

    Only the newest items are offered. Of a longer list, a prefix that is typed in full is as good.
    """
    # Here, because the shell's script calls this for nothing but ids, and nothing else needs it.
    from coordinator.cli.connection import Connection
    from coordinator.cli.items.tables import short
    from coordinator.wording import printable

    fields = ("url", "token_file", "project", "agent", "data_dir")
    typed = {name: context[name].value for name in fields if context[name].provided}
    defaults = {"project": os.environ.get("FLEET_PROJECT") or "default"}

    async def read(fleet: Fleet) -> dict[str, str]:
        async with asyncio.timeout(_SECONDS):
            queries = [{"operation": "search", "role": role, "limit": _MOST} for role in ("work", "blocked", "queue")]
            answers = [await fleet.call("query_items", query) for query in queries]
        items = [item for answer in answers for item in answer["items"]]
        return {short(item["id"]): f"{item['role']}: {printable(item['title'])}" for item in items}

    return Connection(**(defaults | typed)).run(read)
