"""A plain model of navigation: sets and dictionaries over the raw definition.

Written from the documented rules (what a checkpoint blocks, when an activity is complete, which ways are open),
not from the code; slow and without tokens, messages or history.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
ENDS = ("__terminal__", "workflow-end", "end-workflow")


def truth(condition: Json | None, variables: Json) -> bool:
    """Conditions of this model's workflows compare one variable with ``==``."""
    if condition is None:
        return True
    name, value = condition["variable"], condition["value"]
    return name in variables and type(variables[name]) is type(value) and variables[name] == value


class Model:
    """One walk."""

    def __init__(self, workflow: Json, variables: Json) -> None:
        self.activities = {one["id"]: one for one in workflow["activities"]}
        self.at = workflow["initialActivity"]
        self.variables = dict(variables)
        self.skipped: set[str] = set()
        self.path: list[str] = []
        self.later: list[str] = []
        self.ended = False
        self.again = False
        self._visit()

    def copy(self) -> Model:
        """A copy of the walk for trial actions."""
        other = object.__new__(Model)
        other.__dict__.update(self.__dict__)
        other.variables = dict(self.variables)
        for name in ("skipped", "steps", "reported", "gone_through"):
            setattr(other, name, set(getattr(self, name)))
        other.path, other.later = list(self.path), list(self.later)
        other.answers = dict(self.answers)
        other.loops = [{**loop, "done": set(loop["done"])} for loop in self.loops]
        return other

    def _visit(self) -> None:
        self.steps: set[str] = set()
        self.answers: dict[str, Json] = {}
        self.loops: list[Json] = []
        self.gone_through: set[str] = set()
        self.reported: set[str] = set()

    @property
    def here(self) -> Json:
        return self.activities[self.at]

    # --- what is left

    def asked(self, thing: Json) -> bool:
        return thing.get("required", True) and truth(thing.get("condition"), self.variables)

    def questions(self) -> list[str]:
        open_ones = [one for one in self.here["checkpoints"] if one["id"] not in self.answers]
        return [one["id"] for one in open_ones if one.get("blocking", True) and self.asked(one)]

    def question(self) -> str | None:
        return next(iter(self.questions()), None)

    def body(self, loop: Json) -> list[Json]:
        return [*loop["steps"], *(one for one in self.here["steps"] if one["id"] in loop.get("activities", ()))]

    def own_steps(self) -> list[Json]:
        named = {name for loop in self.here["loops"] for name in loop.get("activities", ())}
        return [one for one in self.here["steps"] if one["id"] not in named]

    def can_begin(self, loop: Json) -> bool:
        return loop["type"] != "while" or truth(loop["condition"], self.variables)

    def needed(self, loop: Json) -> bool:
        if loop["type"] == "forEach" and self.variables.get(loop.get("over", ""), None) == []:
            return False
        wanted = any(one.get("required", True) for one in self.body(loop))
        return wanted and self.can_begin(loop) and loop["id"] not in self.gone_through

    def todo(self) -> list[tuple[str, str]]:
        """The required parts, in order: steps of the current loop, else steps and loops of the activity."""
        if self.loops:
            loop = self.loops[-1]
            steps = self.body(self._loop(loop["id"]))
            return [("complete_step", one["id"]) for one in steps if one["id"] not in loop["done"] and self.asked(one)]
        found: list[tuple[str, str]] = []
        loops = [loop for loop in self.here["loops"] if self.needed(loop)]
        for one in self.here["steps"]:
            for loop in [loop for loop in loops if one["id"] in loop.get("activities", ())]:
                found.append(("advance_loop", loop["id"]))
                loops.remove(loop)
            if one in self.own_steps() and one["id"] not in self.steps and self.asked(one):
                found.append(("complete_step", one["id"]))
        return found + [("advance_loop", loop["id"]) for loop in loops]

    def complete(self) -> bool:
        return self.question() is None and not self.loops and not self.todo()

    def _loop(self, name: str) -> Json:
        return next(loop for loop in self.here["loops"] if loop["id"] == name)

    # --- where to go

    def ways(self) -> set[str]:
        return self._out()[0]

    def _out(self) -> tuple[set[str], bool]:
        """The open targets, and whether the workflow is completed."""
        for option in reversed(self.answers.values()):
            leads = option.get("effect", {}).get("transitionTo")
            if leads in self.activities or leads in ENDS:
                return {leads}, False
        found: dict[str, tuple[int, Json | None]] = {}
        closed: dict[str, str | None] = {}
        for target, rank, condition, shut in self._each(self.at, 0, (self.at,)):
            if shut is not None:
                closed.setdefault(target, shut or None)
            elif target not in found or rank < found[target][0]:
                found[target] = (rank, condition)
        behind = {*self.path, self.at}
        been = behind.union(self.later)
        deciding = [name for target, name in closed.items() if target not in behind and target not in found and name]
        held = {
            target
            for target, (_, condition) in found.items()
            if self.again and target in been and condition and not self._known(condition["variable"])
        }
        if held or any(not self._known(name) for name in deciding):
            held |= {target for target, (rank, _) in found.items() if rank and target in been}
        asks = not found and any(name not in self.variables for name in deciding)
        return found.keys() - held, not found and not asks

    def _known(self, name: str) -> bool:
        return name in self.reported or (not self.again and name in self.variables)

    def _each(self, start: str, rank: int, path: tuple[str, ...]) -> Iterator[tuple[str, int, Json | None, str | None]]:
        """Each way: target, rank, the condition that holds, and the variable that closes it, if any."""
        activity = self.activities[start]
        lists = [[(one["to"], one) for one in activity["transitions"]]]
        lists += [
            [(one.get("transitionTo", "__terminal__"), one) for one in decision["branches"]]
            for decision in activity["decisions"]
        ]
        for entries in lists:
            true = [one["condition"] for _, one in entries if "condition" in one and self._holds(one)]
            for target, one in entries:
                if target not in self.activities and target not in ENDS:
                    continue
                shut: str | None = None
                condition = one.get("condition") if "condition" in one and self._holds(one) else None
                if condition:
                    own = 0
                elif one.get("isDefault"):
                    own, shut = 2, true[0]["variable"] if true else None
                else:
                    own, shut = (0, one["condition"]["variable"]) if "condition" in one else (1, None)
                best = max(own, rank)
                if shut is not None or target not in self.skipped or target not in self.activities:
                    yield target, best, condition, shut
                elif target not in path:
                    yield target, best, None, ""
                    yield from self._each(target, best, (*path, target))

    def _holds(self, one: Json) -> bool:
        return truth(one["condition"], self.variables)

    @property
    def finished(self) -> bool:
        return self.ended or (self.complete() and self._out()[1])

    # --- actions; each returns the code of a refusal, or nothing

    def do(self, action: str, name: str, extra: Any, variables: Json) -> str | None:
        """Performs an action, or changes nothing."""
        if self.ended:
            return "WORKFLOW_COMPLETED"
        question = self.question()
        if question and (
            action in ("complete_step", "advance_loop", "report")
            or (variables and (action, name) != ("respond_to_checkpoint", question))
        ):
            return "CHECKPOINT_BLOCKING"
        trial = self.copy()
        trial._set(variables)
        # No report removes another checkpoint.
        answered = name if action == "respond_to_checkpoint" else None
        if [one for one in self.questions() if one != answered and one not in trial.questions()]:
            return "CHECKPOINT_BLOCKING"
        code: str | None = getattr(trial, "_" + action)(name, extra)
        if code is None:
            self.__dict__.update(trial.__dict__)
        return code

    def _set(self, variables: Json) -> None:
        self.variables.update(variables)
        self.reported |= variables.keys()

    def _report(self, _: str, __: Any) -> str | None:
        return None

    def _complete_step(self, name: str, _: Any) -> str | None:
        done, steps = self.steps, self.own_steps()
        if self.loops and any(one["id"] == name for one in self.body(self._loop(self.loops[-1]["id"]))):
            done, steps = self.loops[-1]["done"], self.body(self._loop(self.loops[-1]["id"]))
        if all(one["id"] != name for one in steps):
            return "STEP_NOT_FOUND"
        if name in done:
            return "STEP_ALREADY_COMPLETE"
        done.add(name)
        return None

    def _respond_to_checkpoint(self, name: str, option: str) -> str | None:
        found = [one for one in self.here["checkpoints"] if one["id"] == name]
        if not found:
            return "CHECKPOINT_NOT_FOUND"
        options = [one for one in found[0]["options"] if one["id"] == option]
        if not options:
            return "OPTION_NOT_FOUND"
        if name in self.answers:
            return "CHECKPOINT_ALREADY_RESPONDED"
        self.answers[name] = options[0]
        effect = options[0].get("effect", {})
        self._set(effect.get("setVariable", {}))
        self.skipped |= {one for one in effect.get("skipActivities", ()) if one in self.activities and one != self.at}
        return None

    def _transition(self, target: str, _: Any) -> str | None:
        if not self.complete():
            return "ACTIVITY_NOT_COMPLETE"
        if target not in self.activities and target not in ENDS:
            return "TARGET_ACTIVITY_NOT_FOUND"
        ways, over = self._out()
        if target not in ways and not (over and target in ENDS):
            return "INVALID_TRANSITION"
        self.path.append(self.at)
        if target in self.activities:
            self.at = target
            self.again = target in self.path or target in self.later
            self._go_to(target)
            self.skipped.discard(target)
            self._visit()
        else:
            self.ended = True
        return None

    def _go_to(self, target: str) -> None:
        """Divides the activities done into those on the path to the target, and those that come after it."""
        done = self.path + self.later
        cut = done.index(target) if target in done else len(self.path)
        self.path, self.later = done[:cut], [one for one in done[cut:] if one != target]

    def _advance_loop(self, name: str, items: list[Any] | None) -> str | None:
        if all(loop["id"] != name for loop in self.here["loops"]):
            return "LOOP_NOT_FOUND"
        loop = self._loop(name)
        if all(one["id"] != name for one in self.loops):
            return self._begin(loop, items)
        active = self.loops[-1]
        if active["id"] != name:
            return "LOOP_NOT_CURRENT"
        if self.todo():
            return "LOOP_STEPS_INCOMPLETE"
        broken = "breakCondition" in loop and truth(loop["breakCondition"], self.variables)
        over = loop["type"] != "forEach" and not truth(loop["condition"], self.variables)
        none_left = loop["type"] == "forEach" and items == []
        active["iteration"] += 1
        if broken or over or none_left or active["iteration"] >= active["total"]:
            self.loops.pop()
            self.gone_through.add(name)
        else:
            active["done"] = set()
            self._item(loop, active, items or active["items"])
        return None

    def _begin(self, loop: Json, items: list[Any] | None) -> str | None:
        given = self.variables.get(loop.get("over", ""), []) if items is None else items
        if loop["type"] == "forEach" and not given:
            if items is None:
                return "LOOP_ITEMS_REQUIRED"
            self.gone_through.add(loop["id"])
            return None
        if not self.can_begin(loop):
            return "LOOP_CONDITION_NOT_MET"
        most = loop.get("maxIterations", 100)
        active = {"id": loop["id"], "iteration": 0, "total": min(len(given), most) if given else most,
                  "items": items or given, "done": set()}  # fmt: skip
        self.loops.append(active)
        self._item(loop, active, given)
        return None

    def _item(self, loop: Json, active: Json, items: list[Any]) -> None:
        if loop["type"] == "forEach" and "variable" in loop:
            known = active["iteration"] < len(items)
            self.variables[loop["variable"]] = items[active["iteration"]] if known else None
