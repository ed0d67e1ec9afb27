"""Projects that are written out and restored."""

from __future__ import annotations

import io

from coordinator.projects import native
from coordinator.projects.dumping import dump
from coordinator.projects.restoring import Restored, restore
from coordinator.settings import Settings
from coordinator.settings.sections.attempts import Attempts
from coordinator.store import Store

SETTINGS = Settings(
    request_deadline_ms=120_000,
    attempts=Attempts(max=2, backoff_seconds=0),
)


async def written(store: Store, project: str) -> bytes:
    """A project in the format."""
    found = [line async for line in dump(store, project)]
    return b"\n".join(map(native.encode, native.ended(found))) + b"\n"


async def restored(store: Store, project: str, data: bytes) -> Restored:
    return await restore(store, SETTINGS, project, io.BytesIO(data), lambda text: None)


def same(one: bytes, other: bytes) -> None:
    """Two written projects, but for name and time."""
    assert one.splitlines()[1:] == other.splitlines()[1:]
