"""The section ``flows``: further tools that the steps of workflows may call."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from coordinator.settings import example_sections as examples
from coordinator.settings.setting import setting

StepToolName = Annotated[
    str,
    setting(
        pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,99}\Z",
        allowed="a name of 1 to 100 letters, digits, '-' and '_', a letter first",
    ),
]
Target = Annotated[
    str,
    setting(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z",
        allowed="a Python callable as 'module:function'",
    ),
]


class Flows(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    demo_tools: Annotated[
        bool,
        setting(
            "Let steps call a few demo tools: get_greeting, get_counter, is_admin, echo, sleep, fail, and "
            "knowledge_add, knowledge_list, knowledge_search, knowledge_search_text, which keep short texts in "
            "Redis.",
            group="Flows",
        ),
    ] = False
    step_results: Annotated[
        bool,
        setting("Let templates in step arguments refer to results of earlier steps too: {{steps.name.result.path}}."),
    ] = False
    tools: Annotated[
        dict[StepToolName, Target] | None,
        setting(
            "Python callables that steps may call by these names, with the step's args as keyword arguments. "
            "Coroutine functions run in the worker, others in a process of their own. Their modules are those of "
            "installed packages, or of a folder in PYTHONPATH of the workers. Installed packages may add more with "
            "entry points of the group fleet.step_tools.",
            allowed="a mapping of names to 'module:function'",
            example=examples.STEP_TOOLS,
        ),
    ] = None
