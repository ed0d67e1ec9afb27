"""The exit codes of commands whose store refused a call, or whose work on a project ended."""

from __future__ import annotations

import pytest

from coordinator.cli.exits import Exit
from coordinator.cli.stores import work_failed
from coordinator.errors import ToolFailure
from coordinator.projects.errors import NotPossible, ProjectProblem


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ProjectProblem("it differs"), Exit.FAILED),
        (NotPossible("it is the same store"), Exit.USAGE),
        (ToolFailure("VALIDATION_ERROR", "no such name"), Exit.USAGE),
        (ToolFailure("store_unavailable", "no answer"), Exit.STORE_UNREACHABLE),
    ],
)
def test_failures_end_with_their_text_and_code(failure: ToolFailure | ProjectProblem, code: Exit) -> None:
    failed = work_failed(failure)
    assert (str(failed), failed.code) == (str(failure), code)
