"""What a request id stands for in a script: the key of its record, and the fingerprint of what was asked."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode


class Request(NamedTuple):
    """The first arguments of every mutating script (``lua/include/idempotency.lua``)."""

    key: str
    """Names the record in the project; empty when the call runs without one."""
    fingerprint: str
    """16 hex digits over the tool and its arguments, without proofs."""

    def slice(self, number: int) -> Request:
        """The record of one bounded slice of a call that is carried out in several."""
        return Request(f"{self.key}.{number}", self.fingerprint) if self.key and number else self


NONE = Request("", "")
"""A call without a request id."""


def request(actor: str, request_id: str, tool: str, *arguments: Any) -> Request:
    """The record of one call, keyed on the trusted actor and the request id."""
    key = blake2b(f"{actor}\0{request_id.lower()}".encode(), digest_size=16).hexdigest()
    return Request(key, blake2b(_encode((tool, arguments)), digest_size=8).hexdigest())
