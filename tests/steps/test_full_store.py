"""A full store rejects changes atomically, and recovers when memory is freed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from coordinator.errors import ToolFailure
from coordinator.steps.model import NewStep, Plan
from coordinator.store.idempotency import NO_KEY, idempotency_key
from coordinator.toolsets.flows.store.flows import FlowStore, NewFlow
from tests.steps.rig import Rig, then

pytestmark = pytest.mark.anyio


async def contents(rig: Rig) -> dict[bytes, bytes]:
    """Everything that is in the store."""
    found = {}
    for key in sorted(await rig.store.command("KEYS", "*")):
        found[key] = await rig.store.command("DUMP", key)
    return found


async def test_a_full_store_rejects_all_changes_atomically(rig: Rig) -> None:
    flow = await rig.create(
        Plan((*(NewStep(f"s{number}") for number in range(6)), NewStep("g", "gate", expires_ms=9_000)))
    )
    late = await rig.create(Plan((NewStep("late", delay_ms=60_000),)))
    failed = await rig.create()
    await rig.flows.cancel("default", NO_KEY, failed, "bob")
    steps = await rig.worker.take(4)
    await rig.expire(steps[:1])
    await rig.ring(late + 1, flow + 7)
    reports: list[Callable[[], Awaitable[object]]] = [
        lambda: rig.worker.report(steps[1], "D", then("b"), want=2),
        lambda: rig.worker.report(steps[1], "F", Plan(error="no"), want=2),
        lambda: rig.worker.report(steps[1], "Y", 0, want=2),
        lambda: rig.worker.report(steps[1], "B", 0, want=2),
        lambda: rig.worker.take(2),
        lambda: rig.worker.steps.sweep("default"),
        lambda: rig.worker.steps.reclaim("default", []),
        lambda: rig.flows.release("default", NO_KEY, flow + 7, "bob"),
        lambda: rig.flows.cancel("default", NO_KEY, flow, "bob"),
        lambda: rig.flows.retry("default", NO_KEY, failed, "bob"),
        lambda: rig.create(),
    ]
    before = await contents(rig)
    await rig.store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        for change in reports:
            with pytest.raises(ToolFailure) as refused:
                await change()
            assert refused.value.code == "store_full"
        assert await contents(rig) == before
        # Reads still work.
        assert (await rig.flow(flow)).row.status == "running"
    finally:
        await rig.store.command("CONFIG", "SET", "maxmemory", 0)
    for step in steps[1:]:
        await rig.worker.done(step, Plan())
    swept = await rig.worker.steps.sweep("default")
    assert (swept.lost, swept.fired) == (1, 2)
    keys_left = {step.key for step in await rig.worker.take(9)}
    assert keys_left == {"s0", "s4", "s5", "late", "g"}


async def test_a_repeated_request_is_answered_from_its_record_by_a_new_process(rig: Rig) -> None:
    made, retry = (idempotency_key("bob", name, "a tool") for name in ("made", "again"))
    new = NewFlow(name="n", creator="bob", spec=b"spec", steps=20, plan=Plan((NewStep("g", "gate"),)))
    flow = await rig.flows.create("default", made, new)
    await rig.flows.cancel("default", NO_KEY, flow, "bob")
    retried = await rig.flows.retry("default", retry, flow, "bob")
    await rig.store.command("CONFIG", "SET", "maxmemory", 1)
    try:
        other = FlowStore(rig.store, rig.settings)
        assert await other.create("default", made, new) == flow
        assert await other.retry("default", retry, flow, "bob") == retried
        for request in (NO_KEY, idempotency_key("bob", "new", "a tool")):
            with pytest.raises(ToolFailure) as refused:
                await other.create("default", request, new)
            assert refused.value.code == "store_full"
    finally:
        await rig.store.command("CONFIG", "SET", "maxmemory", 0)
