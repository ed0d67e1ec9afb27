"""Definitions of workflows: files that people write, as the tools of seeds 000 and 002 use them.

    shared(roots).current          the newest ``Library``, without waiting
    library.workflows["release"]   a ``LoadedWorkflow``: struct, activities, raw text
    library.skill(...)             how ids resolve: own, then the lender's, then ``meta``
    holds(condition, variables)    whether a condition is true

Each process reads the files by itself and keeps them; a change on disk takes effect everywhere
within seconds (``source.py``). A file that cannot be used is reported and left out, and does not
affect the others. Structs cover both eras of the format; texts are kept byte for byte, because
some tools answer with them. No id of a caller ever becomes a path: lookups are in dictionaries
over what a scan has found.
"""

from coordinator.definitions.conditions import holds, lookup, text
from coordinator.definitions.files import Problem, valid_id
from coordinator.definitions.lint import lint
from coordinator.definitions.loaded import (
    META,
    Library,
    LoadedActivity,
    LoadedSkill,
    LoadedText,
    LoadedWorkflow,
    display_name,
)
from coordinator.definitions.model import (
    TERMINALS,
    Activity,
    Checkpoint,
    Condition,
    Effect,
    Loop,
    Option,
    Step,
    Variable,
)
from coordinator.definitions.source import Definitions, shared, shipped

__all__ = [
    "META",
    "TERMINALS",
    "Activity",
    "Checkpoint",
    "Condition",
    "Definitions",
    "Effect",
    "Library",
    "LoadedActivity",
    "LoadedSkill",
    "LoadedText",
    "LoadedWorkflow",
    "Loop",
    "Option",
    "Problem",
    "Step",
    "Variable",
    "display_name",
    "holds",
    "lint",
    "lookup",
    "shared",
    "shipped",
    "text",
    "valid_id",
]
