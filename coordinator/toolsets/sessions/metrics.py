"""The metrics of workflow sessions."""

from __future__ import annotations

from coordinator.metrics import Counter, Label

CHECKPOINTS = Counter(
    "coordinator_session_checkpoints_total",
    "calls",
    "Checkpoints of workflow sessions: yielded, and resolved by a chosen option (option_id), by the default one "
    "(auto_advance) or dismissed (condition_not_met). early: answers before their time, closed: answers to what does "
    "not wait, such as those that lost a race.",
    (Label("outcome", ("yielded", "option_id", "auto_advance", "condition_not_met", "early", "closed")),),
    starts_in="frontend",
)
SESSION_TOKENS_REFUSED = Counter(
    "coordinator_session_tokens_refused_total",
    "tokens",
    "Session tokens and checkpoint handles that could not be used: too long (oversized), cut off (malformed), signed "
    "by no key that counts (unsigned), or without the payload of one (undecoded, incomplete).",
    (Label("reason", ("oversized", "malformed", "unsigned", "undecoded", "incomplete")),),
    starts_in="frontend",
)
