"""Definitions of workflows: files that people write, for the toolsets ``sessions`` and ``navigator``.

    shared_definitions(roots).current  the newest ``Library``, without waiting
    library.workflows["release"]       a ``LoadedWorkflow``: struct, activities, raw text
    library.skill(...)                 finds a skill: in the workflow, in the lender's, then in ``meta``
    holds(condition, variables)        whether a condition is true

Each process reads the files by itself and keeps them in memory. A change on disk takes effect
everywhere within seconds (``source.py``). A file that cannot be used is reported and left out,
without effect on the others. The structs cover both eras of the format. Texts are kept byte for
byte, because some tools return them. No id that a caller passes ever becomes a path: ids are looked
up in dictionaries of the files that a scan has found.

A workflow may use ("borrow") an activity from a file of another workflow, its lender.
"""

from coordinator.definitions.conditions import holds, lookup, text
from coordinator.definitions.files import Problem, valid_id
from coordinator.definitions.lint import lint
from coordinator.definitions.loaded import (
    META,
    Folder,
    Library,
    LoadedActivity,
    LoadedSkill,
    LoadedText,
    LoadedWorkflow,
    display_name,
)
from coordinator.definitions.model import (
    END,
    TERMINALS,
    Activity,
    Checkpoint,
    Condition,
    Effect,
    Loop,
    Option,
    Step,
    Trigger,
    Variable,
    preserved_name,
)
from coordinator.definitions.source import Definitions, shared_definitions, shipped

__all__ = [
    "END",
    "META",
    "TERMINALS",
    "Activity",
    "Checkpoint",
    "Condition",
    "Definitions",
    "Effect",
    "Folder",
    "Library",
    "LoadedActivity",
    "LoadedSkill",
    "LoadedText",
    "LoadedWorkflow",
    "Loop",
    "Option",
    "Problem",
    "Step",
    "Trigger",
    "Variable",
    "display_name",
    "holds",
    "lint",
    "lookup",
    "preserved_name",
    "shared_definitions",
    "shipped",
    "text",
    "valid_id",
]
