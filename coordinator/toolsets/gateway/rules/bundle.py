"""What an instance keeps from its start: its definition, those of its sub-workflows, and the limits of execution.

A bundle is named by the hash of its content, so all instances that start with the same content share it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import Struct

from coordinator.settings.sections.gateway.executor import Executor, Reliability
from coordinator.settings.sections.gateway.model import Limits, Workflow
from coordinator.steps.model import Retry
from coordinator.toolsets.gateway.rules.resolve import executors_of

_encode = msgspec.json.Encoder().encode  # the order of states and transitions is that of links


class Bundle(Struct, frozen=True, kw_only=True):
    """Definitions that belong together."""

    definitions: dict[str, Workflow]
    limits: Limits = Limits()

    def attempt_ms(self, reliability: Reliability | None) -> int:
        """How long one attempt may take."""
        stated = reliability.timeout_ms if reliability is not None else None
        return min(stated or self.limits.attempt_timeout_ms, self.limits.max_attempt_timeout_ms)

    def total_ms(self, reliability: Reliability | None) -> int:
        """How long one attempt may take that reports progress; 0: progress makes no difference."""
        stated = reliability.max_total_timeout_ms if reliability is not None else None
        return min(stated or 0, self.limits.max_attempt_timeout_ms)


class Packed(NamedTuple):
    """A bundle, the text in which it is stored, and the hash of that text."""

    hash: str
    text: bytes
    bundle: Bundle


_decode = msgspec.json.Decoder(Bundle).decode


def packed(root: str, workflow: Workflow, others: Mapping[str, Workflow], limits: Limits) -> Packed:
    """Makes the bundle of a definition.

    Args:
        root: the name of the definition.
        others: all definitions; the sub-workflows are taken from them.
    """
    reached: dict[str, Workflow] = {root: workflow}
    waiting = [workflow]
    while waiting:
        for _, executor, _ in executors_of(waiting.pop()):
            name = executor.definition_id if executor.kind == "workflow" else None
            if name is not None and name not in reached and name in others:
                reached[name] = others[name]
                waiting.append(others[name])
    bundle = Bundle(definitions=reached, limits=limits)
    text = _encode(bundle)
    return Packed(blake2b(text, digest_size=12).hexdigest(), text, bundle)


def unpacked(text: bytes) -> Bundle:
    return _decode(text)


def retry_of(reliability: Reliability | None) -> Retry:
    """The retry policy for failed attempts."""
    stated = reliability.retry if reliability is not None else None
    if stated is None:
        return Retry()
    return Retry(
        max_attempts=stated.max_attempts,
        delay_ms=0 if stated.backoff == "none" else stated.initial_delay_ms,
        backoff="exponential" if stated.backoff == "exponential" else "fixed",
        max_delay_ms=stated.max_delay_ms,
    )


def retry_on(reliability: Reliability | None) -> frozenset[str]:
    """The failure classes that are retried."""
    return frozenset(reliability.retry.retry_on if reliability is not None else ())


def candidate(executor: Executor, reliability: Reliability | None, number: int) -> Executor | None:
    """The executor itself (0) or one of its fallbacks (from 1); None if there are no more."""
    if number == 0:
        return executor
    fallback = reliability.fallback if reliability is not None else None
    if fallback is None or number > len(fallback.executors):
        return None
    return fallback.executors[number - 1]
