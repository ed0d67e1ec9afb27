"""A project's recorded history: the entries of its event stream, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from coordinator.store import keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client


class Event(NamedTuple):
    """One entry. Which fields count depends on ``kind``; numbers default to -1, texts to ''."""

    id: str
    """Stream id: milliseconds of the server's clock and a counter; rises strictly."""
    kind: str
    """create, link, claim, renew, release, expire, transition ..."""
    item: str
    """32 hex digits."""
    agent: str = ""
    fence: int = -1
    expires: int = -1
    """claim and renew: when the claim ends, in milliseconds."""
    trigger: str = ""
    before: int = -1
    """transition: the role it leaves; create: none."""
    after: int = -1
    """transition and create: the role it has then."""
    other: str = ""
    """link: the item at the other end."""
    code: str = ""
    """link: B where this item blocks the other, I where the other blocks this one."""
    part: int = 0
    """The number of the event in its entry. A claim that ends an earlier one is a release and a claim."""

    @property
    def at(self) -> int:
        """Server time in milliseconds."""
        return int(self.id.partition("-")[0])


def events_of(entry_id: str, fields: Mapping[str, str]) -> list[Event]:
    """The events in an entry of the stream, in order."""
    found = _event(entry_id, fields)
    if found.kind != "claim" or "o" not in fields:
        return [found]
    return [Event(entry_id, "release", fields["o"], found.agent, int(fields["p"])), found._replace(part=1)]


def _event(entry_id: str, fields: Mapping[str, str]) -> Event:
    """The same short names mean different things in different kinds."""
    kind, item = fields.get("k", ""), fields.get("i", "")
    if kind == "transition":
        return Event(
            entry_id, kind, item, agent=fields.get("a", ""), trigger=fields.get("g", ""),
            before=int(fields.get("f", -1)), after=int(fields.get("t", -1)),
        )  # fmt: skip
    if kind == "create":
        return Event(entry_id, kind, item, after=int(fields.get("r", -1)), other=fields.get("p", ""))
    if kind == "link":
        return Event(entry_id, kind, item, other=fields.get("o", ""), code=fields.get("c", ""))
    return Event(
        entry_id, kind, item, agent=fields.get("a", ""), fence=int(fields.get("f", -1)),
        expires=int(fields.get("x", -1)),
    )  # fmt: skip


def recorded(redis_url: str, project: str) -> list[Event]:
    """The whole history of a project, oldest first."""
    with redis_client(parse(redis_url), project, protocol=2) as client:
        entries: Any = client.xrange(keys.events.key(project))
    return [
        event
        for entry, fields in entries
        for event in events_of(entry.decode(), {name.decode(): value.decode() for name, value in fields.items()})
    ]
