"""Questions to the person behind a client: a handler returns one in place of its result, and gets the answer later.

The transport passes a question on as a form (MCP: elicitation, in a result ``input_required``) and ends the request.
When the person has answered, the client repeats the call, with the answer and a sealed state; the handler then finds
both in ``Call.answer``. Nothing is kept in between, so any process can carry on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Action = Literal["accept", "decline", "cancel"]

VIA_CLIENT = "client"
"""How the answer to a question came: through the client of an agent, under that agent's credential. The client may
have answered by itself. So such an answer proves no other principal than the caller."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the person behind the client; only for calls with ``Call.can_ask``."""

    message: str
    """What the person decides, and what they need to know for it."""
    fields: Mapping[str, Mapping[str, Any]]
    """The form: a JSON Schema of a primitive type for each field."""
    required: tuple[str, ...] = ()
    """Fields without which the form is not answered."""
    state: Any
    """What the handler needs to carry on: comes back as ``Answer.state``, in plain JSON types."""
    otherwise: Any
    """The result of the call if the question cannot be asked after all."""
    key: str = "answer"
    """Names it among all questions of a call."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a question. It was asked of this caller, for this tool and these arguments."""

    action: Action
    content: Mapping[str, Any] = {}
    """The fields, if the action is accept: they match their schemas."""
    state: Any
    """``Question.state``."""
    once: str
    """Names the question: all copies of an answer have the same, so it serves as a request id."""
