"""A session that waits at a gate, and the calls that only read."""

from __future__ import annotations

import math
import re
from typing import Any

from coordinator.store import keys
from tests.sessions.client import Answer, Sessions
from tests.sessions.shown import payload

READS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_workflow", {}),
    ("get_activity", {}),
    ("get_skills", {}),
    ("get_skill", {}),
    ("get_resource", {"resource_id": "01"}),
    ("get_trace", {}),
)


class Pending:
    """A session with a pending checkpoint: earlier tokens, and its handle."""

    def __init__(self, sessions: Sessions, tokens: list[str], handle: str) -> None:
        self.sessions = sessions
        self.tokens = tokens
        self.handle = handle

    @classmethod
    async def at(cls, sessions: Sessions, checkpoint: str = "go") -> Pending:
        start = await sessions.start("lab")
        way = {"activity_id": "prepare", "transition_condition": "default"}
        moved = (await sessions("next_activity", session_token=start, **way)).token
        read = (await sessions("get_activity", session_token=moved)).token
        handle = (await sessions("yield_checkpoint", session_token=read, checkpoint_id=checkpoint)).token
        return cls(sessions, [start, moved, read], handle)

    async def respond(self, option: str | None = "proceed", **more: Any) -> Answer:
        return await self.sessions.attempt(
            "respond_checkpoint", checkpoint_handle=self.handle, **({"option_id": option} if option else {}), **more
        )

    async def waited(self, seconds: float) -> None:
        """Simulates passing time: backdates the yield."""
        at = int(await self.sessions.store.command("HGET", self._key, "by"))
        await self.sessions.store.command("HSET", self._key, "by", at - round(seconds * 1000))

    @property
    def _key(self) -> bytes:
        return keys.session.key(self.sessions.project, payload(self.handle)["sid"])

    async def age(self) -> float:
        """Seconds since it was yielded, by the store's clock."""
        seconds, micros = await self.sessions.store.command("TIME")
        at = int(await self.sessions.store.command("HGET", self._key, "by"))
        return int(seconds) + int(micros) / 1_000_000 - at / 1000

    async def too_early(self, words: str, least: float, option: str | None = "proceed", **more: Any) -> None:
        """An answer is rejected with the elapsed time in whole seconds, however long a call takes."""
        before = await self.age()
        refused = await self.respond(option, **more)
        after = await self.age()
        assert refused.error == "checkpoint_too_early"
        found = re.match(rf"{re.escape(words)} \((\d+)s < {math.ceil(least)}s", refused.text)
        assert found is not None, refused.text
        assert math.floor(before) <= int(found[1]) <= math.floor(after)
        assert refused.retry_after_ms is not None
        assert (least - after) * 1000 - 1 <= refused.retry_after_ms <= (least - before) * 1000 + 1
