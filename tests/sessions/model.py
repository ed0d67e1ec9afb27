"""A plain model of a session of the lab: no store, no signatures, no scripts."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.toolsets.sessions.rules import tokens

ACTIVITIES = ("prepare", "measure", "report")
LAST = ("measure", "report")
"""Activities that may be the last one."""
CHECKPOINTS = {"go": ("proceed", "stop", "plain"), "maybe": ("fine",)}
"""The checkpoints of prepare that are yielded, with their options."""
ENDS = ("__terminal__", "workflow-end")

ACTIVE, CLOSED, INVALID, MISSING = (
    "checkpoint_active",
    "checkpoint_closed",
    "VALIDATION_ERROR",
    "RESOURCE_NOT_FOUND",
)


@dataclass(frozen=True)
class Shown:
    """A token as a caller holds it."""

    act: str
    bcp: str
    seq: int


@dataclass
class Model:
    """One session. Each call returns an error's code, or empty and then has given a token (``given``)."""

    act: str = ""
    pending: str = ""
    handle: int = 0
    yielded: tuple[Shown, str] | None = None
    answer: str | None = None
    """Of the checkpoint not resumed from yet."""
    resumed: Shown | None = None
    moved: tuple[Shown, str] | None = None
    completed: bool = False
    left: list[str] = field(default_factory=list)
    last: tuple[str, str] | None = None
    """The checkpoint answered last, and the option."""
    seq: int = 0
    given: Shown = Shown("", "", 0)
    trace: list[tuple[str, bool]] = field(default_factory=lambda: [("start_session", True)])

    def read(self, token: Shown) -> str:
        """A call that reads definitions."""
        if self.pending:
            return self._refused("get_skills", ACTIVE)
        return self._given("get_skills", token.act)

    def move(self, token: Shown, target: str) -> str:
        """next_activity."""
        if self.pending:
            return self._refused("next_activity", ACTIVE)
        ends = target in ENDS and token.act in LAST
        if target not in ACTIVITIES and not ends:
            return self._refused("next_activity", MISSING)
        if self.moved == (token, target):
            return self._given("", token.act if ends else target)
        self.moved = (token, target)
        if token.act and token.act not in self.left:
            self.left.append(token.act)
        self.act = token.act if ends else target
        self.completed, self.answer = ends, None
        return self._given("next_activity", self.act)

    def yields(self, token: Shown, checkpoint: str) -> str:
        """yield_checkpoint."""
        if self.yielded == (token, checkpoint) and (self.pending or self.answer is not None):
            self.given = Shown(token.act, checkpoint, self.handle)
            return ""
        if self.pending:
            return self._refused("yield_checkpoint", ACTIVE)
        if token.act != "prepare" or checkpoint not in CHECKPOINTS:
            return self._refused("yield_checkpoint", MISSING)
        if token.act != self.act:
            return self._refused("yield_checkpoint", CLOSED)
        self.pending, self.yielded, self.answer = checkpoint, (token, checkpoint), None
        self.handle = self.seq + 1
        return self._given("yield_checkpoint", token.act)

    def meant(self, token: Shown) -> bool:
        """Whether the token refers to the pending checkpoint."""
        if not token.bcp:
            return bool(self.pending)
        return token.bcp == self.pending and token.seq >= self.handle

    def responds(self, token: Shown, option: str) -> str:
        """respond_checkpoint with an option."""
        if not self.meant(token):
            return self._refused("respond_checkpoint", CLOSED)
        if option not in CHECKPOINTS[self.pending]:
            return self._refused("respond_checkpoint", INVALID)
        self.last = (self.pending, option)
        self.answer, self.pending = option, ""
        return self._given("respond_checkpoint", self.act)

    def resumes(self, token: Shown) -> str:
        """resume_checkpoint."""
        if self.pending:
            return self._refused("resume_checkpoint", ACTIVE)
        if self.answer is None:
            if self.resumed == token:
                return self._given("", token.act)
            return self._refused("resume_checkpoint", CLOSED)
        self.answer, self.resumed = None, token
        return self._given("resume_checkpoint", token.act)

    def joins(self) -> str:
        """start_session with any token of the session."""
        return self._given("start_session", self.act)

    def looks(self) -> str:
        """get_workflow_status."""
        return self._given("", self.act)

    @property
    def status(self) -> str:
        return "blocked" if self.pending else "completed" if self.completed else "active"

    def _given(self, noted: str, act: str) -> str:
        self.seq += 1
        self.given = Shown(act, self.pending, self.seq)
        if noted:
            self.trace.append((noted, True))
        return ""

    def _refused(self, noted: str, code: str) -> str:
        self.trace.append((noted, False))
        return code


def shown(payload: tokens.Payload) -> Shown:
    """A real token in the model's form."""
    return Shown(payload.act, payload.checkpoint, payload.seq)
