"""Shared by the tools of this toolset."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from coordinator.definitions import Definitions, Folder, Library, LoadedWorkflow
from coordinator.errors import ToolFailure, that_exist
from coordinator.toolsets.navigator.rules.actions import SHOWN
from coordinator.toolsets.tool import Reply

Key = tuple[str | None, ...]


def missing(message: str, name: str, known: Iterable[str], place: str = "") -> ToolFailure:
    """The failure for an unknown id: ``Workflow not found: x; did you mean 'y'?``."""
    return ToolFailure("RESOURCE_NOT_FOUND", f"{message}: {name[:SHOWN]}{place[:SHOWN]}{that_exist(name, known)}")


def workflow_found(library: Library, workflow_id: str) -> LoadedWorkflow:
    """The workflow with this id.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND.
    """
    workflow = library.workflows.get(workflow_id)
    if workflow is None:
        raise missing("Workflow not found", workflow_id, library.workflows)
    return workflow


def folder_found(library: Library, workflow_id: str) -> Folder:
    """The files of the workflow with this id, even if it is broken.

    Raises:
        ToolFailure: RESOURCE_NOT_FOUND.
    """
    folder = library.folders.get(workflow_id)
    if folder is None:
        raise missing("Workflow not found", workflow_id, library.folders)
    return folder


class Documents:
    """A cache of JSON documents of the newest definitions. Each is encoded once per change of the definitions."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._library: Library | None = None
        self._made: dict[Key, Reply] = {}

    @property
    def current(self) -> Library:
        """The newest definitions."""
        return self._definitions.current

    def reply(self, make: Callable[[Library], Any], *key: str | None) -> Reply:
        """The document that ``make`` returns, from the cache if ``key`` is in it.

        If ``make`` raises, nothing is cached, so unknown ids cannot fill the cache.
        """
        library = self._definitions.current
        if library is not self._library:
            self._library, self._made = library, {}
        reply = self._made.get(key)
        if reply is None:
            document = msgspec.json.encode(make(library))
            reply = self._made[key] = Reply(structured=msgspec.Raw(document))
        return reply
