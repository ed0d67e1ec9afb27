"""Items as arguments of the read tools: by id or prefix, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from tests.items.client import Client, Json

pytestmark = pytest.mark.anyio

A = "abcd1234-0000-4000-8000-00000000000a"
B = "abcd1234-0000-4000-8000-00000000000b"

# Tool, argument, and the part of the answer with the item A.
TOOLS: list[tuple[str, str, Callable[[Json], bool]]] = [
    ("query_dependencies", "itemId", lambda answer: answer["dependencies"][0]["fromItemId"] == A),
    ("get_next_status", "itemId", lambda answer: answer["currentRole"] == "work"),
    ("get_context", "itemId", lambda answer: answer["item"]["id"] == A),
    ("get_blocked_items", "parentId", lambda answer: [item["title"] for item in answer["blockedItems"]] == ["child"]),
]


@pytest.fixture
async def two(tools: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A project with the item A, in work, that has a blocked child, and B, which waits for A."""
    upcoming = iter(item.replace("-", "") for item in (A, B))
    with monkeypatch.context() as patched:
        patched.setattr("coordinator.toolsets.items.tools.items.new_ids", lambda count: list(islice(upcoming, count)))
        await tools.create({"title": "a", "role": "work"}, {"title": "b"})
    await tools.add("child", role="blocked", parentId=A)
    await tools.link(A, B)
    return tools


@pytest.mark.parametrize("written", [A, A.upper(), A.replace("-", ""), "abcd1234000040008000" + "0" * 11 + "a"])
@pytest.mark.parametrize(("tool", "argument", "is_about_a"), TOOLS)
async def test_an_item_may_be_named_by_id_or_prefix(
    two: Client, tool: str, argument: str, is_about_a: Callable[[Json], bool], written: str
) -> None:
    assert is_about_a(await two(tool, **{argument: written}))


@pytest.mark.parametrize(("tool", "argument", "is_about_a"), TOOLS)
async def test_a_shorter_prefix_is_accepted_while_unique(
    two: Client, tool: str, argument: str, is_about_a: Callable[[Json], bool]
) -> None:
    failure = await two.refusal(tool, **{argument: "ABCD1"})
    assert failure.code == "VALIDATION_ERROR"
    assert failure.data == {"prefix": "abcd1", "matches": [{"id": A, "title": "a"}, {"id": B, "title": "b"}]}
    await two.link(await two.add("spare"), A, type="RELATES_TO")
    await two.delete(B)
    if tool == "query_dependencies":
        assert (await two(tool, itemId="ABCD1"))["counts"] == {"incoming": 0, "outgoing": 0, "relatesTo": 1}
    else:
        assert is_about_a(await two(tool, **{argument: "ABCD1"}))


@pytest.mark.parametrize(("tool", "argument"), [(tool, argument) for tool, argument, _ in TOOLS])
@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        ("5f0c1d2e-0000-4000-8000-0000000000ff", "RESOURCE_NOT_FOUND", "{argument}: no such item"),
        ("fedc" * 4, "RESOURCE_NOT_FOUND", "{argument}: no item's id begins with 'fedcfedcfedcfedc'"),
        ("fed", "VALIDATION_ERROR", "{argument}: must be a UUID or a hex prefix of 4 to 32 digits"),
        ("fedcfedc-fedc", "VALIDATION_ERROR", "{argument}: must be a UUID or a hex prefix of 4 to 32 digits"),
        ("?not_found", "VALIDATION_ERROR", "{argument}: must be a UUID or a hex prefix of 4 to 32 digits"),
        (7, "VALIDATION_ERROR", "{argument}"),
    ],
)
async def test_an_item_that_cannot_be_found_is_rejected(
    tools: Client, tool: str, argument: str, written: object, code: str, message: str
) -> None:
    failure = await tools.refusal(tool, **{argument: written})
    assert failure.code == code
    assert message.format(argument=argument) in failure.message


@pytest.mark.parametrize("tool", ["query_dependencies", "get_next_status"])
async def test_tools_about_one_item_need_it(tools: Client, tool: str) -> None:
    assert "itemId" in (await tools.refusal(tool)).message
    assert "itemId" in (await tools.refusal(tool, itemId="")).message


async def test_another_projects_item_is_unknown(two: Client) -> None:
    other = Client(two.store, f"{two.project}-other")
    for tool, argument, _ in TOOLS:
        assert (await other.refusal(tool, **{argument: A})).code == "RESOURCE_NOT_FOUND"
