"""States as tokens: only those signed for the project are accepted, and unpacking is bounded."""

from __future__ import annotations

import base64
import gzip
import tracemalloc
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.toolsets.navigator.rules import token
from tests.navigator import walker
from tests.navigator.client import Client
from tests.navigator.workflows import Make, write
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio

P = token.PREFIX
places = st.integers(0, 1 << 20)
RELAXED = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def refusal(nav: Client, state: str, tool: str = "nav_situation", **more: Any) -> str:
    """The error of a state that must be rejected."""
    with pytest.raises(ToolFailure) as caught:
        await nav(tool, state=state, **more)
    assert caught.value.code == "invalid_state"
    return caught.value.message


def bytes_of(state: str) -> bytes:
    return base64.b64decode(state.removeprefix(P))


def of_bytes(raw: bytes) -> str:
    return P + base64.b64encode(raw).decode()


async def test_a_token_has_the_documented_form(nav: Client) -> None:
    state = (await nav.start("change"))["state"]
    assert state.startswith("v1.gzB64.H4sIAAAA")
    raw = base64.b64decode(state.removeprefix(P), validate=True)
    unzip = zlib.decompressobj(wbits=31)
    held = msgspec.json.decode(unzip.decompress(raw))
    assert len(unzip.unused_data) == token.MAC_BYTES
    assert held["workflowId"] == "change"
    assert held["currentActivity"] == "understand"
    assert held["currentStep"] == 1
    assert held["startedAt"] == held["updatedAt"]
    assert "history" not in held


@pytest.mark.parametrize("tool", ["nav_situation", "nav_checkpoint", "nav_action"])
@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("", "Invalid token format. Expected prefix 'v1.gzB64.'"),
        ("v2.gzB64.H4sI", "Invalid token format. Expected prefix"),
        ("V1.gzB64.H4sI", "Invalid token format. Expected prefix"),
        (P, "Empty token payload"),
        (P + "!!!!", "Failed to decompress payload: it is not base64"),
        (P + "H4sIAAA", "Failed to decompress payload: it is not base64"),
        (P + "H4sI\n", "Failed to decompress payload: it is not base64"),
        (P + "aGVsbG8=", "Failed to decompress payload: it is not gzip data"),
        (P + "H4sI", "Failed to decompress payload: it is not gzip data"),
        (P + "A" * (token.MAX_TOKEN + 1), "Failed to decompress payload: a token has at most"),
        (of_bytes(gzip.compress(b"{}", mtime=0)), "Invalid token signature"),
        (of_bytes(gzip.compress(b"{}", mtime=0) + b"\0" * 16), "Invalid token signature"),
    ],
)
async def test_malformed_tokens_are_rejected(nav: Client, tool: str, state: str, said: str) -> None:
    more = {"action": "complete_step", "step_id": "x"} if tool == "nav_action" else {}
    assert (await refusal(nav, state, tool, **more)).startswith(said)


@RELAXED
@given(st.data())
async def test_every_change_of_a_token_is_detected(nav: Client, data: st.DataObject) -> None:
    state = (await nav.start("change"))["state"]
    raw = bytes_of(state)
    how = data.draw(st.sampled_from(("flip", "cut", "insert", "double")))
    at = data.draw(places) % len(raw)
    if how == "flip":
        changed = raw[:at] + bytes([raw[at] ^ (1 << data.draw(st.integers(0, 7)))]) + raw[at + 1 :]
    elif how == "cut":
        changed = raw[:at]
    elif how == "insert":
        changed = raw[:at] + data.draw(st.binary(min_size=1, max_size=4)) + raw[at:]
    else:
        changed = raw + raw
    await refusal(nav, of_bytes(changed))
    await refusal(nav, state[: data.draw(places) % len(state)])


@RELAXED
@given(st.one_of(st.text(max_size=80), st.binary(max_size=80).map(of_bytes)))
async def test_arbitrary_text_is_rejected(nav: Client, text: str) -> None:
    await refusal(nav, text)


async def test_a_state_belongs_to_its_project(nav: Client) -> None:
    situation = await nav.start("change")
    other = Client(nav.store, nav.project + "-2")
    assert "not issued here for this project" in await refusal(other, situation["state"])
    assert (await nav("nav_situation", state=situation["state"]))["success"]


async def test_states_of_older_keys_are_valid_until_the_key_is_removed(nav: Client) -> None:
    situation = await nav.start("change")
    name = keys.signing_keys.key(keys.FLEET)
    held = await nav.store.command("HGETALL", name)
    pairs = held if isinstance(held, list) else [part for pair in held.items() for part in pair]
    try:
        # A newer key signs from now on, the older one still verifies.
        await nav.store.command("HSET", name, "newest", b"99999999999999:" + b"7" * 64)
        later = Client(nav.store, nav.project)
        answer = await later.must(situation, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="small")
        await nav.store.command("HDEL", name, *pairs[::2])
        last = Client(nav.store, nav.project)
        await refusal(last, situation["state"])
        assert (await last("nav_situation", state=answer["state"]))["success"]
    finally:
        await nav.store.command("DEL", name)
        await nav.store.command("HSET", name, *pairs)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{}", "State validation failed: Object missing required field `workflowId`"),
        (b"[]", "State validation failed: "),
        (b'{"workflowId": 3}', "State validation failed: "),
        (b"{", "Failed to parse JSON payload"),
        (b"", "Failed to parse JSON payload"),
        (b"\xff\xfe", "Failed to parse JSON payload"),
        (b'{"variables":' + b"[" * 100_000, "Failed to parse JSON payload"),
    ],
)
async def test_signed_garbage_is_rejected(nav: Client, content: bytes, said: str) -> None:
    message = await refusal(nav, await nav.signed(gzip.compress(content)))
    assert message.startswith((said, "State validation failed: "))


async def test_signed_bytes_other_than_one_gzip_member_are_rejected(nav: Client) -> None:
    member = gzip.compress(b"{}")
    for packed in (member[:-3], member + b"more", member + member, b"\x1f\x8b\x08" + b"\0" * 20):
        assert (await refusal(nav, await nav.signed(packed))).startswith("Failed to decompress payload")


@pytest.mark.parametrize("size", [token.MAX_UNPACKED_BYTES + 1, 200_000_000])
async def test_a_gzip_bomb_is_rejected(nav: Client, size: int) -> None:
    squeezed = zlib.compressobj(9, wbits=31)
    chunk = b" " * 1_000_000
    parts = [squeezed.compress(chunk[: min(len(chunk), size - at)]) for at in range(0, size, len(chunk))]
    member = b"".join((*parts, squeezed.flush()))
    signed = await nav.signed(member)
    assert len(signed) < token.MAX_TOKEN
    tracemalloc.start()
    said = [await refusal(nav, signed), await refusal(nav, of_bytes(member + b"\0" * 16))]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said[0].startswith("Failed to decompress payload: it has more than")
    assert said[1].startswith("Invalid token signature")
    assert peak < 8 * token.MAX_UNPACKED_BYTES


async def test_the_size_of_a_state_is_bounded(nav: Client) -> None:
    with pytest.raises(ToolFailure, match=f"allowed are {token.MAX_STATE_BYTES}") as caught:
        await nav.start("change", notes_path="x" * token.MAX_STATE_BYTES)
    assert caught.value.code == "VALIDATION_ERROR"
    small = await nav.start("change")
    with pytest.raises(ToolFailure, match="variables"):
        await nav.do(
            small,
            "respond_to_checkpoint",
            checkpoint_id="scope-agreed",
            option_id="small",
            variables={"big": ["x" * 1000] * 300},
        )


async def test_repeated_reports_of_a_large_value_do_not_fill_the_state(nav: Client) -> None:
    situation = await nav.start("change")
    situation = await nav.must(situation, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="small")
    versions = []
    for step, letter in (("read-request", "a"), ("find-places", "b"), ("name-risks", "c")):
        report = letter * (token.MAX_STATE_BYTES * 3 // 4)
        situation = await nav.must(situation, "complete_step", step_id=step, variables={"report": report})
        state = nav.state(situation)
        assert state.variables["report"] == report
        versions.append(state.state_version)
    assert versions == sorted(set(versions))
    situation = await nav.must(situation, "transition", activity_id="build")
    with pytest.raises(ToolFailure, match="the state would have"):
        await nav.do(
            situation, "complete_step", step_id="update-branch", variables={"more": "x" * (token.MAX_STATE_BYTES // 2)}
        )


async def test_a_state_does_not_grow_with_progress(nav: Client) -> None:
    situation = await nav.start("change")
    situation = await nav.must(
        situation, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="design-first"
    )
    for step in ("read-request", "find-places", "name-risks"):
        situation = await nav.must(situation, "complete_step", step_id=step)
    situation = await nav.must(situation, "transition", activity_id="design")
    sizes = []
    for _ in range(5):
        situation = await nav.must(situation, "respond_to_checkpoint", checkpoint_id="design-agreed", option_id="again")
        for step in ("compare-ways", "write-design", "cut-into-tasks"):
            situation = await nav.must(situation, "complete_step", step_id=step)
        situation = await nav.must(situation, "transition", activity_id="design")
        sizes.append(len(situation["state"]))
    assert nav.state(situation).state_version > 25
    assert max(sizes) - min(sizes) <= 16
    assert max(sizes) <= 600


async def test_only_variables_that_differ_from_defaults_are_stored(tree: Tree, client: Make) -> None:
    declared = [
        {"name": "one", "type": "number", "defaultValue": 1},
        {"name": "list", "type": "array", "defaultValue": [True]},
        {"name": "map", "type": "object", "defaultValue": {"k": 1}},
    ]
    write(tree, {"id": "a", "steps": [{"id": one, "name": one} for one in "st"]}, variables=declared)
    nav = client()
    now = await nav.start("w", list=[1], other=None)
    assert _content(now["state"])["variables"] == {"list": [1], "other": None}
    now = await nav.must(now, "complete_step", step_id="s", variables={"map.k": 2, "list": [True]})
    assert _content(now["state"])["variables"] == {"map": {"k": 2}, "other": None}
    assert nav.state(now).variables == {"one": 1, "list": [True], "map": {"k": 2}, "other": None}


def _content(state: str) -> Any:
    return msgspec.json.decode(zlib.decompressobj(wbits=31).decompress(bytes_of(state)))


EARLIER = {
    "workflowId": "change",
    "workflowVersion": "1.0.0",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "updatedAt": "2026-01-01T00:00:01.000Z",
    "currentActivity": "build",
    "stateVersion": 9,
    "currentStep": 1,
    "completedActivities": ["understand"],
    "skippedActivities": ["design"],
    "completedSteps": {"understand": [1, 2, 3], "build": [1], "build/tasks": [1, 2]},
    "checkpointResponses": {
        "understand-scope-agreed": {"optionId": "small", "respondedAt": ""},
        "build-extra": {"optionId": "yes", "respondedAt": "", "effects": {"variablesSet": {"x": 1}}},
    },
    "activeLoops": [
        {"activityId": "build", "loopId": "tasks", "currentIteration": 0, "totalItems": 2, "startedAt": "",
         "currentItem": "p", "items": ["p", "q"]}
    ],
    "variables": {"task": "p"},
    "history": [{"timestamp": "", "type": "workflow_started", "activity": "understand"}],
}  # fmt: skip
"""A state of version 1."""


async def test_a_state_of_the_earlier_form_can_be_resumed(nav: Client) -> None:
    member = gzip.compress(msgspec.json.encode(EARLIER))
    signature = await nav.secrets.sign(f"navigator-state:{nav.project}", member)
    earlier = token.token(member, signature.mac)
    now = await nav("nav_situation", state=earlier)
    assert now["position"]["loop"] == {"id": "tasks", "name": "Task by task", "iteration": 1, "total": 2, "item": "p"}
    assert walker.next_call(now)[1]["step_id"] == "commit-task"
    now = await nav.must(now, "complete_step", step_id="commit-task")
    now = await nav.must(now, "advance_loop", loop_id="tasks")
    assert now["position"]["loop"]["item"] == "q"
    state = nav.state(now)
    assert (state.state_version, state.completed_activities, state.completed_steps) == (11, ["understand"], [1])


async def test_the_two_forms_of_a_state_are_not_confused(nav: Client) -> None:
    """A process of an earlier version rejects current states, which it could misread, as not signed by the fleet."""
    old = gzip.compress(msgspec.json.encode(EARLIER))
    assert "State validation failed" in await refusal(nav, await nav.signed(old))
    new = bytes_of((await nav.start("change"))["state"])
    assert await nav.secrets.verify(f"navigator-state:{nav.project}", new[: -token.MAC_BYTES], new[-16:]) is None


async def test_an_old_state_resumes_where_it_was_issued(nav: Client) -> None:
    """Any saved state can be resumed; newer ones are unaffected."""
    first = await nav.start("change")
    small = await nav.must(first, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="small")
    design = await nav.must(first, "respond_to_checkpoint", checkpoint_id="scope-agreed", option_id="design-first")
    assert nav.state(small).skipped_activities == ["design"]
    assert nav.state(design).variables["needs_design"] is True
    again = await nav("nav_situation", state=first["state"])
    assert again["state"] == first["state"]
    assert again["checkpoint"] == first["checkpoint"]
