"""Items as subjects of the audit: each with its entries in all indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coordinator.store import keys
from coordinator.toolsets.items.audit import dependencies, parents, scopes, states, times, usage
from coordinator.toolsets.items.audit.fields import attempt_problems, own_problems
from coordinator.toolsets.items.audit.subject import ITEM, Read, Subject, pairs
from coordinator.toolsets.items.audit.tally import Tally
from coordinator.toolsets.items.rules.records import state_of

BY_TIME = keys.retries, keys.backoffs, keys.postponed, keys.quarantined, keys.due, keys.recurring
"""Indexes of items by a time."""


def subject(tally: Tally, name: str, item: str) -> Subject:
    """An item. Adds it to the tally."""

    def extra_reads(first: list[Any]) -> list[Read]:
        fields, edges = pairs(first[0]), dependencies.edges_of(first[1])
        agent = state_of(fields["w"]).holder
        return [
            ("TIME",),
            ("ZSCORE", f"{keys.prefixes.suffix}:{item[:4]}", item[4:]),
            ("ZSCORE", keys.leases.suffix, agent),
            ("HGET", keys.agents.suffix, agent),
            ("HMGET", f"{ITEM}:{fields.get('pa', '')}", "w", "d"),
            ("ZSCORE", keys.abandoned.suffix, item),
            *(("ZSCORE", family.suffix, item) for family in BY_TIME),
            ("ZSCORE", keys.apart.suffix, scopes.member_of(fields)),
            ("HGET", f"{keys.text.suffix}:{item}", "a"),
            ("SISMEMBER", keys.spent_budgets.suffix, item),
            ("ZSCORE", keys.usage_ranked.suffix, item),
            *(("ZCOUNT", f"{keys.ranked.suffix}:p{item}", *part) for part in parents.COUNTED_CHILDREN),
            *(("ZSCORE", f"{keys.ranked.suffix}:{scope}", item) for scope in scopes.scopes(fields)),
            *(("HGET", f"{ITEM}:{edge.other}", "w") for edge in edges if edge.waits),
        ]  # fmt: skip

    def judge(first: list[Any], extra: list[Any]) -> Iterator[str]:
        fields, edges, texts = pairs(first[0]), dependencies.edges_of(first[1]), first[2]
        if not fields:
            return  # deleted meanwhile
        tally.items += 1
        seconds, micros = extra[0] if extra else (0, 0)  # of what cannot be read, nothing more is read
        sound = True
        for problem in own_problems(fields, texts, int(seconds) * 1000 + int(micros) // 1000):
            sound = False
            yield problem
        if not sound:
            return
        tally.add(item, fields)
        _, in_bucket, lease, held_by_agent, parent, left, *more = extra
        timed, (best, attempts, spent, rank, *more) = more[: len(BY_TIME)], more[len(BY_TIME) :]
        own_scopes, waits = scopes.scopes(fields), [edge for edge in edges if edge.waits]
        if in_bucket is False:
            yield "is missing in the index of prefixes"
        yield from states.claim_problems(item, fields, lease, held_by_agent)
        yield from parents.depth_problems(fields, parent)
        yield from states.abandoned_problems(fields, left)
        yield from times.held_back_problems(fields, *timed[:4])
        yield from times.time_problems(fields, *timed[4:])
        yield from parents.children_problems(fields, *more[:3])
        yield from attempt_problems(fields, attempts)
        yield from scopes.set_problems(fields, item, best)
        yield from usage.item_problems(fields, bool(spent), rank)
        tally.add_usage(item, fields)
        for scope, score in zip(own_scopes, more[3 : len(own_scopes) + 3], strict=True):
            yield from scopes.rank_problems(fields, scope, score)
        yield from dependencies.blocker_problems(fields, zip(waits, more[len(own_scopes) + 3 :], strict=True))

    edges, texts = f"{keys.edges.suffix}:{item}", f"{keys.text.suffix}:{item}"
    return Subject(name, [("HGETALL", name), ("HGETALL", edges), ("HKEYS", texts)], judge, extra_reads)
