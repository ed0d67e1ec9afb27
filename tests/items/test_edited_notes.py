"""Notes that two people edit at the same time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.items.client import Client, Json, actor, fresh_id
from tests.items.moments import ms, server_time
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


async def write(tools: Client, item: str, body: str, seen: Json, **more: Any) -> Json:
    note = {"itemId": item, "key": "plan", "role": "queue", "body": body, **seen}
    return await tools("manage_notes", operation="upsert", notes=[note], **more)


async def test_of_two_who_have_seen_the_same_note_the_second_is_refused(tools: Client) -> None:
    item = (await tools("manage_items", operation="create", items=[{"title": "t"}]))["items"][0]["id"]

    async def edit(body: str, seen: str, **more: Any) -> Json:
        return await write(tools, item, body, {"expectedModifiedAt": seen}, **more)

    assert (await edit("first", ""))["upserted"] == 1
    assert "was changed meanwhile" in (await edit("other", ""))["failures"][0]["error"]
    (seen,) = (await tools("query_notes", operation="list", itemId=item))["notes"]

    async def later() -> bool:
        return await server_time(tools.store) > ms(seen["modifiedAt"])

    await wait_until(later, what="the next millisecond")
    request = {"requestId": fresh_id(), "actor": actor("ada")}
    done = [await edit("ada's", seen["modifiedAt"], **request) for _ in range(2)]
    assert done[0] == done[1]
    assert done[0]["upserted"] == 1
    assert (await edit("bob's", seen["modifiedAt"]))["failed"] == 1
    assert (await tools("query_notes", operation="get", id=seen["id"]))["body"] == "ada's"
    assert (await write(tools, item, "anybody's", {}))["upserted"] == 1
    malformed = (await edit("x", "yesterday"))["failures"][0]["error"]
    assert malformed.startswith("expectedModifiedAt: must be an ISO-8601 time")
