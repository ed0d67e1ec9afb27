"""All definitions of one toolset at one moment: what is there, and how ids resolve.

A library is made once from the files and never changes; a change of a file makes a new one
(``source.py``). Every lookup is in dictionaries over what a scan has found, so no id that a
caller gives becomes a path.

How ids resolve: a skill ``wf/skill`` is that workflow's only; a bare one is looked for in the
workflow, then in the workflow that the activity was borrowed from, then in ``meta`` (seeds
000 and 002). A resource ``wf/03`` is that workflow's, a bare one the given workflow's; indices
compare by value with up to as many digits as the era allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.definitions import toon
from coordinator.definitions.decoding import Front
from coordinator.definitions.files import File, Problem
from coordinator.definitions.model import Activity, Skill, Workflow

META = "meta"
"""The workflow whose skills all others may use, and which starts agents off."""


@dataclass(frozen=True, slots=True)
class LoadedActivity:
    """An activity and where it comes from."""

    activity: Activity
    owner: str
    """The workflow whose file it is; another one than that which uses it, if it is borrowed."""
    data: Mapping[str, Any]
    """All that the file says, fields included that no struct knows."""
    text: str
    """The file, byte for byte; TOON made for it where it is written inside ``workflow.toon``."""
    place: str

    @property
    def id(self) -> str:
        """The activity's id."""
        return self.activity.id


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill and where it comes from."""

    skill: Skill
    id: str
    """As the file's name says it, which is what references use."""
    workflow: str
    index: str
    data: Mapping[str, Any]
    text: str
    """The file, byte for byte."""
    place: str


@dataclass(frozen=True, slots=True)
class LoadedText:
    """A resource or a template."""

    workflow: str
    index: str
    name: str
    """The file's name without number and ending."""
    format: str
    """``md`` or ``toon``."""
    text: str
    """The file, byte for byte."""
    front: Front
    place: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What a workflow's folder holds, whether or not the workflow itself can be used."""

    id: str
    skills: Mapping[str, LoadedSkill]
    resources: tuple[LoadedText, ...]
    """By number; of two with the same number the one in TOON comes first."""
    templates: tuple[LoadedText, ...]
    activities: Mapping[str, LoadedActivity]
    """Of its own files, by file name."""
    rules: Mapping[str, Any] | None = None
    """All that its ``rules.toon`` says; None where it has none."""

    def resource(self, index: str, width: int) -> LoadedText | None:
        """The resource of this number; ``width`` is up to how many digits zeros may stand before it."""
        return _numbered(self.resources, index, width)

    def template(self, index: str) -> LoadedText | None:
        """The template of this number; zeros before it may be left out, up to two digits."""
        return _numbered(self.templates, index, 2)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedWorkflow:
    """A workflow with its activities. It never changes, so what is worked out for it can be kept by its identity."""

    workflow: Workflow
    id: str
    """The name of its folder, which is what callers use."""
    activities: Mapping[str, LoadedActivity]
    """Its own in the order of their files, then those written in ``workflow.toon``, then borrowed ones."""
    data: Mapping[str, Any]
    text: str
    """``workflow.toon``, byte for byte."""
    place: str
    digest: str
    """Twelve hex digits over all files of the workflow and those it borrows: another text, another digest."""

    @property
    def version(self) -> str:
        """The version that its author gave it."""
        return self.workflow.version

    @property
    def initial_activity(self) -> str | None:
        """Where it begins; None where every activity is an entry point of its own."""
        return self.workflow.initial_activity or None

    def activity(self, activity_id: str) -> Activity | None:
        """The activity of this id, if it has one."""
        found = self.activities.get(activity_id)
        return None if found is None else found.activity


@dataclass(frozen=True, slots=True)
class Library:
    """All that was found below some roots, by ids, in alphabetical order."""

    workflows: Mapping[str, LoadedWorkflow] = field(default_factory=dict)
    """Those that can be used."""
    folders: Mapping[str, Folder] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    files: int = 0
    """How many files were read."""
    version: str = ""
    """Twelve hex digits over all files: equal in processes that use the same definitions."""

    def skill(self, workflow: str, reference: str, owner: str | None = None) -> LoadedSkill | None:
        """The skill that a reference means within a workflow.

        Args:
            owner: the workflow whose file the activity is that names it (``LoadedActivity.owner``).
        """
        head, slash, rest = reference.partition("/")
        if slash:
            return self._skill_of(head, rest)
        for place in dict.fromkeys((workflow, owner, META)):
            if place is not None and (found := self._skill_of(place, reference)) is not None:
                return found
        return None

    def resource(self, workflow: str, reference: str, width: int = 3) -> LoadedText | None:
        """The resource that a reference (``03``, ``meta/01``) means within a workflow."""
        head, slash, index = reference.partition("/")
        if slash and head:
            workflow, reference = head, index
        folder = self.folders.get(workflow)
        return None if folder is None else folder.resource(reference, width)

    def template(self, workflow: str, index: str) -> LoadedText | None:
        """The template of this number of a workflow."""
        folder = self.folders.get(workflow)
        return None if folder is None else folder.template(index)

    def activity(self, activity_id: str) -> tuple[str, LoadedActivity] | None:
        """The first workflow that has an activity of this id as its own, and the activity."""
        for name, workflow in self.workflows.items():
            found = workflow.activities.get(activity_id)
            if found is not None and found.owner == name:
                return name, found
        return None

    def _skill_of(self, workflow: str, skill: str) -> LoadedSkill | None:
        folder = self.folders.get(workflow)
        return None if folder is None else folder.skills.get(skill)


def display_name(identity: str) -> str:
    """An id for people: ``code-review`` is ``Code Review``."""
    return " ".join(word[:1].upper() + word[1:] for word in identity.split("-"))


def digest(files: Iterable[File]) -> str:
    """Twelve hex digits over places and contents."""
    summed = hashlib.sha256()
    for place, content in sorted((file.place, file.digest) for file in files):
        summed.update(f"{place}\0{content}\0".encode())
    return summed.hexdigest()[:12]


def inline_text(data: Mapping[str, Any]) -> str:
    """TOON for an activity that has no file of its own."""
    return toon.write(dict(data)) + "\n"


def _numbered(texts: tuple[LoadedText, ...], index: str, width: int) -> LoadedText | None:
    wanted = index.zfill(width) if index.isascii() and index.isdigit() else index
    return next((text for text in texts if text.index == index or text.index.zfill(width) == wanted), None)
