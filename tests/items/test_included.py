"""What claims and ``get_context`` include about an item: the item in full, its notes, the results of its blockers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from coordinator.toolsets.items.contract.included import MAX_CHARS, BlockerResult, IncludedItem, IncludedNote
from coordinator.toolsets.items.rules.included import LONG_TEXTS, Parts, Text, fit
from tests.items.client import Client, Json, actor, fresh_id
from tests.items.parked import Fronts
from tests.items.results import fan_in, included, notes_of
from tests.items.selectors import call_of, take

pytestmark = pytest.mark.anyio

ALL = ["item", "notes", "results"]


async def write(tools: Client, item: str, **bodies: str) -> None:
    notes = [{"itemId": item, "key": key, "role": "work", "body": body} for key, body in bodies.items()]
    assert (await tools("manage_notes", operation="upsert", notes=notes))["failed"] == 0


async def end(tools: Client, result: Any, **fields: Any) -> str:
    """Creates an item and ends it with a result."""
    item = await tools.add(**fields)
    assert (await tools.advance(item, "complete", "ann", result=result))["applied"]
    return item


async def claim(tools: Client, agent: str, item: str, include: list[str] | None = None, **more: Any) -> Json:
    """Claims an item; the entry's result."""
    entry = {"itemId": item, **more}
    call = {"actor": actor(agent), "requestId": fresh_id(), "claims": [entry], "include": include or ALL}
    result: Json = (await tools("claim_item", **call))["claimResults"][0]
    return result


def chars(result: Json) -> int:
    """Characters of what is included, as JSON."""
    return len(msgspec.json.encode(included(result)).decode())


@pytest.fixture
async def scene(tools: Client) -> Json:
    """An item with everything, and what is to be included about it."""
    parent = await tools.add("parent")
    item = await tools.add(
        "the item",
        parentId=parent,
        description="long",
        summary="s",
        tags="a,b",
        metadata='{"m": 1}',
        properties='{"p": 1}',
        traits="careful",
    )
    await write(tools, item, plan="first", log="second\n")
    values = [{"rows": [1, None]}, "text", " [1] ", False]
    blockers = [await end(tools, value, title=f"blocker {n}") for n, value in enumerate(values)]
    for number, blocker in enumerate(blockers):
        if number % 2:
            await tools.link(item, blocker, type="IS_BLOCKED_BY")
        else:
            await tools.link(blocker, item)
    await tools.link(blockers[0], item, type="RELATES_TO")
    without = await tools.add(role="terminal")
    await tools.link(without, item)
    for edge in ((await end(tools, "no"), item, "RELATES_TO"), (item, await end(tools, "no"), "BLOCKS")):
        await tools.link(edge[0], edge[1], type=edge[2])
    results = []
    for number, blocker in enumerate(blockers):
        (note,) = await notes_of(tools, blocker)
        results.append(
            {
                "itemId": blocker,
                "title": f"blocker {number}",
                "role": "terminal",
                "noteId": note["id"],
                "result": values[number],
                **({} if isinstance(values[number], str) else {"format": "json"}),
                "at": note["modifiedAt"],
            }
        )
    results.sort(key=lambda result: (result["at"], result["itemId"]))
    return {"item": await tools.get(item), "notes": await notes_of(tools, item), "results": results}


@pytest.mark.every_store
async def test_a_claim_by_id_includes_what_is_asked_for(tools: Client, scene: Json) -> None:
    item = scene["item"]["id"]
    claimed = await claim(tools, "ann", item)
    assert claimed["outcome"] == "success"
    assert included(claimed) == scene
    for wanted in (["item"], ["notes"], ["results"], ["results", "item"], ["notes", "notes"]):
        again = await claim(tools, "ann", item, wanted)  # a renewal
        assert again["fenceToken"] == claimed["fenceToken"]
        assert included(again) == {name: scene[name] for name in wanted}
    assert included((await tools.claims("ann", [{"itemId": item}]))["claimResults"][0]) == {}


@pytest.mark.every_store
async def test_a_claim_by_selector_includes_it_in_the_same_run(fronts: Fronts, tools: Client, scene: Json) -> None:
    front = await fronts.make()
    call = call_of("ann", {"type": None, "parentId": scene["item"]["parentId"]}, include=ALL)
    before = front.runs.total()
    first = await front("claim_item", **call)
    assert front.runs.total() - before == 1
    assert included(first["claimResults"][0]) == scene
    await write(tools, scene["item"]["id"], more="later")
    await tools.advance(scene["item"]["id"], "start", "ann")
    assert await tools("claim_item", **call) == first, "a retry gets the first answer"
    other = await tools.refusal("claim_item", **{**call, "include": ["item"]})
    assert other.code == "request_id_reused"


async def test_items_that_are_handed_over_come_with_it(fronts: Fronts, tools: Client) -> None:
    """From a completion, which writes the result, to calls parked on two front-ends."""
    one, other = await fronts.pair()
    blocker, item = await tools.add(role="work"), await tools.add(description="d")
    await tools.link(blocker, item)
    await write(tools, item, plan="text")
    parked = await one.park("ann", include=ALL)
    (retry,) = [await other.park("ann", request_id=parked.request_id, include=ALL)]
    before = {front: front.runs.copy() for front in (one, other)}
    await tools.advance(blocker, "complete", result={"ok": True})
    claims = [await call.claim() for call in (parked, retry)]
    assert claims[0] == claims[1]
    assert [front.runs["claim_next"] - before[front]["claim_next"] for front in (one, other)] == [0, 0]
    expected = {"item": await tools.get(item), "notes": await notes_of(tools, item)}
    assert {name: claims[0][name] for name in expected} == expected
    assert [entry["result"] for entry in claims[0]["results"]] == [{"ok": True}]
    await write(tools, item, plan="changed")
    assert await take(tools, "ann", request_id=parked.request_id, wait_ms=1, include=ALL) == claims[0]


async def test_a_call_that_waits_in_vain_and_one_that_finds_at_once(fronts: Fronts, tools: Client) -> None:
    front = await fronts.make()
    nothing = await take(front, "ann", wait_ms=1, include=ALL)
    assert (nothing["outcome"], included(nothing)) == ("no_match", {})
    item = await tools.add()
    found = await take(front, "ann", wait_ms=1000, include=["item"])
    assert included(found) == {"item": await tools.get(item)}


async def test_only_the_claim_that_is_held_includes_anything(tools: Client) -> None:
    held, first, last = await tools.add(), await tools.add("first"), await tools.add("last")
    await tools.claim("bob", held)
    call: Json = {"actor": actor("ann"), "requestId": fresh_id(), "include": ALL}
    claims = [{"itemId": item} for item in (held, first, last, fresh_id())]
    results = (await tools("claim_item", **call, claims=claims))["claimResults"]
    assert [result["outcome"] for result in results] == ["already_claimed", "superseded", "success", "not_found"]
    assert [included(result) for result in results] == [
        {}, {}, {"item": await tools.get(last), "notes": [], "results": []}, {}
    ]  # fmt: skip
    call["requestId"] = fresh_id()
    released = await tools("claim_item", **call, releases=[{"itemId": last}])
    assert released["summary"]["releasesSucceeded"] == 1


async def test_a_context_includes_it_beside_what_it_shows_anyway(tools: Client, scene: Json) -> None:
    item = scene["item"]["id"]
    plain = await tools("get_context", itemId=item)
    assert await tools("get_context", itemId=item, include=ALL) == {**plain, **scene}
    short = await tools("get_context", itemId=item[:8], include=["results"])
    assert short == {**plain, "results": scene["results"]}
    with_ancestors = await tools("get_context", itemId=item, include=["item"], includeAncestors=True)
    assert with_ancestors["item"] == await tools.get(item, includeAncestors=True)


@pytest.mark.parametrize("tool", ["claim_item", "get_context"])
async def test_unknown_parts_are_refused_and_say_what_is_allowed(tools: Client, tool: str) -> None:
    item = await tools.add()
    calls: Json = {
        "get_context": {"itemId": item},
        "claim_item": {"actor": actor("ann"), "requestId": fresh_id(), "claims": [{"itemId": item}]},
    }
    for wrong in ("blockers", "Item ", ""):
        failure = await tools.refusal(tool, **calls[tool], include=["notes", wrong])
        assert failure.code == "VALIDATION_ERROR"
        assert failure.message.startswith("include[1]")
        assert "item, notes, results" in failure.message
    assert (await tools("get_context", itemId=item)).get("claimDetail") is None


async def test_a_context_of_no_item_includes_nothing(tools: Client) -> None:
    for arguments in ({}, {"since": "2026-01-01T00:00:00Z"}):
        failure = await tools.refusal("get_context", include=["item"], **arguments)
        assert failure.message == "include: needs itemId"


# --- bounds -----------------------------------------------------------------------------------


async def both(tools: Client, item: str) -> Json:
    """What a claim and a context include: the same, within the bound."""
    claimed = await claim(tools, "reader", item)
    context = await tools("get_context", itemId=item, include=ALL)
    assert included(context) == included(claimed)
    assert chars(claimed) <= MAX_CHARS
    return included(claimed)


async def test_long_texts_are_shortened_to_one_length_and_short_ones_stay_whole(tools: Client) -> None:
    description, metadata = "ä" * 100_000, json.dumps(["x" * 200_000])
    item = await tools.add(description=description, metadata=metadata, properties='{"p": 1}', traits="careful")
    texts = {"note": "n" * 400_000, "short": "whole", "quotes": '"' * 300_000}
    await write(tools, item, **texts)
    result = {"rows": ["r" * 250_000]}
    await tools.link(await end(tools, result), item)
    await tools.link(await end(tools, {"short": [1]}), item)
    found = await both(tools, item)
    assert chars(found) > MAX_CHARS - 500, "the room is used"
    shown = found["item"]
    assert shown["sizes"] == {"description": 200_000, "metadata": len(metadata)}
    assert json.loads(shown["properties"]) == {"p": 1, "traits": ["careful"]}
    notes = {note["key"]: note for note in found["notes"]}
    assert (notes["short"]["body"], "size" in notes["short"]) == ("whole", False)
    assert {key: notes[key]["size"] for key in ("note", "quotes")} == {"note": 400_000, "quotes": 300_000}
    long, short = found["results"]
    assert (long["size"], long["format"]) == (len(msgspec.json.encode(result)), "json")
    assert (short["result"], "size" in short) == ({"short": [1]}, False)
    beginnings = [
        (shown["description"], description),
        (shown["metadata"], metadata),
        (notes["note"]["body"], texts["note"]),
        (notes["quotes"]["body"], texts["quotes"]),
        (long["result"], msgspec.json.encode(result).decode()),
    ]
    assert all(whole.startswith(part) for part, whole in beginnings)
    lengths = [len(msgspec.json.encode(part).decode()) - 2 for part, _ in beginnings]
    assert min(lengths) > 11_000
    assert max(lengths) - min(lengths) <= 2
    rest = await tools("query_notes", operation="get", id=long["noteId"])
    assert json.loads(rest["body"]) == result


async def test_what_fits_stays_whole_in_any_script(tools: Client) -> None:
    """The bound counts characters, not bytes."""
    item = await tools.add()
    await write(tools, item, a="語" * 30_000, b="\U0001f600" * 29_000)
    found = await both(tools, item)
    assert [len(note["body"]) for note in found["notes"]] == [30_000, 29_000]
    assert not any("size" in note for note in found["notes"])


async def test_more_text_than_one_call_reads(tools: Client) -> None:
    item = await tools.add()
    for number in range(7):
        await write(tools, item, **{f"k{number}": "x" * 480_000})
    await write(tools, item, last="short")
    found = await both(tools, item)
    assert [note["key"] for note in found["notes"]] == [*(f"k{n}" for n in range(7)), "last"]
    assert [note.get("size") for note in found["notes"]] == [480_000] * 7 + [None]
    assert found["notes"][-1]["body"] == "short"
    assert sum(len(note["body"]) > 10_000 for note in found["notes"]) == 3
    assert "notesTotal" not in found


async def test_more_notes_and_results_than_an_answer_holds(tools: Client) -> None:
    item = await tools.add()
    await write(tools, item, **{f"k{number:03}": f"{number} " * 200 for number in range(480)})
    for start in range(0, 120, 40):
        blockers = await tools.add_many(40)
        elements = [{"itemId": one, "trigger": "complete", "result": [one] * 20} for one in blockers]
        assert (await tools("advance_item", transitions=elements))["summary"]["failed"] == 0, start
        await tools.link_all([(one, item) for one in blockers])
    found = await both(tools, item)
    assert (found["notesTotal"], found["resultsTotal"]) == (480, 120)
    assert [note["key"] for note in found["notes"]] == [f"k{n:03}" for n in range(len(found["notes"]))]
    assert len(found["notes"]) == len(found["results"]) > 50
    assert all(len(note["body"]) >= 150 for note in found["notes"])
    assert await both(tools, item) == found


async def test_a_history_that_is_too_long_gives_way_to_the_rest(tools: Client) -> None:
    item = await tools.add("\1" * 500, summary="\1" * 2000, description="d" * 60_000)
    for trigger in ("start", "complete", "reopen", "start", "complete", "reopen"):
        assert (await tools.advance(item, trigger, summary="\1" * 2000))["applied"]
    await write(tools, item, note="n" * 60_000)
    found = await both(tools, item)
    assert found["item"]["transitions"] == (await tools.get(item))["transitions"][: len(found["item"]["transitions"])]
    assert len(found["notes"][0]["body"]) > 10_000


TEXT = st.one_of(
    st.text(max_size=40),
    st.tuples(st.sampled_from(["x", "ä", '"', "\1", "語", "\U0001f600"]), st.integers(0, 70_000)).map(
        lambda one: one[0] * one[1]
    ),
)


@given(
    long=st.lists(TEXT, min_size=3, max_size=3), notes=st.lists(TEXT, max_size=60), results=st.lists(TEXT, max_size=60)
)
def test_the_bound_holds_for_any_texts(long: list[str], notes: list[str], results: list[str]) -> None:
    def made() -> tuple[Parts, list[Text]]:
        fields: dict[str, Any] = dict.fromkeys(("parent_id", "status_label", "previous_role", "tags", "type"), UNSET)
        item = IncludedItem(
            id="i" * 36, title="t", summary="", role="queue", priority="low", complexity=None, depth=0,
            requires_verification=False, created_at="", modified_at="", role_changed_at="", transitions=UNSET,
            description="", metadata="", properties="", **fields,
        )  # fmt: skip
        parts = Parts(item=item, notes=[], results=[])
        texts = [Text(item, field, text, len(text.encode())) for field, text in zip(LONG_TEXTS, long, strict=True)]
        for n, text in enumerate(notes):
            note = IncludedNote(
                id="n" * 36, item_id="i" * 36, key=f"k{n}", role="work", body="", created_at="", modified_at=""
            )
            parts.notes.append(note)  # type: ignore[union-attr]
            texts.append(Text(note, "body", text, len(text.encode())))
        for text in results:
            result = BlockerResult(
                item_id="i" * 36, title="t", role="terminal", note_id="n" * 36, result="", format="json", at=""
            )
            parts.results.append(result)  # type: ignore[union-attr]
            body = msgspec.json.encode([text]).decode()
            texts.append(Text(result, "result", body, len(body.encode())))
        return parts, texts

    parts, texts = made()
    fit(parts, texts)
    encoded = msgspec.json.encode(parts)
    assert len(encoded.decode()) <= MAX_CHARS
    again, same = made()
    fit(again, same)
    assert msgspec.json.encode(again) == encoded
    answer = json.loads(encoded)
    cut = "sizes" in answer["item"] or any("size" in row for row in (*answer["notes"], *answer["results"]))
    total = sum(len(msgspec.json.encode(text).decode()) for text in (*long, *notes, *results))
    if total > MAX_CHARS:
        assert cut or len(answer["notes"]) < len(notes) or len(answer["results"]) < len(results)
    if total + 400 * (1 + len(notes) + len(results)) < MAX_CHARS:
        assert not cut
        assert [note["body"] for note in answer["notes"]] == notes
        assert [row["result"] for row in answer["results"]] == [[text] for text in results]


async def pages(tools: Client, item: str, include: list[str]) -> list[Json]:
    """All pages of what is included of an item."""
    found = [await tools("get_context", itemId=item, include=include)]
    while "nextOffset" in found[-1]:
        more = await tools("get_context", itemId=item, include=include, offset=found[-1]["nextOffset"])
        found.append(more)
    return found


@pytest.mark.parametrize(("count", "size"), [(99, 1), (100, 1), (101, 1), (199, 1), (250, 100)])
async def test_no_result_of_many_is_left_out_silently(tools: Client, count: int, size: int) -> None:
    item, results = await fan_in(tools, count, size)
    claimed = await claim(tools, "ann", item)
    shown = len(claimed["results"])
    assert claimed.get("resultsLeft", 0) == count - shown
    assert claimed.get("resultsTotal", shown) == count
    assert claimed.get("nextOffset", shown) == shown
    found = [one for page in await pages(tools, item, ["results"]) for one in page["results"]]
    assert {one["itemId"] for one in found} == results.keys()
    assert len(found) == count
    assert [one["at"] for one in found] == sorted(one["at"] for one in found), "oldest first, over all pages"
    assert "nextOffset" not in (await pages(tools, item, ["results"]))[-1]
    beyond = await tools("get_context", itemId=item, include=["results"], offset=count + 5)
    assert (beyond["results"], "resultsLeft" in beyond) == ([], False)
    assert {"nextOffset", "resultsTotal"} & (await tools("get_context", itemId=item)).keys() == set()


async def test_pages_have_all_notes_and_results_of_an_item_with_many_of_both(tools: Client) -> None:
    item, results = await fan_in(tools, 130, 30)
    await write(tools, item, **{f"k{number:03}": f"{number} " * 200 for number in range(310)})
    found = await pages(tools, item, ["item", "notes", "results"])
    assert [note["key"] for page in found for note in page["notes"]] == [f"k{n:03}" for n in range(310)]
    assert sorted(one["itemId"] for page in found for one in page["results"]) == sorted(results)
    for page in found:
        assert chars(page) <= MAX_CHARS
