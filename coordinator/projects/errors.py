"""Why work on a whole project ends without its result. Each text is a sentence for the operator, without secrets."""

from __future__ import annotations


class ProjectProblem(Exception):
    """It cannot be done now, or was given up; the text says what to do."""


class NotPossible(ProjectProblem):
    """What was asked for does not fit the project or the stores, and will not later."""


class BadFile(NotPossible):
    """The file of a project is wrong; the text may quote it."""
