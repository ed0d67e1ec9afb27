"""Random state machines, and a plain interpreter of what they do.

The interpreter follows the documented rules: a transition runs its executor, writes its output,
chooses a branch, enters its target, raises the version by one; a state of deterministic transitions is
left at once by the only one that is possible. It does not use steps or scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

STATES = ("a", "b", "c", "d")
FAILS = "fails"
"""The outcome of an executor that fails."""


def guard(compare: str, value: int) -> Json:
    return {"kind": "expr", "expr": f"$.context.n {compare} {value}"}


guards = st.builds(guard, st.sampled_from([">=", "<", "==", "!="]), st.integers(0, 3))
executors = st.sampled_from([None, None, {"kind": "noop"}, {"kind": "human"}])
outputs = st.sampled_from(
    [
        {},
        {"n": {"add": ["$.context.n", 1]}},
        {"n": 0},
        {"last": "$.output.v"},
        {"n": "$.output.v", "seen": "$.context.n"},
    ]
)


@st.composite
def transitions(draw: st.DrawFn, actor: str) -> Json:
    made: Json = {
        "target": draw(st.sampled_from(STATES)),
        "actor": actor,
        "guards": draw(st.lists(guards, max_size=1)),
        "output": draw(outputs),
        "evidence": draw(st.sampled_from([[], [], ["mark"]])),
        "branches": draw(
            st.lists(
                st.builds(lambda when, to: {"when": when, "target": to}, guards, st.sampled_from(STATES)), max_size=1
            )
        ),
    }
    executor = draw(executors)
    if executor is not None:
        made["executor"] = executor
        if executor["kind"] == "noop" and draw(st.booleans()):
            made["reliability"] = {"fallback": {"executors": [{"kind": "noop"}]}}
    return made


@st.composite
def machines(draw: st.DrawFn) -> Json:
    """A workflow; its last state is an end."""
    states: Json = {}
    for name in STATES[:-1]:
        actor = draw(st.sampled_from(["agent", "agent", "deterministic"]))
        names = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
        states[name] = {"transitions": {key: draw(transitions(actor)) for key in sorted(names)}}
        if draw(st.integers(0, 4)) == 0:
            states[name]["onEnter"] = {"executor": {"kind": "noop"}, "output": draw(outputs)}
    states[STATES[-1]] = {"terminal": True, "outcome": draw(st.sampled_from(["success", "failure"]))}
    return {
        "initialState": "a",
        "states": states,
        "initialContext": {"n": draw(st.integers(0, 2))},
        "maxChainDepth": draw(st.integers(1, 4)),
    }


class Failed(Exception):
    """An operation fails; the text is the code."""


@dataclass
class Meaning:
    """An instance in the plain interpreter."""

    machine: Json
    outcomes: Iterator[Any]
    """Of executors, in the order in which they run."""
    state: str = "a"
    version: int = 1
    context: Json = field(default_factory=dict)
    evidence: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    chain: list[tuple[str, str, str, int]] = field(default_factory=list)
    stopped: str = ""

    def start(self) -> str:
        """Starts; the code of the failure, or empty."""
        self.context = dict(self.machine["initialContext"])
        try:
            self.context = self._enter("a", self.context, [])
        except Failed as failed:
            self.ended = "failure"
            return str(failed)
        return self._chain()

    def submit(self, name: str) -> str:
        """Takes a transition whose guards hold; the code of the failure, or empty."""
        self.chain, self.stopped = [], ""
        try:
            self._hop(name)
        except Failed as failed:
            return str(failed)
        return self._chain()

    def possible(self) -> list[str]:
        """Transitions whose guards hold."""
        found = self.machine["states"][self.state].get("transitions", {})
        return [name for name, one in found.items() if all(self._holds(guard, self.context) for guard in one["guards"])]

    def _chain(self) -> str:
        while True:
            state = self.machine["states"][self.state]
            if state.get("terminal"):
                self.ended = state["outcome"]
                return ""
            if any(one["actor"] != "deterministic" for one in state["transitions"].values()):
                return ""
            if len(self.chain) >= self.machine["maxChainDepth"]:
                self.stopped = "depth_limit"
                return ""
            possible = self.possible()
            if len(possible) != 1:
                return "CHAIN_FAILED"
            before = self.state
            try:
                self._hop(possible[0])
            except Failed as failed:
                return str(failed)
            self.chain.append((before, possible[0], self.state, self.version))

    def _hop(self, name: str) -> None:
        transition = self.machine["states"][self.state]["transitions"][name]
        marks: list[str] = []
        value = self._execute(transition.get("executor"), transition.get("reliability"), marks)
        draft = self._write(transition["output"], value, self.context)
        target = transition["target"]
        for branch in transition["branches"]:
            if self._holds(branch["when"], draft):
                target = branch["target"]
                break
        draft = self._enter(target, draft, marks)
        for kind in [*marks, *transition["evidence"]]:
            self.evidence[kind] = self.evidence.get(kind, 0) + 1
        self.state, self.context, self.version = target, draft, self.version + 1

    def _enter(self, target: str, draft: Json, marks: list[str]) -> Json:
        entry = self.machine["states"][target].get("onEnter")
        if entry is None:
            return draft
        value = self._execute(entry["executor"], None, marks)
        return self._write(entry["output"], value, draft)

    def _execute(self, executor: Json | None, reliability: Json | None, marks: list[str]) -> Any:
        if executor is None:
            return {}
        if executor["kind"] == "human":
            marks.append("human_request")
            return {"queue": "default"}
        for _ in range(2 if reliability else 1):
            outcome = next(self.outcomes)
            if outcome != FAILS:
                return {"v": outcome}
        raise Failed("EXECUTOR_FAILED")

    def _write(self, output: Json, value: Any, context: Json) -> Json:
        found = dict(context)
        for key, spec in output.items():
            if spec == "$.output.v":
                found[key] = value.get("v")
            elif spec == "$.context.n":
                found[key] = context.get("n")
            elif isinstance(spec, dict):
                count = context.get("n")
                found[key] = (count or 0) + 1
            else:
                found[key] = spec
        return found

    def _holds(self, guard: Json, context: Json) -> bool:
        _, operator, value = guard["expr"].split()
        n, wanted = context.get("n"), int(value)
        if operator in ("==", "!="):
            return bool((n == wanted) == (operator == "=="))
        if n is None:
            return False
        return bool(n >= wanted if operator == ">=" else n < wanted)
