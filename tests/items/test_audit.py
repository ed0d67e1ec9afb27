"""The audit: finds nothing in a consistent project, and names each difference."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.store import keys
from coordinator.store.record_layout import CLASS_SIZE
from coordinator.toolsets.items.audit import SLICE, AuditReport, audit
from tests.items.client import Client
from tests.items.moments import lapse, set_state

pytestmark = pytest.mark.anyio

GHOST = "0" * 32
_PLACE = (15 << 41) + (1 << 40)
END = 9_999_999_999_999
DONE, NEVER = 24 * CLASS_SIZE + _PLACE, 28 * CLASS_SIZE + _PLACE
"""Scores: of a terminal item, and of a class that does not exist."""
LONG = "long " * 30


async def a_bit_of_everything(tools: Client) -> dict[str, str]:
    """A project with data in every key family; inner ids by title, and one dependency."""
    root = await tools.add("root", summary=LONG, description=LONG, tags="api,backend", type="feature")
    ids = {"root": root}
    for title in ("waits", "blocker", "held", "lapsed", "blocked"):
        ids[title] = await tools.add(title, parentId=root, tags="api")
    ids["dependency"] = await tools.link(ids["blocker"], ids["waits"])
    await tools.link(ids["waits"], ids["held"], type="IS_BLOCKED_BY", unblockAt="work")
    await tools.link(ids["held"], ids["blocked"], type="RELATES_TO")
    await tools.claim("agent-1", ids["lapsed"])
    await lapse(tools, ids["lapsed"])
    await tools.claim("agent-2", ids["held"])
    await tools.move(ids["blocked"], "block")
    notes = [{"itemId": ids["waits"], "key": "plan", "role": "queue", "body": "text"}]
    notes.append({"itemId": ids["waits"], "key": "log", "role": "work", "body": ""})
    ids["note"] = (await tools("manage_notes", operation="upsert", notes=notes))["notes"][0]["id"]
    return {name: text.replace("-", "") for name, text in ids.items()}


async def audited(tools: Client) -> AuditReport:
    return await audit(tools.store, tools.project)


@pytest.mark.every_store
async def test_a_consistent_project_has_no_differences(tools: Client) -> None:
    await a_bit_of_everything(tools)
    report = await audited(tools)
    assert report == AuditReport(items=6, edges=3, claims=2)


async def test_an_empty_project_is_consistent(tools: Client) -> None:
    assert await audited(tools) == AuditReport()


@pytest.mark.parametrize(
    ("damage", "key", "problem"),
    [
        ("HSET i:{waits} d 3", "i:{waits}", "has depth 3, should have 1"),
        ("HSET i:{waits} pa " + GHOST, "i:{waits}", f"is below {GHOST}, which does not exist"),
        ("DEL i:{root}", "i:{waits}", "is below {root}, which does not exist"),
        ("HDEL i:{waits} nb", "i:{waits}", "counts 0 unsatisfied blockers, but has 2"),
        ("HDEL i:{waits} nb", "i:{waits}", "is in class 1, should be in q"),
        ("HSET i:{blocker} nb 1", "i:{blocker}", "counts 1 unsatisfied blockers, but has 0"),
        (f"STATE i:{{blocker}} score={DONE}", "i:{waits}", "counts 2 unsatisfied blockers, but has 1"),
        ("HSET i:{waits} lv 0", "e:{waits}", "has level 0, not above 0 of {blocker}, which blocks it"),
        ("HSET i:{waits} odd 1", "i:{waits}", "has a field odd that means nothing"),
        ("HSET i:{waits} rv 7", "i:{waits}", "has rv = 7, out of its range"),
        ("HSET i:{waits} pr 0", "i:{waits}", "has a previous role without being blocked"),
        ("STATE i:{waits} modified=1", "i:{waits}", "was modified before it was created"),
        ("STATE i:{waits} role_changed=1", "i:{waits}", "changed its role before it was created"),
        ("HSET i:{waits} w short", "i:{waits}", "ValueError(\"'73686f7274' is no record of an item\")"),
        ("HSET i:{waits} w " + "\xff" * 60, "i:{waits}", "cannot be read: UnicodeDecodeError("),
        ("HDEL i:{waits} w", "i:{waits}", "cannot be read: KeyError('w')"),
        (f"STATE i:{{waits}} score={20 * CLASS_SIZE}", "i:{waits}", f"ValueError('{20 * CLASS_SIZE} is no score')"),
        ("STATE i:{waits} score=5", "i:{waits}", "cannot be read: ValueError('5 has priority 0 and complexity 0')"),
        (f"STATE i:{{waits}} score={NEVER}", "i:{waits}", f"cannot be read: ValueError('{NEVER} is no score')"),
        ("HSET i:{waits} lv odd", "i:{waits}", "cannot be read: ValueError("),
        ("HSET i:{root} d odd", "i:{root}", "cannot be read: ValueError("),
        ("HDEL i:{waits} t", "i:{waits}", "has no title"),
        ("HSET l:{waits} t twice", "i:{waits}", "has the text t twice, short and long"),
        ("HSET l:{waits} z odd", "i:{waits}", "has a long text z that means nothing"),
        ("HSET i:{waits} s " + "x" * 65, "i:{waits}", "has a short text s of 65 bytes"),
        ("HSET l:" + GHOST + " x text", "l:" + GHOST, "belongs to an item that does not exist"),
        ("HSET n:" + GHOST + " key note", "n:" + GHOST, "belongs to an item that does not exist"),
        ("HSET e:" + GHOST + " B{waits} {dependency}-", "e:" + GHOST, "has an edge B{waits} from or to an item that"),
        ("ZREM x:c {waits}", "i:{waits}", "is missing in c"),
        ("ZREM x:p{root} {waits}", "i:{waits}", "is missing in p{root}"),
        ("ZREM x:gapi {waits}", "i:{waits}", "is missing in gapi"),
        ("ZREM x:yfeature {root}", "i:{root}", "is missing in yfeature"),
        ("ZADD x:c 5 {waits}", "i:{waits}", "has score 5 in c, should have "),
        ("ZADD x:godd 5 {waits}", "x:godd", "lists {waits}, which is not there or does not belong there"),
        ("ZADD x:c 5 " + GHOST, "x:c", f"lists {GHOST}, which is not there or does not belong there"),
        ("HDEL e:{blocker} B{waits}", "e:{waits}", "has an edge b{blocker} that is missing at its other end"),
        ("HSET e:{waits} b{blocker} {dependency}1", "e:{waits}", "should be {dependency}1"),
        ("HSET e:{blocker} B{waits} {dependency}", "e:{blocker}", "cannot be read: ValueError("),
        ("DEL d:{dependency}", "e:{waits}", "has an edge b{blocker} whose id leads to nothing"),
        ("SET d:" + GHOST + " B{blocker}{waits}", "d:" + GHOST, "names an edge B{blocker}{waits} that is not there"),
        ("ZADD ab 5 {waits}", "i:{waits}", "is listed among the abandoned items, but is not abandoned"),
        ("ZADD ab 5 " + GHOST, "ab", f"lists {GHOST} ({GHOST}), which is not there or does not belong there"),
        ("DEL xb:", "i:{root}", "has bound none in band 1, but "),
        (f"ZADD xb: {2**46 - 1} {{root}}1", "i:{root}", f"has bound {2**46 - 1} in band 1, but "),
        ("ZADD xb: 5 {root}2", "xb:", "lists {root}2 at 5, which is not there or does not belong there"),
        ("ZADD xb:{root} 5 {root}0", "xb:{root}", "lists {root}0 at 5, which is not there or does not belong there"),
        ("ZADD xb: 5 " + GHOST + "0", "xb:", f"lists {GHOST}0 at 5, which is not there"),
        (f"ZADD xb: {5 * 2**45} {{root}}1", "xb:", f"lists {{root}}1 at {5 * 2**45}, which is not there"),
        ("HSET i:{waits} k 1", "i:{waits}", "is put aside without being held"),
        ("HSET i:{blocker} st 1", "i:{blocker}", "is in class q, should be in 1"),
        ("HSET i:{blocker} st 2", "i:{blocker}", "has st = 2, out of its range"),
        ("ZREM ls agent-2", "i:{held}", "is held without a lease"),
        ("ZADD ls 5 agent-1", "i:{lapsed}", "has a lease without being held"),
        ("ZADD ls 5 agent-2", "i:{held}", "has a lease until 5, but its claim ends at "),
        ("ZADD ls 5 agent-9", "ls", "lists agent-9, which has no claim"),
        ("STATE i:{held} fence=0", "i:{held}", "is no record of an item"),
        ("STATE i:{held} expires=0", "i:{held}", "is no record of an item"),
        ("STATE i:{held} expires=0 claimed=0 first=0 holder=", "i:{held}", "is held by nobody"),
        ("STATE i:{held} claimed=1 first=2", "i:{held}", "has claim times in the wrong order"),
        ("STATE i:{held} expires=1 claimed=2 first=1", "i:{held}", "has claim times in the wrong order"),
        (f"STATE i:{{lapsed}} expires={END}", "i:{lapsed}", "has a live claim that does not hold it"),
        ("HSET i:{held} rs x1:key", "i:{held}", "has a live claim that lacks x1:key of what it demands"),
        ("HDEL ag agent-1", "i:{lapsed}", "is claimed by an agent that holds another item or none"),
        ("HSET ag agent-2 {waits}", "ag", "lists {waits} (agent-2), which is not there or does not belong there"),
        ("HSET ag agent-9 " + GHOST, "ag", f"lists {GHOST} (agent-9), which is not there"),
        ("HSET lp * 7", "lp", "counts 7 lapsed claims in *, should count 1"),
        ("DEL lp", "lp", "counts no lapsed claims in p{root}, should count 1"),
        ("HSET lp podd 1", "lp", "counts 1 lapsed claims in podd, should count no"),
        ("ZADD u:0000 0 " + GHOST[4:], "u:0000", f"lists {GHOST} ({GHOST[4:]}), which is not there"),
        ("DEL o:{note}", "n:{waits}", "marks a note plan that does not exist"),
        ("HSET o:{note} r w", "n:{waits}", "marks the note plan as {waits}, q, but it is {waits}, plan, w"),
        ("HDEL o:{note} b", "n:{waits}", "marks the note plan as filled, but it is empty"),
        ("HSET n:{waits} plan {note}q0", "n:{waits}", "marks the note plan as empty, but it is filled"),
        ("HDEL o:{note} k", "o:{note}", "is not among the notes of {waits}"),
        ("HDEL n:{waits} plan", "o:{note}", "is not among the notes of {waits}"),
        ("DEL u:{waits:.4}", "i:{waits}", "is missing in the index of prefixes"),
    ],
)  # fmt: skip
async def test_each_difference_is_named(tools: Client, damage: str, key: str, problem: str) -> None:
    ids = await a_bit_of_everything(tools)
    await tools.next()  # puts the lapsed claim back
    command, name, *words = damage.format(**ids).split(" ")
    if command == "STATE":
        changes = (word.split("=") for word in words)
        await set_state(tools, name[2:], **{part: int(value) if value else "" for part, value in changes})
    else:
        values = [word.encode("latin-1") for word in words]
        await tools.store.command(command, keys.project_prefix(tools.project) + name.encode(), *values)
    found = (await audited(tools)).differences
    expected = problem.format(**ids)
    assert any(one.key == key.format(**ids) and expected in one.problem for one in found), found


async def test_unreadable_data_hides_no_other_difference(tools: Client) -> None:
    ids = await a_bit_of_everything(tools)
    prefix = keys.project_prefix(tools.project).decode()
    await tools.store.command("HSET", f"{prefix}i:{ids['root']}", "odd", 1, "d", "odd")
    await tools.store.command("HSET", f"{prefix}i:{ids['blocked']}", "odd", 1)
    problem = "has a field odd that means nothing"
    assert {("i:" + ids["root"], problem), ("i:" + ids["blocked"], problem)} < set((await audited(tools)).differences)


async def test_an_unlisted_queue_of_parked_claims_is_named(tools: Client) -> None:
    queue = keys.queue.key(tools.project, "some")
    await tools.store.command("ZADD", queue, 1, "waiter")
    await tools.store.command("EXPIRE", queue, 60)
    assert [one.key for one in (await audited(tools)).differences] == ["wq:some"]


async def test_more_items_than_a_slice_are_all_checked(tools: Client) -> None:
    ids = await tools.add_many(2 * SLICE + 1)
    assert await audited(tools) == AuditReport(items=len(ids))
    for item in ids[:SLICE]:
        await tools.store.command("HSET", keys.item.key(tools.project, item.replace("-", "")), "d", 1)
    assert len((await audited(tools)).differences) == SLICE


async def test_other_projects_keys_are_not_read(tools: Client, elsewhere: Client) -> None:
    item = await elsewhere.add()
    await elsewhere.store.command("HSET", keys.item.key(elsewhere.project, item.replace("-", "")), "d", 2)
    assert await audited(tools) == AuditReport()
    assert (await audited(elsewhere)).differences


async def test_a_project_in_use_has_no_differences(tools: Client) -> None:
    ids = await tools.add_many(20)
    over = asyncio.Event()

    async def work(number: int) -> None:
        while not over.is_set():
            item = ids[number]
            await tools.claim(f"agent-{number}", item)
            await tools.advance(item, "start", f"agent-{number}")
            await tools.advance(item, "complete", f"agent-{number}")
            await tools.advance(item, "reopen", f"agent-{number}")

    workers = [asyncio.create_task(work(number)) for number in range(3)]
    reports = [await audited(tools) for _ in range(5)]
    over.set()
    await asyncio.gather(*workers)
    assert [report.differences for report in reports] == [[]] * 5
    assert not any(report.counters_judged for report in reports)
    after = await audited(tools)
    assert after.counters_judged
    assert not after.differences


async def test_a_history_of_answers_past_its_bound_is_named(tools: Client) -> None:
    history = keys.answered.key(tools.project, "question")
    for _ in range(keys.MOST_ANSWERED):
        await tools.store.command("XADD", history, "*", "r", "row")
    assert await audited(tools) == AuditReport()
    await tools.store.command("XADD", history, "*", "r", "row")
    told = f"has {keys.MOST_ANSWERED + 1} answers, of which at most {keys.MOST_ANSWERED} are to be kept"
    assert (await audited(tools)).differences == [("an:question", told)]
