"""What is known of a command before it is imported."""

from __future__ import annotations

from typing import Any, NamedTuple

from cyclopts import Parameter


class Command(NamedTuple):
    target: str
    """Its import string; empty for a group."""
    text: str
    """Its help. The first line is shown in the list of commands, too."""
    examples: tuple[str, str]
    """Two command lines, with which its help page begins."""

    @property
    def page(self) -> dict[str, Any]:
        """The arguments of ``cyclopts.App`` that make its help page."""
        paragraphs = self.text.strip().split("\n\n")
        return {
            "help": "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
            "default_parameter": _PARAMETER,
            "help_prologue": "\n".join(("Examples:", *(f"  {line}" for line in self.examples))),
        }


def _default(value: Any) -> str | None:
    """The default of a parameter in its help; None where it says no more than that the parameter is optional."""
    return str(value) if value or (value == 0 and value is not False) else None


_PARAMETER = Parameter(show_default=_default, negative="")
"""What holds of all parameters that do not say otherwise: none has a flag that negates or empties it."""
