"""What a job has used: added up, and told once with the calls about its item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from coordinator.client.errors import error_of
from coordinator.client.tools import takes_request_id

PARTS = ("inputTokens", "outputTokens", "cachedTokens", "costMicroUsd", "wallMs")
"""Whole numbers; cached tokens are a part of those of the input."""
MOST = 10**12
_MODEL = 200
Used = dict[str, Any]


def checked(used: Mapping[str, Any]) -> Used:
    """Usage as the tools take it, without what is 0 or absent. Raises Invalid: a field is unknown or wrong."""
    for name, value in used.items():
        if name == "model":
            if value is not None and not (isinstance(value, str) and value.isprintable() and len(value) <= _MODEL):
                raise error_of("VALIDATION_ERROR", f"usage.model: must be one line of at most {_MODEL} characters")
        elif name not in PARTS:
            allowed = ", ".join((*PARTS, "model"))
            raise error_of("VALIDATION_ERROR", f"usage.{name}: no such field; allowed: {allowed}")
        elif not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise error_of("VALIDATION_ERROR", f"usage.{name}: must be a whole number from 0 to {MOST}")
    if used.get("cachedTokens", 0) > used.get("inputTokens", 0):
        raise error_of("VALIDATION_ERROR", "usage.cachedTokens: must be at most inputTokens, of which they are a part")
    amounts = {name: value for name, value in used.items() if value}
    return amounts if amounts.keys() - {"model"} else {}


class Meter:
    """What was used and not told yet, by model."""

    def __init__(self) -> None:
        self._sums: dict[str, Used] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, used: Used) -> None:
        """Adds (checked) usage; what would be too much for one report is cut."""
        if used:
            sums = self._sums.setdefault(used.get("model", ""), {})
            for name in used.keys() & set(PARTS):
                sums[name] = min(sums.get(name, 0) + used[name], MOST)

    def take(self, model: str) -> Used:
        """Takes what was used of a model; '': of none that is known."""
        used = self._sums.pop(model, {})
        return {**used, "model": model} if used and model else used

    def models(self) -> list[str]:
        return [*self._sums]


@dataclass
class Told:
    """A call that tells of usage: sent again as it was, until its answer is seen, it adds once."""

    tool: str
    arguments: dict[str, Any]
    given: Used
    """What the caller says with this very call; if it is refused, it was not told."""
    metered: Used
    """What was used before."""
    claim: Mapping[str, Any] = field(default_factory=dict)
    """What is claimed with it besides."""
    sent: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        request = {"requestId": str(uuid4())} if takes_request_id(self.tool) else {}
        used: Used = {}
        if self.metered or self.given:
            both = Meter()
            both.add(self.metered)
            both.add(self.given)
            used = both.take((self.given or self.metered).get("model", ""))
        self.sent = {**request, **(_with(self.arguments, used) if used else self.arguments), **self.claim}
        self.tells = bool(used)

    def is_same(self, tool: str, arguments: Mapping[str, Any], used: Used) -> bool:
        return (self.tool, self.arguments, self.given) == (tool, arguments, used)


def taken(answer: Mapping[str, Any]) -> bool:
    """Whether the (only) element of a call was taken, by its answer."""
    for name, good in (("releaseResults", "success"), ("claimResults", "success")):
        if answer.get(name):
            return bool(answer[name][0]["outcome"] == good)
    if "results" in answer:
        return bool(answer["results"][0]["applied"])
    return not answer.get("failed")


def _with(arguments: dict[str, Any], used: Used) -> dict[str, Any]:
    """Arguments with usage in their element, or beside them where they have none."""
    for name, value in arguments.items():
        if isinstance(value, list):
            return {**arguments, name: [{**value[0], "usage": used}, *value[1:]]}
    return {**arguments, "usage": used}
