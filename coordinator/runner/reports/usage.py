"""What attempts have used, and how the fleet gets to know it: once, whatever is killed.

A command says what it likes, so what one attempt adds is bounded (``Most``); what is above is recorded as refused.
The note ``run-<label>`` of an attempt is written in one step with what it adds, and names the sum that is told by then.
So the note says what the fleet knows, also to a runner that comes later and finds only the logs of the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from coordinator.client import Fleet, Invalid, Unavailable
from coordinator.client.metering import MOST, PARTS
from coordinator.runner.metrics import USAGE_REFUSED
from coordinator.runner.protocols import Usage
from coordinator.units import money

TELL_SECONDS = 60.0
"""How often a running attempt tells what it has used."""
_TRIES = 3
_LONGEST_MODEL = 200

Sum = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Most:
    """What is counted of one attempt at most. Its time is that of the runner's clock."""

    cost_micro_usd: int = 25_000_000
    tokens: int = 50_000_000
    """Input and output together."""

    def within(self, more: Sum, known: Mapping[str, Any]) -> Sum:
        """What of further usage is counted, when ``known`` was before."""
        tokens = max(0, self.tokens - _tokens(known))
        cost = max(0, self.cost_micro_usd - _number(known.get("costMicroUsd")))
        inputs = min(more.get("inputTokens", 0), tokens)
        counted = {
            **more,
            "inputTokens": inputs,
            "outputTokens": min(more.get("outputTokens", 0), tokens - inputs),
            "cachedTokens": min(more.get("cachedTokens", 0), inputs),
            "costMicroUsd": min(more.get("costMicroUsd", 0), cost),
        }
        counted = {name: value for name, value in counted.items() if value}
        return counted if counted.keys() - {"model"} else {}


COUNTED = Most()
"""By default."""


def total_of(usage: Usage, seconds: float) -> Sum:
    """The usage of an attempt as the fleet takes it, which has taken ``seconds``."""
    usage_sum: Sum = {
        "inputTokens": usage.input_tokens or 0,
        "outputTokens": usage.output_tokens or 0,
        "cachedTokens": usage.cached_input_tokens or 0,
        "costMicroUsd": round((usage.cost_usd or 0.0) * 1_000_000),
        "wallMs": round(seconds * 1000),
    }
    usage_sum = {name: max(0, min(number, MOST)) for name, number in usage_sum.items()}
    model = "".join(letter for letter in usage.model or "" if letter.isprintable()).strip()[:_LONGEST_MODEL]
    return {**usage_sum, "model": model} if model else usage_sum


def further(total: Sum, known: Mapping[str, Any]) -> Sum:
    """What of a total is not known yet; {}: nothing. What an agent corrects downwards is not taken back."""
    more = {name: max(0, total[name] - _number(known.get(name))) for name in PARTS}
    more["cachedTokens"] = min(more["cachedTokens"], more["inputTokens"])
    more = {name: number for name, number in more.items() if number}
    return {**more, "model": total["model"]} if more and "model" in total else more


def words_of(refused: Sum) -> str:
    tokens = _tokens(refused)
    parts = [money(refused["costMicroUsd"])] if "costMicroUsd" in refused else []
    return " and ".join(parts + ([f"{tokens:,} tokens"] if tokens else []))


class RunNote:
    """The note of one attempt.

    Args:
        key: ``run-<label>``. If another attempt has a note of this name, it gets a longer one.
        most: what is counted of it.
        new: it is not there yet; False: it may be, as this attempt is that of a runner that has died.
    """

    def __init__(
        self,
        fleet: Fleet,
        item: str,
        key: str,
        run: str,
        agent: str,
        most: Most,
        role: str = "work",
        *,
        new: bool = True,
    ) -> None:
        self._fleet, self._item, self._key, self._run, self._agent = fleet, item, key, run, agent
        self._role, self._most = role, most
        self.refused: Sum = {}
        """What was said above ``most``, and is not counted."""
        self._expected: str | None = "" if new else None
        """What the note is to be like when it is written; '': not there; None: not known, it has to be read."""
        self._known: Sum = {}
        self._body: dict[str, Any] = {}
        self._writes = asyncio.Lock()

    async def tell(self, facts: Mapping[str, Any], total: Sum) -> None:
        """Writes the note, with what was used since the last time. Goes on in the background if it is cancelled.

        Raises:
            Unavailable: whether it was written is not known; the next call finds out.
            FleetError: it is refused; ``left`` has what was not told.
        """
        await self._fleet.settle(self._tell(facts, total))

    def left(self, total: Sum) -> Sum:
        """What of a total is counted, and not known to the fleet yet."""
        return self._most.within(further(total, self._known), self._known)

    async def _tell(self, facts: Mapping[str, Any], total: Sum) -> None:
        async with self._writes:
            for tries in range(_TRIES):
                if self._expected is None:
                    await self._read()
                body = {**self._body, **facts, "run": self._run}
                more = self.left(total)
                reported = {name: _number(self._known.get(name)) + more.get(name, 0) for name in PARTS}
                above = further(total, reported)
                refused = {**self.refused, **{name: above[name] for name in _BOUNDED if name in above}}
                note: dict[str, Any] = {"itemId": self._item, "key": self._key, "role": self._role}
                body |= {"refused": refused} if refused else {}
                note["body"] = msgspec.json.encode({**body, "told": reported}).decode()
                if more:
                    note["usage"] = more
                if newly := further({**dict.fromkeys(PARTS, 0), **refused}, self.refused):
                    note |= {"costRefused": newly.get("costMicroUsd", 0), "tokensRefused": _tokens(newly)}
                if self._expected != _OURS:
                    note["expectedModifiedAt"] = self._expected
                try:
                    answer = await self._fleet.call(
                        "manage_notes", {"operation": "upsert", "notes": [note]}, agent=self._agent
                    )
                except Unavailable:
                    self._expected = None
                    raise
                if not answer["failed"]:
                    self._expected, self._known, self._body = _OURS, reported, body
                    for measure, names in _MEASURES.items():
                        if not _any(self.refused, names) and _any(refused, names):
                            USAGE_REFUSED.labels(measure).inc()
                    self.refused = refused
                    return
                if self._expected == _OURS or tries == _TRIES - 1:
                    raise Invalid("VALIDATION_ERROR", str(answer["failures"][0].get("error")), answer)
                self._expected = None

    async def _read(self) -> None:
        """Reads what the note says is told."""
        notes = await self._fleet.call("query_notes", {"operation": "list", "itemId": self._item}, agent=self._agent)
        by_key = {note["key"]: note for note in notes["notes"]}
        longer = f"{self._key}-{self._run[:8]}"
        self._expected, self._known, self._body, self.refused = "", {}, {}, {}
        for key in (self._key, longer):
            note = by_key.get(key)
            body = _mapping(note["body"]) if note is not None else {}
            if note is None or body.get("run") == self._run:
                self._key = key
                if note is not None:
                    reported, refused = body.pop("told", {}), body.pop("refused", {})
                    self._expected, self._role = note["modifiedAt"], note["role"]
                    self._known, self._body = reported if isinstance(reported, dict) else {}, body
                    self.refused = refused if isinstance(refused, dict) else {}
                return
        raise Invalid("VALIDATION_ERROR", f"{self._key}: other attempts have notes of this name")


_OURS = "ours"
"""As this process has written it last."""
_MEASURES = {"cost": ("costMicroUsd",), "tokens": ("inputTokens", "outputTokens")}
_BOUNDED = tuple(name for names in _MEASURES.values() for name in names)


def _tokens(total: Mapping[str, Any]) -> int:
    return _number(total.get("inputTokens")) + _number(total.get("outputTokens"))


def _any(total: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any(_number(total.get(name)) for name in names)


def _mapping(text: str) -> dict[str, Any]:
    try:
        mapping = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return mapping if isinstance(mapping, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
