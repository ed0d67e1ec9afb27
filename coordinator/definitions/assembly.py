"""Assembles files into a ``Library``: gives each workflow its activities, including borrowed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from coordinator.definitions import decoding
from coordinator.definitions.files import File, Level, Problem, bad_name, valid_id
from coordinator.definitions.loaded import (
    META,
    Folder,
    Library,
    LoadedActivity,
    LoadedSkill,
    LoadedText,
    LoadedWorkflow,
    digest,
    inline_text,
)
from coordinator.definitions.model import Activity, Rules, Skill, Workflow


def assembled(files: Sequence[File], problems: Iterable[Problem] = ()) -> Library:
    """Makes a library of files. All files of one workflow come from the same root.

    Args:
        problems: problems that were met while looking for the files.
    """
    return _Assembly(files, problems).assembled()


class _Assembly:
    def __init__(self, files: Sequence[File], problems: Iterable[Problem]) -> None:
        self._files = files
        self._problems = [*problems, *(problem for file in files for problem in file.problems)]
        self._by_workflow: dict[str, list[File]] = {}
        for file in sorted(files, key=lambda one: (one.workflow, int(one.index or 0), one.place)):
            self._by_workflow.setdefault(file.workflow, []).append(file)
        self._folders: dict[str, Folder] = {}
        self._activity_files: dict[str, File] = {}

    def assembled(self) -> Library:
        for name, files in self._by_workflow.items():
            self._folders[name] = self._folder(name, files)
        workflows: dict[str, LoadedWorkflow] = {}
        for name, files in self._by_workflow.items():
            made = self._workflow(name, files)
            if made is not None:
                workflows[name] = made
        order = {file.place: number for number, file in enumerate(sorted(self._files, key=lambda one: one.place))}
        distinct = dict.fromkeys(self._problems)
        problems = sorted(distinct, key=lambda one: (order.get(one.place, -1), one.place, one.line or 0))
        return Library(workflows, self._folders, tuple(problems), len(self._files), digest(self._files))

    def _folder(self, name: str, files: list[File]) -> Folder:
        skills: dict[str, LoadedSkill] = {}
        activities: dict[str, LoadedActivity] = {}
        texts: dict[str, list[LoadedText]] = {"resource": [], "template": []}
        rules: Mapping[str, Any] | None = None
        for file in files:
            head = file.head
            if file.kind in texts:
                if file.usable:
                    texts[file.kind].append(_text(file))
            elif isinstance(head, Skill):
                if file.id in skills:
                    self._tell(file, f"is not used, because {skills[file.id].place} has the same id")
                else:
                    skills[file.id] = LoadedSkill(head, file.id, name, file.index, file.data, file.text, file.place)
            elif isinstance(head, Activity):
                if valid_id(head.id):
                    activities[file.name] = self._activity(file, head)
                else:
                    self._tell(file, bad_name(head.id))
            elif isinstance(head, Rules):
                rules = file.data
        for kind in texts:
            texts[kind].sort(key=lambda one: (int(one.index), one.format != "toon", one.place))
        return Folder(name, skills, tuple(texts["resource"]), tuple(texts["template"]), activities, rules)

    def _activity(self, file: File, head: Activity) -> LoadedActivity:
        if head.id != file.id:
            self._tell(file, f"its name says {file.id!r}, but its id {head.id!r} is what counts", "odd")
        self._activity_files[file.place] = file
        numbered = msgspec.structs.replace(head, artifact_prefix=file.index)
        return LoadedActivity(numbered, file.workflow, file.data, file.text, file.place)

    def _workflow(self, name: str, files: list[File]) -> LoadedWorkflow | None:
        file = next((each for each in files if each.kind == "workflow"), None)
        if file is None:
            if name != META or not self._folders[name].skills:
                self._tell(files[0], f"the folder {name} has no workflow.toon", "odd", place=name)
            return None
        if not isinstance(file.head, Workflow):
            return None
        if file.head.id != name:
            self._tell(file, f"its id is {file.head.id!r}, but the name of its folder, {name!r}, is what counts", "odd")
        activities: dict[str, LoadedActivity] = {}
        for loaded in [*self._folders[name].activities.values(), *self._declared(name, file)]:
            if loaded.id not in activities:
                activities[loaded.id] = loaded
            elif activities[loaded.id].place != loaded.place:
                place = activities[loaded.id].place
                self._tell(file, f"activity {loaded.id!r} is not used, because {place} has the same id",
                           place=loaded.place)  # fmt: skip
        if not activities:
            self._tell(file, "has no activity that can be used")
            return None
        initial = file.head.initial_activity
        if initial and initial not in activities:
            self._tell(file, f"initialActivity: there is no activity {initial!r}", "odd")
        borrowed = [self._activity_files[each.place] for each in activities.values()
                    if each.owner != name and each.place in self._activity_files]  # fmt: skip
        return LoadedWorkflow(
            file.head, name, activities, file.data, file.text, file.place, digest([*files, *borrowed])
        )

    def _declared(self, name: str, file: File) -> Iterator[LoadedActivity]:
        """The activities that ``workflow.toon`` defines itself, and those that it borrows by naming their files."""
        entries = file.data.get("activities", [])
        if not isinstance(entries, list):
            self._tell(file, "activities: must be a list of activities or names of files")
            return
        for number, entry in enumerate(entries):
            where = f"activities[{number}]"
            if isinstance(entry, str):
                loaded = self._borrowed(name, entry)
                if loaded is None:
                    self._tell(file, f"{where}: there is no activity in the file {entry[:200]!r}, so it is left out")
                else:
                    yield loaded
                continue
            try:
                activity = decoding.convert(entry, Activity)
            except decoding.Misfit as error:
                self._tell(file, f"{where}: {error}; it is left out")
                continue
            if not valid_id(activity.id):
                self._tell(file, f"{where}: {bad_name(activity.id)}; it is left out")
                continue
            yield LoadedActivity(activity, name, entry, inline_text(entry), f"{file.place}#{activity.id}")

    def _borrowed(self, name: str, reference: str) -> LoadedActivity | None:
        """The activity in the file ``NN-x.toon``, ``wf/NN-x.toon`` or ``wf/activities/NN-x.toon``, if there is one."""
        parts = reference.split("/")
        folder = self._folders.get(name if len(parts) == 1 else parts[0])
        if folder is None or len(parts) > 3 or (len(parts) == 3 and parts[1] != "activities"):
            return None
        return folder.activities.get(parts[-1])

    def _tell(self, file: File, message: str, level: Level = "broken", place: str | None = None) -> None:
        self._problems.append(Problem(level, place or file.place, None, message))


def _text(file: File) -> LoadedText:
    """The resource or template in a file."""
    front = decoding.front_matter(file.text) if file.format == "md" else decoding.toon_front(file.data, file.text)
    return LoadedText(file.workflow, file.index, file.id, file.format, file.text, front, file.place)
