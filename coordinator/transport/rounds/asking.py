"""Questions to the person behind a client, in results ``input_required`` of revision 2026-07-28.

The state that the client gives back is sealed, and good for ``TTL_MS``, for the same caller, project, tool and
arguments. It contains the question, so that any process can check the answer against its form, and ask again if the
form is not filled in. It may be presented more than once; handlers use ``Answer.once`` as their request id, so that
only the first answer has an effect.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
import structlog

from coordinator.identity.actors.attribution import attribute_call
from coordinator.toolsets.arguments import writable
from coordinator.toolsets.gateway.rules.schemas import validator
from coordinator.toolsets.questions import Action, Answer, Question
from coordinator.toolsets.tool import Call, Tool
from coordinator.transport.metrics import QUESTIONS
from coordinator.transport.rounds.sealing import Seals

TTL_MS = 600_000
"""How long a question can be answered, by the clock of Redis."""
_PURPOSE = "question"
_ACTIONS: tuple[Action, ...] = ("accept", "decline", "cancel")

_log = structlog.get_logger(__name__)


class InvalidState(Exception):
    """A ``requestState`` that is not one for this call, or no longer."""


class _Asked(msgspec.Struct, array_like=True, frozen=True):
    """What is sealed."""

    audience: str
    project: str
    caller: str
    tool: str
    arguments: str
    """Their fingerprint."""
    until: int
    once: str
    key: str
    message: str
    form: dict[str, Any]
    state: msgspec.Raw


class _Given(msgspec.Struct):
    """An answer as clients send it."""

    action: Action
    content: dict[str, Any] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Asked).decode


class Asking:
    """Asks questions and takes their answers, for one process."""

    def __init__(self, seals: Seals) -> None:
        self._seals = seals

    async def ask(self, tool: Tool, call: Call, arguments: Any, question: Question) -> dict[str, Any]:
        """The result with a question.

        Raises:
            ToolFailure: the store does not answer.
        """
        sealed = _Asked(
            *self._bound(tool, call, arguments),
            until=await self._seals.now() + TTL_MS,
            once=secrets.token_hex(16),
            key=question.key,
            message=question.message,
            form=form_of(question),
            state=msgspec.Raw(_encode(question.state)),
        )
        QUESTIONS.labels(tool.name, "asked").inc()
        return await self._result(sealed)

    async def answer(
        self, tool: Tool, call: Call, arguments: Any, state: str, replies: Mapping[str, Any] | None
    ) -> Answer | dict[str, Any]:
        """The answer that came with a repeated call; or the result that asks again, because the form is not filled in.

        Args:
            state: the call's ``requestState``.
            replies: its ``inputResponses``.

        Raises:
            InvalidState: the state is not one for this call.
            ToolFailure: the store does not answer; the arguments name another actor than the caller.
        """
        if call.caller is not None:
            attribute_call(arguments, call.caller)
        seal = await self._opened(tool, call, arguments, state)
        answer = filled_in(seal.form, (replies or {}).get(seal.key), msgspec.msgpack.decode(seal.state), seal.once)
        QUESTIONS.labels(tool.name, "repeated" if answer is None else answer.action).inc()
        return await self._result(seal) if answer is None else answer

    async def _opened(self, tool: Tool, call: Call, arguments: Any, state: str) -> _Asked:
        packed = await self._seals.open(_PURPOSE, state, call.project)
        problem = "seal"
        try:
            sealed = _decode(packed) if packed is not None else None
        except msgspec.MsgspecError:
            sealed = None  # of a release that seals something else
        if sealed is not None:
            bound = sealed.audience, sealed.project, sealed.caller, sealed.tool, sealed.arguments
            if bound != self._bound(tool, call, arguments):
                problem = "asked of another caller, or for another call"
            elif await self._seals.now() >= sealed.until:
                problem = "expired"
            elif call.can_ask:
                return sealed
            else:
                problem = "the caller may not answer any more"
        QUESTIONS.labels(tool.name, "refused").inc()
        _log.warning("requestState refused", tool=tool.name, reason=problem)
        raise InvalidState

    def _bound(self, tool: Tool, call: Call, arguments: Any) -> tuple[str, str, str, str, str]:
        """What a state is good for: the first fields of ``_Asked``."""
        caller = call.caller.id if call.caller is not None else ""
        fingerprint = blake2b(msgspec.json.encode(arguments), digest_size=16).hexdigest()
        return self._seals.audience, call.project, caller, tool.name, fingerprint

    async def _result(self, sealed: _Asked) -> dict[str, Any]:
        return {
            "resultType": "input_required",
            "inputRequests": {sealed.key: elicitation(sealed.message, sealed.form)},
            "requestState": await self._seals.seal(_PURPOSE, _encode(sealed), sealed.project),
        }


def form_of(question: Question) -> dict[str, Any]:
    """The schema of a question's form."""
    return {"type": "object", "properties": dict(question.fields), "required": list(question.required)}


def elicitation(message: str, form: Mapping[str, Any]) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": form}
    return {"method": "elicitation/create", "params": params}


def filled_in(form: Mapping[str, Any], response: Any, state: Any, once: str) -> Answer | None:
    """The answer in an entry of ``inputResponses``; None: there is none, or the form is not filled in.

    Args:
        state, once: of the answer.
    """
    if not writable(response):
        return None
    try:
        answer = msgspec.convert(response, _Given)
    except msgspec.ValidationError:
        return None
    content = answer.content or {}
    if answer.action != "accept":
        content = {}
    elif not _fits(form, content):
        return None
    known = {name: value for name, value in content.items() if name in form["properties"]}
    return Answer(action=answer.action, content=known, state=state, once=once)


def _fits(form: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    validator.begin()
    try:
        return bool(validator.validator(form).is_valid(content))
    except validator.TooLong:
        return False
