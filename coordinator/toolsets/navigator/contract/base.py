"""Bases and field types that the contracts of the navigator toolset share."""

from __future__ import annotations

from typing import Annotated

import msgspec

from coordinator.toolsets.doc import doc


class Arguments(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a tool; JSON names are snake_case."""


class Result(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A result or a part of one; fields that are UNSET are left out."""


class NoArguments(Arguments):
    """A tool without arguments."""


WorkflowId = Annotated[str, doc("Id of a workflow, as list_workflows shows it.")]
ActivityId = Annotated[str, doc("Id of an activity.")]
State = Annotated[str, doc("The last answer's state, unchanged. Opaque.")]
