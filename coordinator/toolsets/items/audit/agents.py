"""What is known of agents, as subjects of the audit (``lua/agents/agents.lua``)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from coordinator.store import keys
from coordinator.toolsets.items.audit.reader import Reader
from coordinator.toolsets.items.audit.subject import Read, Subject, member, without

RECORD = b"\xff"
"""What precedes the name of an agent in the field of its record."""
_RECORD = re.compile(r"\d{13}[osue][v-][a-z0-9_.:/,-]* (\S+ \d{13}| )")


async def leases(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """Claims by when they end."""
    async for agent, _score in reader.members("ZSCAN", name):
        reads: list[Read] = [("ZSCORE", name, agent), ("HGET", keys.agents.suffix, agent)]
        yield Subject(name, reads, without(agent, "which has no claim"))


async def agents(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """Which item each agent holds, and the agents' records."""
    async for field, value in reader.entries("HSCAN", name):
        if field.startswith(RECORD):
            yield _known(field[len(RECORD) :].decode())
        else:
            agent = field.decode()
            yield member(name, ("HGET", name, agent), value.decode(), agent)


async def seen(reader: Reader, name: str, _: str) -> AsyncIterator[Subject]:
    """Agents by when they were last seen."""
    async for agent, _score in reader.members("ZSCAN", name):
        yield _known(agent)


def _known(agent: str) -> Subject:
    """The record of an agent, and its entry among those that were seen."""

    def judge(first: list[Any], _: list[Any]) -> Iterator[str]:
        yield from _problems(agent, *first)

    reads: list[Read] = [("AGENT", keys.agents.suffix, agent), ("ZSCORE", keys.agent_seen.suffix, agent)]
    return Subject(keys.agents.suffix, reads, judge)


def _problems(agent: str, record: str | bool, seen: str | bool) -> Iterator[str]:
    """Compares the record of an agent with when it was last seen (False: missing)."""
    if record is False and seen is False:
        return  # forgotten meanwhile
    if record is False or seen is False:
        yield f"knows {agent}, but not {'who it is' if record is False else 'when it was seen'}"
    elif _RECORD.fullmatch(str(record)) is None:
        yield f"has a record of {agent} that cannot be read: {record}"
    elif int(str(record)[:13]) != int(float(seen)):
        yield f"has seen {agent} at {str(record)[:13]} and at {float(seen):.0f}"
