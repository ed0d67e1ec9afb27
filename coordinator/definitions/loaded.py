"""All definitions of one toolset at one moment, and how ids are looked up in them.

A library is made once from the files and never changes. A change of a file leads to a new library
(``source.py``). Every lookup uses dictionaries of the files that a scan has found, so no id that a
caller passes becomes a path.

Lookup: a skill ``wf/skill`` is looked up only in that workflow. A skill without a workflow is looked
up in the given workflow, then in the workflow from which the activity was borrowed, then in ``meta``.
A resource ``wf/03`` belongs to that workflow, one without a workflow to the given one. Leading zeros
of its number may be left out, up to the width that the toolset allows.
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
"""The workflow whose skills all others may use, and with which agents begin."""


@dataclass(frozen=True, slots=True)
class LoadedActivity:
    """An activity and where it comes from."""

    activity: Activity
    owner: str
    """The workflow that has its file. If the activity is borrowed, this is not the workflow that uses it."""
    data: Mapping[str, Any]
    """The whole content of the file, including fields that no struct knows."""
    text: str
    """The file, byte for byte; if the activity is defined inside ``workflow.toon``, TOON that is made for it."""
    place: str

    @property
    def id(self) -> str:
        return self.activity.id


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """A skill and where it comes from."""

    skill: Skill
    id: str
    """The id in the file's name; references use it."""
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
    """The contents of a workflow's folder, whether or not the workflow itself can be used."""

    id: str
    skills: Mapping[str, LoadedSkill]
    resources: tuple[LoadedText, ...]
    """Ordered by number; of two with the same number the one in TOON comes first."""
    templates: tuple[LoadedText, ...]
    activities: Mapping[str, LoadedActivity]
    """The activities in its own files, by file name."""
    rules: Mapping[str, Any] | None = None
    """The content of its ``rules.toon``; None if it has none."""

    def resource(self, index: str, width: int) -> LoadedText | None:
        """The resource with this number. Leading zeros may be left out or added, up to ``width`` digits."""
        return _numbered(self.resources, index, width)

    def template(self, index: str) -> LoadedText | None:
        """The template with this number. Leading zeros may be left out or added, up to two digits."""
        return _numbered(self.templates, index, 2)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedWorkflow:
    """A workflow with its activities. It never changes, so what is worked out for it can be kept by its identity."""

    workflow: Workflow
    id: str
    """The name of its folder, which is what callers use."""
    activities: Mapping[str, LoadedActivity]
    """By id: those of its own files in their order, then those that ``workflow.toon`` defines or borrows."""
    data: Mapping[str, Any]
    text: str
    """``workflow.toon``, byte for byte."""
    place: str
    digest: str
    """A hash (twelve hex digits) of all files of the workflow and of those that it borrows."""

    @property
    def version(self) -> str:
        """The version that its author gave it."""
        return self.workflow.version

    @property
    def initial_activity(self) -> str | None:
        """The id of its first activity; None if every activity is an entry point."""
        return self.workflow.initial_activity or None

    def activity(self, activity_id: str) -> Activity | None:
        activity = self.activities.get(activity_id)
        return None if activity is None else activity.activity


@dataclass(frozen=True, slots=True)
class Library:
    """Everything that was found below some roots, by id, in alphabetical order."""

    workflows: Mapping[str, LoadedWorkflow] = field(default_factory=dict)
    folders: Mapping[str, Folder] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    files: int = 0
    """How many files were read."""
    version: str = ""
    """A hash (twelve hex digits) of all files. It is equal in all processes that use the same definitions."""

    def skill(self, workflow: str, reference: str, owner: str | None = None) -> LoadedSkill | None:
        """The skill that a reference within a workflow means.

        Args:
            owner: the owner of the activity that has the reference (``LoadedActivity.owner``).
        """
        head, slash, rest = reference.partition("/")
        if slash:
            return self._skill_of(head, rest)
        for place in dict.fromkeys((workflow, owner, META)):
            if place is not None and (skill := self._skill_of(place, reference)) is not None:
                return skill
        return None

    def resource(self, workflow: str, reference: str, width: int = 3) -> LoadedText | None:
        """The resource that a reference (``03``, ``meta/01``) within a workflow means."""
        head, slash, index = reference.partition("/")
        if slash and head:
            workflow, reference = head, index
        folder = self.folders.get(workflow)
        return None if folder is None else folder.resource(reference, width)

    def template(self, workflow: str, index: str) -> LoadedText | None:
        """The template of a workflow with this number."""
        folder = self.folders.get(workflow)
        return None if folder is None else folder.template(index)

    def activity(self, activity_id: str) -> LoadedActivity | None:
        """The activity with this id, of the first workflow that has one itself and does not borrow it."""
        for name, workflow in self.workflows.items():
            activity = workflow.activities.get(activity_id)
            if activity is not None and activity.owner == name:
                return activity
        return None

    def _skill_of(self, workflow: str, skill: str) -> LoadedSkill | None:
        folder = self.folders.get(workflow)
        return None if folder is None else folder.skills.get(skill)


def display_name(identity: str) -> str:
    """Makes a title of an id: ``code-review`` becomes ``Code Review``."""
    return " ".join(word[:1].upper() + word[1:] for word in identity.split("-"))


def digest(files: Iterable[File]) -> str:
    """A hash (twelve hex digits) of the places and contents of files."""
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
