"""What people are asked before they do something: one table, so that the same act asks for the same in every view.

What can be taken back, or done again, asks for nothing; neither does what somebody has just written themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.console.parts import plain

_SUMMARY = "transitions.0.summary"
_REASON = "reason"


class Confirm(NamedTuple):
    question: str
    """Names the object and the consequence."""
    reason: str = ""
    """Where in the arguments a text of the person goes; empty: none is asked for."""
    needed: bool = False
    """Whether that may not be blank."""
    typed: str = ""
    """What has to be typed, so that nobody does it by mistake."""


_ACTS: Mapping[str, Confirm] = {
    "cancel": Confirm(
        "Cancel \u201c{title}\u201d? No agent works on it any more, and items that wait for it go on.", _SUMMARY
    ),
    # The page puts in how many they are.
    "cancel many": Confirm(
        "Cancel {{n}} items? No agent works on them any more, and items that wait for them go on.", _SUMMARY
    ),
    "complete tree": Confirm(
        "Complete tree of \u201c{title}\u201d? All that is open below it ({left} children, and theirs) is done."
    ),
    "cancel tree": Confirm(
        "Cancel tree of \u201c{title}\u201d? All that is open below it ({left} children, and theirs) is cancelled."
    ),
    "offer again": Confirm(
        "Offer \u201c{title}\u201d to agents again? {attempts} attempts have failed with it.", _SUMMARY
    ),
    "offer now": Confirm("Offer \u201c{title}\u201d at once? {attempts} attempts have failed with it."),
    "remove budget": Confirm(
        "Remove the budget of \u201c{title}\u201d? Then it holds nothing back, and stops no claim."
    ),
    "remove dependency": Confirm(
        "Remove the dependency on \u201c{title}\u201d? The item that waits may go on at once."
    ),
    "end claim": Confirm(
        "End the claim of {holder} on \u201c{title}\u201d? The item is offered to others at once, and late reports of "
        "this claim are refused.", _REASON, True,
    ),
    "drain": Confirm(
        "Drain {name}? It takes no new work, and finishes what it has begun, until the drain is ended.", _REASON, True
    ),
    "end drain": Confirm("End the drain of {name}? It takes new work at once.", _REASON, True),
    "drain agent": Confirm(
        "Drain {name}? It gets no more items, nor do agents named {name}/\u2026; what it holds, it may finish.",
        _REASON, True,
    ),
    "end drain of agent": Confirm("End the drain of {name}? Agents of this name may claim again.", _REASON, True),
    "pause flow": Confirm("Pause \u201c{name}\u201d ({id})? No further step begins.", _REASON, True),
    "resume flow": Confirm("Resume \u201c{name}\u201d ({id})? Its steps begin again.", _REASON, True),
    "cancel flow": Confirm(
        "Cancel \u201c{name}\u201d ({id})? Running steps are stopped, and what they still return is dropped."
    ),
    "retry flow": Confirm(
        "Run \u201c{name}\u201d ({id}) again? {again} steps that failed or were cancelled begin anew; those that are "
        "done do not.", _REASON, True,
    ),
    "release gate": Confirm("Release the gate \u201c{name}\u201d? The workflow goes on at once, in your name."),
    "answer approval": Confirm("{answer}? It leads to {state}, in your name, and cannot be taken back."),
    "answer checkpoint": Confirm("{answer}? The session goes on with it, in your name."),
}  # fmt: skip


def confirm(act: str, typed: str = "", **names: object) -> Confirm:
    """What is asked before an act; ``names`` is what the question names."""
    text = _ACTS[act]
    words = {name: plain(str(value)) for name, value in names.items()}
    return text._replace(question=text.question.format(**words), typed=typed)
