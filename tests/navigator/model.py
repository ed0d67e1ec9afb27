"""Navigation once more, as plainly as it can be said: sets and dictionaries over the raw definition.

Written from the rules (what a checkpoint blocks, when an activity is complete, which ways are open),
not from the code; slow and without tokens, messages or history.
"""

from __future__ import annotations

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
        self.completed: set[str] = set()
        self.ended = False
        self._visit()

    def copy(self) -> Model:
        """The same walk, to try something on."""
        other = object.__new__(Model)
        other.__dict__.update(self.__dict__)
        other.variables = dict(self.variables)
        for name in ("skipped", "completed", "steps"):
            setattr(other, name, set(getattr(self, name)))
        other.answers = dict(self.answers)
        other.loops = [{**loop, "done": set(loop["done"])} for loop in self.loops]
        return other

    def _visit(self) -> None:
        self.steps: set[str] = set()
        self.answers: dict[str, Json] = {}
        self.loops: list[Json] = []

    @property
    def here(self) -> Json:
        return self.activities[self.at]

    # --- what is left

    def asked(self, thing: Json) -> bool:
        return thing.get("required", True) and truth(thing.get("condition"), self.variables)

    def question(self) -> str | None:
        for one in self.here["checkpoints"]:
            if one["id"] not in self.answers and one.get("blocking", True) and self.asked(one):
                return str(one["id"])
        return None

    def open_steps(self) -> list[str]:
        if self.loops:
            loop, inside = self.loops[-1], self._loop(self.loops[-1]["id"])
            return [one["id"] for one in inside["steps"] if one["id"] not in loop["done"] and self.asked(one)]
        return [one["id"] for one in self.here["steps"] if one["id"] not in self.steps and self.asked(one)]

    def complete(self) -> bool:
        return self.question() is None and not self.loops and not self.open_steps()

    def _loop(self, name: str) -> Json:
        return next(loop for loop in self.here["loops"] if loop["id"] == name)

    # --- where to go

    def ways(self, start: str | None = None, passed: tuple[str, ...] = ()) -> set[str]:
        activity = self.activities[start or self.at]
        if start is None:
            for option in reversed(self.answers.values()):
                leads = option.get("effect", {}).get("transitionTo")
                if leads in self.activities or leads in ENDS:
                    return {leads}
        found: set[str] = set()
        lists = [[(one["to"], one) for one in activity["transitions"]]]
        lists += [
            [(one.get("transitionTo", "__terminal__"), one) for one in decision["branches"]]
            for decision in activity["decisions"]
        ]
        for entries in lists:
            conditional = [one for _, one in entries if "condition" in one]
            any_true = any(truth(one["condition"], self.variables) for one in conditional)
            for target, one in entries:
                if "condition" in one and truth(one["condition"], self.variables):
                    is_open = True
                elif one.get("isDefault"):
                    is_open = not any_true
                else:
                    is_open = "condition" not in one
                if is_open:
                    found |= self._through(target, (*passed, activity["id"]))
        return found

    def _through(self, target: str, passed: tuple[str, ...]) -> set[str]:
        if target not in self.activities:
            return {target} & set(ENDS)
        if target not in self.skipped:
            return {target}
        return set() if target in passed else self.ways(target, passed)

    @property
    def finished(self) -> bool:
        return self.ended or (self.complete() and not self.ways())

    # --- what is done; each returns the code of a refusal, or nothing

    def do(self, action: str, name: str, extra: Any, variables: Json) -> str | None:
        """Does an action, or leaves everything as it was."""
        if self.ended:
            return "WORKFLOW_COMPLETED"
        if action in ("complete_step", "advance_loop") and self.question():
            return "CHECKPOINT_BLOCKING"
        trial = self.copy()
        trial.variables.update(variables)
        code: str | None = getattr(trial, "_" + action)(name, extra)
        if code is None:
            self.__dict__.update(trial.__dict__)
        return code

    def _complete_step(self, name: str, _: Any) -> str | None:
        done, steps = self.steps, self.here["steps"]
        if self.loops and any(one["id"] == name for one in self._loop(self.loops[-1]["id"])["steps"]):
            done, steps = self.loops[-1]["done"], self._loop(self.loops[-1]["id"])["steps"]
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
        self.variables.update(effect.get("setVariable", {}))
        self.skipped |= {one for one in effect.get("skipActivities", ()) if one in self.activities and one != self.at}
        return None

    def _transition(self, target: str, _: Any) -> str | None:
        if not self.complete():
            return "ACTIVITY_NOT_COMPLETE"
        if target not in self.activities and target not in ENDS:
            return "TARGET_ACTIVITY_NOT_FOUND"
        if target not in self.ways():
            return "INVALID_TRANSITION"
        self.completed.add(self.at)
        if target in self.activities:
            self.at = target
            self.skipped.discard(target)
            self.completed.discard(target)
            self._visit()
        else:
            self.ended = True
        return None

    def _advance_loop(self, name: str, items: list[Any] | None) -> str | None:
        if all(loop["id"] != name for loop in self.here["loops"]):
            return "LOOP_NOT_FOUND"
        loop = self._loop(name)
        if all(one["id"] != name for one in self.loops):
            return self._begin(loop, items)
        active = self.loops[-1]
        if active["id"] != name:
            return "LOOP_NOT_CURRENT"
        if self.open_steps():
            return "LOOP_STEPS_INCOMPLETE"
        broken = "breakCondition" in loop and truth(loop["breakCondition"], self.variables)
        over = loop["type"] != "forEach" and not truth(loop["condition"], self.variables)
        active["iteration"] += 1
        if broken or over or active["iteration"] >= active["total"]:
            self.loops.pop()
        else:
            active["done"] = set()
            self._item(loop, active, items or active["items"])
        return None

    def _begin(self, loop: Json, items: list[Any] | None) -> str | None:
        given = items or self.variables.get(loop.get("over", ""), [])
        if not isinstance(given, list):
            given = []
        if loop["type"] == "forEach" and not given:
            return "LOOP_ITEMS_REQUIRED"
        if loop["type"] == "while" and not truth(loop["condition"], self.variables):
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
