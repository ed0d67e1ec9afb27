"""The parts of a workflow definition, as structs.

One model reads both eras of the format. Fields that only one of them knows are optional here, and
fields that neither knows are dropped. (A ``Loaded`` object keeps the whole text and, for
activities and skills, the whole data.) Names in files are camelCase with a few exceptions.
Defaults are those of the format. A field without a default that a file leaves out is ``UNSET``,
so that encoding a struct gives the content of the file plus defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

Version = Annotated[str, Meta(pattern=r"^\d+\.\d+\.\d+\Z")]
Text = Annotated[str, Meta(min_length=1)]
Scalar: TypeAlias = str | int | float | bool | None
OptionalText: TypeAlias = str | UnsetType

END = "__terminal__"
TERMINALS = frozenset((END, "workflow-end", "end-workflow"))
"""Targets of transitions that mean the end of the workflow, unless an activity has that name."""


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all parts of a definition: immutable, and camelCase in files."""


# --- conditions -------------------------------------------------------------------------------


class Comparison(Part, frozen=True, kw_only=True, tag_field="type", tag="simple"):
    """Compares one variable with a value; ``exists`` and ``notExists`` take no value."""

    variable: Text
    """A name, or a path of names joined by dots."""
    operator: Literal["==", "!=", ">", "<", ">=", "<=", "exists", "notExists"]
    value: Scalar | UnsetType = UNSET


class And(Part, frozen=True, kw_only=True, tag_field="type", tag="and"):
    """Holds if all of its conditions do."""

    conditions: tuple[Condition, ...]


class Or(Part, frozen=True, kw_only=True, tag_field="type", tag="or"):
    """Holds if at least one of its conditions does."""

    conditions: tuple[Condition, ...]


class Not(Part, frozen=True, kw_only=True, tag_field="type", tag="not"):
    """Holds if its condition does not."""

    condition: Condition


Condition: TypeAlias = Comparison | And | Or | Not


# --- activities -------------------------------------------------------------------------------


class SkillUse(Part, frozen=True, kw_only=True):
    """The skills that an agent needs for an activity or a workflow."""

    primary: OptionalText = UNSET
    supporting: tuple[str, ...] | UnsetType = UNSET


class Action(Part, frozen=True, kw_only=True):
    """Something for the agent to do. The server never does it itself."""

    action: Text
    target: OptionalText = UNSET
    message: OptionalText = UNSET
    value: Any = UNSET
    description: OptionalText = UNSET
    condition: Condition | UnsetType = UNSET


class Trigger(Part, frozen=True, kw_only=True):
    """Another workflow that is to be run from here."""

    workflow: Text
    description: OptionalText = UNSET
    pass_context: tuple[str, ...] | UnsetType = UNSET


class Step(Part, frozen=True, kw_only=True):
    """One step of an activity or of a loop."""

    id: Text
    name: Text
    description: OptionalText = UNSET
    skill: OptionalText = UNSET
    required: bool = True
    actions: tuple[Action, ...] | UnsetType = UNSET
    condition: Condition | UnsetType = UNSET
    checkpoint: OptionalText = UNSET
    """The checkpoint to yield before the step."""
    triggers: tuple[Trigger, ...] | UnsetType = UNSET
    skill_args: dict[str, Scalar] | UnsetType = field(name="skill_args", default=UNSET)


class Effect(Part, frozen=True, kw_only=True):
    """The effect of choosing an option."""

    set_variable: dict[str, Any] | UnsetType = UNSET
    transition_to: OptionalText = UNSET
    skip_activities: tuple[str, ...] | UnsetType = UNSET


class Option(Part, frozen=True, kw_only=True):
    """One answer to a checkpoint."""

    id: Text
    label: Text
    description: OptionalText = UNSET
    effect: Effect | UnsetType = UNSET
    transition_to: OptionalText = UNSET
    """Some files write it next to the effect instead of in it. ``effects`` combines the two."""

    @property
    def effects(self) -> Effect:
        """The effect of choosing the option; empty if the file states none."""
        effect = Effect() if self.effect is UNSET else self.effect
        if effect.transition_to is UNSET and self.transition_to is not UNSET:
            return msgspec.structs.replace(effect, transition_to=self.transition_to)
        return effect


class Checkpoint(Part, frozen=True, kw_only=True):
    """A question that the user, or an agent on the user's behalf, has to answer."""

    id: Text
    name: Text
    message: Text
    options: Annotated[tuple[Option, ...], Meta(min_length=1)]
    prerequisite: OptionalText = UNSET
    required: bool = True
    blocking: bool = True
    condition: Condition | UnsetType = UNSET
    default_option: OptionalText = UNSET
    auto_advance_ms: Annotated[int, Meta(gt=0)] | UnsetType = UNSET
    """Milliseconds after which the default option may be taken."""

    def option(self, option_id: str) -> Option | None:
        return next((option for option in self.options if option.id == option_id), None)


class Branch(Part, frozen=True, kw_only=True):
    """One outcome of a decision. Without a target it ends the workflow."""

    id: Text
    label: Text
    condition: Condition | UnsetType = UNSET
    transition_to: OptionalText = UNSET
    is_default: bool = False


class Decision(Part, frozen=True, kw_only=True):
    """A choice that the agent makes by itself."""

    id: Text
    name: Text
    description: OptionalText = UNSET
    branches: Annotated[tuple[Branch, ...], Meta(min_length=1)]


class Transition(Part, frozen=True, kw_only=True):
    """A way from an activity to another one."""

    to: Text
    condition: Condition | UnsetType = UNSET
    is_default: bool = False


class Loop(Part, frozen=True, kw_only=True):
    """Steps that are repeated: for each item of a list, or while a condition holds."""

    id: Text
    name: Text
    type: Literal["forEach", "while", "doWhile"]
    variable: OptionalText = UNSET
    """The variable that is set to the present item."""
    over: OptionalText = UNSET
    """The path of the variable that holds the list of items."""
    condition: Condition | UnsetType = UNSET
    max_iterations: Annotated[int, Meta(gt=0)] = 100
    break_condition: Condition | UnsetType = UNSET
    description: OptionalText = UNSET
    steps: tuple[Step, ...] | UnsetType = UNSET
    activities: tuple[str, ...] | UnsetType = UNSET


class Artifact(Part, frozen=True, kw_only=True):
    """A document that an activity creates or updates."""

    id: Text
    name: Text
    location: OptionalText = UNSET
    description: OptionalText = UNSET
    action: Literal["create", "update"] | UnsetType = UNSET
    template: OptionalText = UNSET
    required: bool | UnsetType = UNSET
    condition: Any = UNSET


class Activity(Part, frozen=True, kw_only=True):
    """One activity of a workflow."""

    id: Text
    version: Version
    name: Text
    description: OptionalText = UNSET
    problem: OptionalText = UNSET
    recognition: tuple[str, ...] | UnsetType = UNSET
    skills: SkillUse | UnsetType = UNSET
    steps: tuple[Step, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    decisions: tuple[Decision, ...] = ()
    loops: tuple[Loop, ...] = ()
    transitions: tuple[Transition, ...] = ()
    triggers: tuple[Trigger, ...] | Trigger | UnsetType = UNSET
    entry_actions: tuple[Action, ...] | UnsetType = UNSET
    exit_actions: tuple[Action, ...] | UnsetType = UNSET
    outcome: tuple[str, ...] | UnsetType = UNSET
    context_to_preserve: tuple[str, ...] | UnsetType = field(name="context_to_preserve", default=UNSET)
    required: bool = True
    estimated_time: OptionalText = UNSET
    rules: tuple[str, ...] | UnsetType = UNSET
    artifacts: tuple[Artifact, ...] | UnsetType = UNSET
    artifact_prefix: OptionalText = UNSET
    """The number at the beginning of the file's name. Set by the loader, not by the file."""
    notes: tuple[str, ...] | UnsetType = UNSET

    @property
    def primary_skill(self) -> str | None:
        """The activity's primary skill, as the file names it."""
        return _primary(self.skills)

    def checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        return next((one for one in self.checkpoints if one.id == checkpoint_id), None)

    def loop(self, loop_id: str) -> Loop | None:
        return next((one for one in self.loops if one.id == loop_id), None)

    def all_steps(self) -> tuple[Step, ...]:
        """The steps of the activity, then those of its loops."""
        inner = (step for loop in self.loops if loop.steps is not UNSET for step in loop.steps)
        return (*self.steps, *inner)

    def own_triggers(self) -> tuple[Trigger, ...]:
        if self.triggers is UNSET:
            return ()
        return (self.triggers,) if isinstance(self.triggers, Trigger) else self.triggers

    def all_triggers(self) -> tuple[Trigger, ...]:
        """The triggers of the activity, then those of its steps."""
        return (*self.own_triggers(), *(trigger for step in self.all_steps() for trigger in step.triggers or ()))

    def ways_out(self) -> Iterator[tuple[str, str]]:
        """What leads out of the activity, in words, and the id that it leads to: transitions, decisions, options."""
        for transition in self.transitions:
            yield "a transition", transition.to
        for decision in self.decisions:
            for branch in decision.branches:
                if branch.transition_to is not UNSET:
                    yield f"decision '{decision.id}', branch '{branch.id}',", branch.transition_to
        for checkpoint in self.checkpoints:
            for option in checkpoint.options:
                if (target := option.effects.transition_to) is not UNSET:
                    yield f"checkpoint '{checkpoint.id}', option '{option.id}',", target

    def targets(self) -> tuple[str, ...]:
        """The ids that the ways out lead to, each once."""
        return tuple(dict.fromkeys(target for _, target in self.ways_out()))


# --- workflows and what belongs to them -------------------------------------------------------


class Variable(Part, frozen=True, kw_only=True):
    """A variable that a workflow declares."""

    name: Text
    type: Literal["string", "number", "boolean", "array", "object"]
    description: OptionalText = UNSET
    default_value: Any = UNSET
    required: bool = False


class Mode(Part, frozen=True, kw_only=True):
    """A way of running a workflow. Agents read it; it has no effect on the server."""

    id: Text
    name: Text
    description: OptionalText = UNSET
    activation_variable: Text
    recognition: tuple[str, ...] | UnsetType = UNSET
    skip_activities: tuple[str, ...] | UnsetType = UNSET
    defaults: dict[str, Any] | UnsetType = UNSET
    resource: OptionalText = UNSET


class Location(Part, frozen=True, kw_only=True):
    """A folder for artifacts."""

    path: Text
    description: OptionalText = UNSET
    gitignored: bool = False


class Workflow(Part, frozen=True, kw_only=True):
    """A workflow without its activities; a ``LoadedWorkflow`` has these, too."""

    id: Text
    version: Version
    title: Text
    description: OptionalText = UNSET
    author: OptionalText = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    rules: tuple[str, ...] | UnsetType = UNSET
    variables: tuple[Variable, ...] | UnsetType = UNSET
    modes: tuple[Mode, ...] | UnsetType = UNSET
    artifact_locations: dict[str, str | Location] | UnsetType = UNSET
    skills: SkillUse | UnsetType = UNSET
    outputs: tuple[str, ...] | UnsetType = UNSET
    """The variables that a workflow which triggers this one gets back: ``name``, or ``name - description``."""
    initial_activity: OptionalText = UNSET
    """Absent if every activity is an entry point."""
    schema: OptionalText = field(name="$schema", default=UNSET)
    """The schema that the file claims to keep to."""

    @property
    def primary_skill(self) -> str | None:
        """The workflow's primary skill, as the file names it."""
        return _primary(self.skills)


class Skill(Part, frozen=True, kw_only=True):
    """The head of a skill. The rest is only for agents, who get the file's text."""

    id: Text
    version: Version
    capability: Text
    description: OptionalText = UNSET


class Rules(Part, frozen=True, kw_only=True):
    """The head of ``meta/rules.toon``: rules for agents in every workflow."""

    id: Text
    version: Text
    title: OptionalText = UNSET


def preserved_name(said: str) -> str:
    """The variable that an entry of ``passContext``, ``context_to_preserve`` or ``outputs`` names."""
    return said.split(" - ", 1)[0].strip()


def _primary(skills: SkillUse | UnsetType) -> str | None:
    return None if skills is UNSET or not skills.primary else skills.primary
