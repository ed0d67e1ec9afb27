"""Definitions of workflows for tests: the examples of the product, and further sets.

TEST_WORKFLOWS names a folder with more: a root with one folder for each workflow, or roots at any depth
below. Tests over all sets include them; without it, only the examples.
"""

from __future__ import annotations

import os
from pathlib import Path

from coordinator.definitions import shipped

VARIABLE = "TEST_WORKFLOWS"

WORKFLOW = """\
id: {id}
version: 1.0.0
title: The workflow {id}
initialActivity: {first}
"""
ACTIVITY = """\
id: {id}
version: 1.0.0
name: The activity {id}
skills:
  primary: {skill}
steps[1]:
  - id: do
    name: Do it
{more}"""
SKILL = """\
id: {id}
version: 1.0.0
capability: {capability}
"""


def roots() -> list[Path]:
    """All sets of workflows."""
    named = os.environ.get(VARIABLE)
    more = [] if not named else [Path(named), *sorted(path for path in Path(named).rglob("*") if path.is_dir())]
    return [shipped(), *(path for path in more if _is_root(path))]


def _is_root(path: Path) -> bool:
    return any((folder / "workflow.toon").is_file() for folder in path.iterdir() if folder.is_dir())


class Tree:
    """A root that a test writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, place: str, text: str | bytes) -> Path:
        """Writes a file at a place below the root."""
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def workflow(self, name: str, *activities: str, more: str = "") -> None:
        """A workflow whose activities lead to each other in turn."""
        self.write(f"{name}/workflow.toon", WORKFLOW.format(id=name, first=activities[0]) + more)
        for number, activity in enumerate(activities, 1):
            after = activities[number : number + 1]
            leads = f"transitions[1]{{to,isDefault}}:\n  {after[0]},true\n" if after else ""
            self.activity(name, f"{number:02}", activity, more=leads)

    def activity(self, workflow: str, number: str, name: str, *, skill: str = "work", more: str = "") -> Path:
        """One activity with a single step."""
        text = ACTIVITY.format(id=name, skill=skill, more=more)
        return self.write(f"{workflow}/activities/{number}-{name}.toon", text)

    def skill(self, workflow: str, number: str, name: str, capability: str = "Does things") -> Path:
        """One skill."""
        return self.write(f"{workflow}/skills/{number}-{name}.toon", SKILL.format(id=name, capability=capability))
