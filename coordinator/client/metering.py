"""What a job has used: added up, and told once with the calls about its item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.client.errors import error_of
from coordinator.client.tools import new_request_id, takes_request_id

PARTS = ("inputTokens", "outputTokens", "cachedTokens", "costMicroUsd", "wallMs")
"""Whole numbers; cached tokens are a part of those of the input."""
MOST = 10**12
_MODEL = 200
Used = dict[str, Any]
_NOTHING: Mapping[str, Any] = {}


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


class Meter(dict[str, Used]):
    """What was used and not told yet, by model."""

    def add(self, used: Used) -> None:
        """Adds (checked) usage; what would be too much for one report is cut."""
        if used:
            sums = self.setdefault(used.get("model", ""), {})
            for name in used.keys() & set(PARTS):
                sums[name] = min(sums.get(name, 0) + used[name], MOST)

    def take(self, model: str) -> Used:
        """Takes what was used of a model; '': of none that is known."""
        used = self.pop(model, {})
        return {**used, "model": model} if used and model else used

    def models(self) -> list[str]:
        return [*self]


class Told:
    """A call that tells of usage: sent again as it was, until its answer is seen, it adds once.

    Args:
        given: what the caller says with this very call; if it is refused, it was not told.
        metered: what was used before.
        claim: what is claimed with it besides.
    """

    __slots__ = ("arguments", "claim", "given", "metered", "sent", "tells", "tool")

    def __init__(
        self, tool: str, arguments: dict[str, Any], given: Used, metered: Used, claim: Mapping[str, Any] = _NOTHING
    ) -> None:
        self.tool, self.arguments, self.given, self.metered, self.claim = tool, arguments, given, metered, claim
        used: Used = {}
        if metered or given:
            both = Meter()
            both.add(metered)
            both.add(given)
            used = both.take((given or metered).get("model", ""))
            arguments = _with(arguments, used) if used else arguments
        self.sent = {**arguments, **claim}
        if takes_request_id(tool):
            self.sent["requestId"] = new_request_id()
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
