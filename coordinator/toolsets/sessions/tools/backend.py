"""Shared by the tools of this toolset: tokens, definitions, and the shape of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import structlog
from msgspec import UNSET

from coordinator.definitions import Definitions, Library, LoadedWorkflow, shared_definitions
from coordinator.errors import ToolFailure
from coordinator.service import Service
from coordinator.settings import Settings
from coordinator.settings.effective_auth import auth_mode
from coordinator.store.signing_keys import SigningKeys
from coordinator.toolsets.sessions.metrics import SESSION_TOKENS_REFUSED
from coordinator.toolsets.sessions.rules import refusals, tokens, trace, validation
from coordinator.toolsets.sessions.rules.signer import Signer
from coordinator.toolsets.sessions.rules.tokens import Payload, Unreadable
from coordinator.toolsets.sessions.store.sessions import SessionState, SessionStore
from coordinator.toolsets.tool import Call, Reply, Services
from coordinator.toolsets.waiting.reads import WaitingReads

_log = structlog.get_logger(__name__)

T = TypeVar("T")
Make = Callable[[Payload, LoadedWorkflow, Library], T]


class Read(NamedTuple, Generic[T]):
    """The result of a call that reads definitions."""

    made: T
    shown: Payload
    state: SessionState
    warnings: list[str]


class Backend(Service):
    """The shared state of the sessions' tools in one process.

    Args:
        definitions: the workflows; None: those of the settings.
    """

    def __init__(self, services: Services, definitions: Definitions | None = None) -> None:
        settings = services.settings
        self.settings: Settings = settings
        self.resolve_actor = services.resolve_actor
        self.store = SessionStore(services.store, settings)
        self.waiting = WaitingReads(services)
        self.started = monotonic()
        self._secrets = SigningKeys(services.store, settings.signing.keys, settings.signing.key_days)
        self.definitions = definitions or shared_definitions(settings.workflows.sessions)

    async def start(self) -> None:
        self.definitions.start()

    async def stop(self, deadline: float = 0.0) -> None:
        await self.waiting.stop()

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def authenticates(self) -> bool:
        """Whether callers may be authenticated: then no session is adopted, known or not."""
        return auth_mode(self.settings) != "none"

    @property
    def current(self) -> Library:
        """The newest definitions. A call reads this once and keeps the result."""
        return self.definitions.current

    async def signer(self, project: str, purpose: str = "") -> Signer:
        """The current signer of a project's session tokens, or of other tokens with this purpose.

        Session tokens are signed with keys of the settings themselves, so that other programs can make and read them.

        Raises:
            ToolFailure: as ``SigningKeys.ring``.
        """
        own_keys = self.settings.signing.keys and not purpose
        return Signer(await self._secrets.ring("" if own_keys else project), purpose)

    async def token(self, project: str, payload: Payload, state: SessionState, **changes: Any) -> str:
        """The session's next token: ``advanced``, signed. Raises as ``signer``."""
        return tokens.encode(advanced(payload, state, **changes), await self.signer(project))

    async def decode(self, project: str, token: str) -> Payload:
        """The payload of a caller's token for this project. Refreshes the keys before it rejects a signature.

        Raises:
            Unreadable: it is not a session token of this project.
        """
        try:
            return await self._read(project, token, tokens.decode)
        except Unreadable as error:
            # Logged, because no session's trace can record it. The token itself is never logged.
            SESSION_TOKENS_REFUSED.labels(error.kind).inc()
            _log.info("session token refused", reason=error.reason)
            raise

    async def segment(self, project: str, token: str) -> trace.Segment:
        """The segment in a trace token of this project. Refreshes the keys as ``decode`` does.

        Raises:
            Unreadable: it is not such a token. The reason is a sentence for the caller.
        """
        return await self._read(project, token, trace.read, trace.PURPOSE)

    async def _read(self, project: str, token: str, read: Callable[[str, Signer], T], purpose: str = "") -> T:
        """Decodes a token; retries with newer keys, if there are any, after a wrong signature."""
        try:
            return read(token, await self.signer(project, purpose))
        except Unreadable as error:
            if error.kind != "unsigned" or not await self._secrets.renewed(project):
                raise
        return read(token, await self.signer(project, purpose))

    async def opened(self, project: str, token: str) -> Payload:
        """``decode`` for tools that need a valid token.

        Raises:
            ToolFailure: ``invalid_session_token``.
        """
        try:
            return await self.decode(project, token)
        except Unreadable as error:
            raise tokens.invalid_token(error.reason) from None

    async def reading(self, call: Call, name: str, token: str, make: Make[T]) -> Read[T]:
        """Carries out a call that reads definitions: reads with ``make``, and records the call in the session.

        Raises:
            ToolFailure: the token is not valid; the session refuses the call; ``make`` failed. The first of these that
                applies is raised.
        """
        began = perf_counter()
        payload = await self.opened(call.project, token)
        library = self.current
        problem: ToolFailure | None = None
        warnings: list[str] = []
        made: T | None = None
        try:
            workflow = loaded(library, payload.wf)
            warnings += validation.drift(payload.v, workflow)
            made = make(payload, workflow, library)
        except ToolFailure as failure:
            problem = failure
        noted = trace.entry(name, perf_counter() - began, payload.act, payload.aid, warnings)
        state = await self.store.visit(call.project, payload, noted, problem.message if problem else "")
        if state.outcome == "blocked":
            raise refusals.blocked(state.pending, state.act)
        refuse(state, payload, problem)
        answer: Any = made
        return Read(answer, payload, state, warnings + behind(payload, state.act))


def loaded(library: Library, workflow: str) -> LoadedWorkflow:
    """The workflow with this id.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND.
    """
    workflow_loaded = library.workflows.get(workflow)
    if workflow_loaded is None:
        raise refusals.not_found("Workflow", workflow, library.workflows)
    return workflow_loaded


def refuse(state: SessionState, payload: Payload, problem: ToolFailure | None = None) -> None:
    """Raises the failure of an outcome common to several tools. Returns for all other outcomes.

    Args:
        problem: the failure that was passed to the store with the call.
    """
    if state.outcome == "superseded":
        raise refusals.superseded(payload.aid)
    if state.outcome == "unclaimed":
        raise refusals.unclaimed(state.details(str))
    if state.outcome == "failed" and problem is not None:
        raise problem


def drifted(library: Library, payload: Payload) -> list[str]:
    """The warning for a workflow that has another version than when the session began."""
    workflow = library.workflows.get(payload.wf)
    return [] if workflow is None else list(validation.drift(payload.v, workflow))


def behind(payload: Payload, stands: str) -> list[str]:
    return [trace.stale(payload.act, stands)] if payload.act and stands and payload.act != stands else []


def advanced(payload: Payload, state: SessionState, **changes: Any) -> Payload:
    """The next token's payload: order and time from the store, and the pending checkpoint."""
    changes.setdefault("seq", state.seq)
    return msgspec.structs.replace(payload, ts=state.now // 1000, bcp=state.pending or UNSET, **changes)


def meta(token: str, warnings: Sequence[str]) -> dict[str, Any]:
    return {"session_token": token, "validation": validation.validation(warnings)}


def in_json(result: msgspec.Struct, meta: dict[str, Any] | None) -> Reply:
    """A result in JSON, as readable text and structured."""
    return Reply(structured=result, indented=True, meta=meta)


def in_text(text: str, meta: dict[str, Any] | None = None) -> Reply:
    return Reply(text=text, meta=meta)


def refusal(failure: ToolFailure) -> Reply:
    """The answer to a failed call: a sentence as text, and the structured error for programs."""
    return Reply(text=failure.message, structured=failure.body(), is_error=True)
