"""The fields of an item, each stated once: its types, how it is stored, and where people set it.

What knows the fields of an item derives from ``FIELDS``, or names a type from here:

- The structs of the contract say who sets a field and which results show it: ``not_before: fields.NotBefore``.
- ``rules/items.py`` makes what scripts store of what callers give, and ``tools/said.py`` results of what they store, in
  the forms of ``rules/kinds.py``.
- The audit knows the stored letters, and a project is written out and restored by them (``coordinator.projects``).
- Options of ``fleet items`` (``cli/items/options.py``) are flags, and forms of the console have boxes. What people read
  about items in the console and on the command line are facts and columns.

A plain field costs its types and an entry here, a line in each struct that has it, and a line in
``client/plans/fields.py``, as clients do not know the server. What else a field means is code in the file that its
entry names.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UnsetType

from coordinator.settings.sections.attempts import LONGEST_BACKOFF_SECONDS, MOST_ATTEMPTS
from coordinator.settings.sections.resources import MOST_DEMANDS
from coordinator.toolsets.canonical import (
    SHARED,
    STATED_BLANK,
    UNCHANGED_BY_BLANK,
    UNCHANGED_BY_NULL,
    UNORDERED,
    meant,
)
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.field_types.base import PRIORITIES, ROLES, Count, IsoTime
from coordinator.toolsets.items.field_types.due_times import Recurring, Recurs
from coordinator.toolsets.items.field_types.resources import GivenResource, Resource
from coordinator.toolsets.items.field_types.usage import Budget, BudgetLimits, ItemUsage

MAX_TITLE = 500
MAX_SUMMARY = 2000
MAX_TYPE = 200
MAX_LABEL = 200
MAX_TAGS = 32
MAX_ASSIGNEE = 200


class Flag(NamedTuple):
    """The option of a field on the command line: ``--max-attempts`` for ``maxAttempts``."""

    help: str
    names: tuple[str, ...] = ()
    """Other than that."""
    type: Any = str
    long: bool = False
    """Whether the text may come from a file, or from stdin."""
    clears: bool = False
    """Whether ``--clear`` empties the field."""
    finds: str = ""
    """What is said of the option where it chooses items; empty: it does not."""


class Box(NamedTuple):
    """Where the forms of the console ask for a field."""

    title: str
    new: int = 0
    """Lines in the form of a new item; 0: it is not there."""
    edit: int = 0
    """The same in the form that edits an item."""
    hint: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()


class Kind(Enum):
    """How the values of a field are checked and written (``rules/kinds.py``)."""

    TEXT = auto()
    """At most ``most`` characters; a blank one is none."""
    NUMBER = auto()
    """A whole number from ``least`` to ``most``."""
    YES = auto()
    """True, or nothing."""
    NAMES = auto()
    """A list of capabilities."""
    TIME = auto()
    ID = auto()
    """Of an item; callers do not set it by itself."""
    OWN = auto()
    """As ``rules/kinds.py`` says of this field alone."""


_PLAIN = (Kind.TEXT, Kind.NUMBER, Kind.YES, Kind.NAMES)


class Field(NamedTuple):
    name: str
    """In arguments and results."""
    letter: str
    """In the item's hash, in texts beside it, and in what scripts take and return (``lua/layout/items.lua``)."""
    kind: Kind
    flag: Flag | None = None
    box: Box | None = None
    least: int = 0
    most: int = 0
    """0: any number."""
    fact: str = ""
    """What people read before its value on the page of an item; of ``Kind.YES`` all that they read."""
    column: str | None = None
    """What they read before it in lists; None: these do not have it."""
    code: str = ""
    """The file with what is special to it; of Lua its name alone."""
    plain: bool | None = None
    """Whether it is ``stored_as_given``; None: if that is usual for its kind."""

    @property
    def attribute(self) -> str:
        """In structs."""
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.name)

    @property
    def stored_as_given(self) -> bool:
        """Whether scripts keep it in the item's hash as callers give it, and know no more of it than its letter: they
        show it, find items by it and repeat it in occurrences. Usual for texts, numbers, lists of names and yes."""
        return self.kind in _PLAIN if self.plain is None else self.plain

    @property
    def options(self) -> tuple[str, ...]:
        """On the command line; none without a ``flag``."""
        if self.flag is None:
            return ()
        return self.flag.names or ("--" + self.attribute.replace("_", "-"),)


# --- types: what callers give of a field, and what results show of it. All other aliases are in field_types/base.py.

GivenText = str | None | UnsetType
_UNCHANGED = UNCHANGED_BY_NULL | UNCHANGED_BY_BLANK

GivenTitle = Annotated[GivenText, doc("Required on create.", published={"maxLength": MAX_TITLE}, extra=_UNCHANGED)]
GivenDescription = Annotated[GivenText, doc("Long text, at most 500,000 bytes. Null clears it.")]
GivenSummary = Annotated[
    GivenText, doc("Up to 2000 characters.", published={"maxLength": MAX_SUMMARY}, extra=_UNCHANGED)
]
GivenRole = Annotated[GivenText, doc("Create only (default queue).", enum=[*ROLES, None], extra=meant("queue"))]
GivenStatusLabel = Annotated[
    GivenText, doc("Label beside the role. Null clears it.", published={"maxLength": MAX_LABEL})
]
GivenPriority = Annotated[
    GivenText, doc("Default medium.", enum=[*PRIORITIES, None], extra=meant("medium") | _UNCHANGED)
]
GivenComplexity = Annotated[
    int | None | UnsetType, doc("1 (quick) to 10, or null.", published={"minimum": 1, "maximum": 10})
]
GivenParent = Annotated[
    GivenText, doc("Parent item; on update null moves to the root.", extra=SHARED | UNCHANGED_BY_BLANK)
]
GivenTags = Annotated[GivenText, doc("Comma-separated tags of a-z, 0-9 and -_.:/, at most 32. Null clears.")]
GivenMetadata = Annotated[GivenText, doc("Text for tools, at most 500,000 bytes; JSON if it begins with { or [.")]
GivenType = Annotated[GivenText, doc("Selects the work-item schema.", published={"maxLength": MAX_TYPE})]
GivenProperties = Annotated[
    GivenText, doc("JSON object as a string, at most 500,000 bytes; shows traits too, which stay unless given.")
]
GivenTraits = Annotated[
    GivenText,
    doc(
        "Comma-separated trait names, at most 32; replaces the stored list, '' removes it.",
        extra=STATED_BLANK | UNCHANGED_BY_NULL,
    ),
]
GivenRequires = Annotated[
    list[str] | None | UnsetType,
    doc(
        "Only agents with all of these get it; null or [] clears.",
        published={"maxItems": MAX_TAGS},
        extra=meant([]) | UNORDERED,
    ),
]
GivenAssignee = Annotated[
    GivenText,
    doc(
        "Only this agent, or slots of it, are offered it. Null: any.",
        published={"maxLength": MAX_ASSIGNEE},
        extra=UNCHANGED_BY_BLANK,
    ),
]
Assignee = Annotated[str, doc("Only this agent, or its slots, are offered it; absent: any.")]
Requires = Annotated[list[str], doc("Capabilities that an agent needs for it; absent: none.")]
GivenResources = Annotated[
    list[GivenResource] | None | UnsetType,
    doc("A claim takes these; []: none; null: as type and traits say.", published={"maxItems": MOST_DEMANDS}),
]
Resources = Annotated[list[Resource], doc("What a claim on it takes; absent: nothing.")]
GivenNotBefore = Annotated[
    GivenText,
    doc(
        "Not ready before: ISO-8601 with zone, or from now on as in +30m or +1d12h (s, m, h, d, w). Null: none.",
        extra=UNCHANGED_BY_BLANK,
    ),
]
NotBefore = Annotated[IsoTime, doc("It is not ready before, UTC; absent: at any time.")]
GivenDueAt = Annotated[
    GivenText,
    doc(
        "When it is due, in the same form; with recurs, from each occurrence on. Null: none.", extra=UNCHANGED_BY_BLANK
    ),
]
DueAt = Annotated[str, doc("When it is due, UTC; of a template from each occurrence on, as in +2h; absent: never.")]
Overdue = Annotated[bool, doc("True: its dueAt has passed.")]
GivenRecurs = Annotated[Recurs | None | UnsetType, doc("When it recurs. Null: no longer.")]
ShownRecurs = Annotated[Recurring, doc("It is a template; absent: it is none.")]
RecurrenceOf = Annotated[str, doc("UUID of the template that it is an occurrence of; absent: none.")]
GivenRequiresVerification = Annotated[
    bool | None | UnsetType, doc("Kept with the item; default false.", extra=meant(False) | UNCHANGED_BY_NULL)
]
RequiresVerification = Annotated[bool, doc("As stored with the item.")]
GivenContainer = Annotated[bool | None | UnsetType, doc("True: structure alone, never offered.", extra=meant(False))]
Container = Annotated[bool, doc("True: never offered. Absent: false.")]
GivenMaxAttempts = Annotated[
    int | None | UnsetType,
    doc(
        "Failed attempts until quarantine; 0: no limit. Null: the default.",
        published={"minimum": 0, "maximum": MOST_ATTEMPTS},
    ),
]
MaxAttempts = Annotated[Count, doc("As given; absent: as its type or the settings say.")]
GivenBackoff = Annotated[
    int | None | UnsetType,
    doc(
        "Seconds held back after a failed attempt, doubling; 0: none. Null: the default.",
        published={"minimum": 0, "maximum": LONGEST_BACKOFF_SECONDS},
    ),
]
RetryBackoffSeconds = Annotated[Count, doc("As given; absent: as the settings say.")]
GivenBudget = Annotated[
    Budget | None | UnsetType, doc("What may be used for it and below; then it is claimed no more. Null: any.")
]
BudgetOfItem = Annotated[BudgetLimits, doc("Absent: none.")]
BudgetSpent = Annotated[bool, doc("True: its own budget is spent.")]
UsageOfItem = Annotated[ItemUsage, doc("As reported; absent: nothing was.")]

# --- the table, in the order in which people are asked for fields

_TIME_HINT = "such as 2027-01-31T12:00Z, or +2h from now on"
FIELDS = (
    Field("title", "t", Kind.OWN, box=Box("Title", 1, 1, required=True), most=MAX_TITLE),
    Field(
        "parentId", "pa", Kind.ID,
        Flag("The item to put it below.", ("--parent",), clears=True, finds="Only direct children of this item."),
        fact="below",
    ),
    Field("role", "", Kind.OWN, code="rules/roles.py"),
    Field("statusLabel", "lb", Kind.TEXT, most=MAX_LABEL, plain=False),
    Field(
        "priority", "p", Kind.OWN,
        Flag("high, medium (default) or low.", type=Literal["high", "medium", "low"], finds="Only of this priority."),
        Box("Priority", 1, choices=("medium", "high", "low")),
    ),
    Field(
        "tags", "g", Kind.OWN,
        Flag(
            "Tags after commas: a-z, 0-9 and - _ . : /", clears=True, finds="Tags after commas; items with any of them."
        ),
        Box("Tags", 1, 1, hint="separated by commas"), fact="tags",
    ),
    Field(
        "type", "y", Kind.OWN,
        Flag("Its type, which chooses its note schema.", clears=True, finds="Only of this type."),
        Box("Type", 1), most=MAX_TYPE, fact="type", column="",
    ),
    Field(
        "container", "st", Kind.YES,
        Flag("For structure alone: never offered, whatever its children.", type=bool, clears=True),
        fact="container: never offered",
    ),
    Field(
        "summary", "s", Kind.TEXT,
        Flag("What it is about, up to 2,000 characters."),
        Box("Summary", edit=3), most=MAX_SUMMARY, plain=False,
    ),
    Field(
        "description", "x", Kind.OWN,
        Flag("Long text.", ("--description", "-d"), long=True, clears=True),
        Box("Description", 6, 10),
    ),
    Field(
        "complexity", "c", Kind.NUMBER,
        Flag("1 (quick) to 10.", type=int, clears=True), least=1, most=10, fact="complexity",
        plain=False,
    ),
    Field("metadata", "m", Kind.OWN),
    Field("properties", "o", Kind.OWN, code="rules/items.py"),
    Field("traits", "q", Kind.OWN, code="rules/items.py"),
    Field("requiresVerification", "rv", Kind.YES),
    Field(
        "requires", "rq", Kind.NAMES,
        Flag("Capabilities after commas: only agents with all of them get it.", clears=True), fact="requires",
        code="requirements.lua",
    ),
    Field(
        "assignee", "to", Kind.TEXT,
        Flag("Only this agent, or slots of it, are offered it.", clears=True, finds="Only those assigned to this one."),
        Box("Assigned to", 1, 1), most=MAX_ASSIGNEE, fact="assigned to", code="requirements.lua",
    ),
    Field(
        "resources", "rs", Kind.OWN,
        Flag("What a claim takes, after commas: KEY, KEY=UNITS or KEY=shared.", clears=True), fact="demands",
        code="rules/resources.py",
    ),
    Field(
        "budget", "bu", Kind.OWN,
        Flag("What it and those below may use, as in cost=2.50,tokens=200000,time=2h.", clears=True),
        code="rules/usage/budgets.py", plain=True,
    ),
    Field(
        "maxAttempts", "am", Kind.NUMBER,
        Flag("Failed attempts until quarantine; 0: no limit.", type=int, clears=True), most=MOST_ATTEMPTS,
        code="attempts.lua",
    ),
    Field("retryBackoffSeconds", "rb", Kind.NUMBER, most=LONGEST_BACKOFF_SECONDS, code="attempts.lua"),
    Field(
        "notBefore", "nv", Kind.TIME,
        Flag("Not ready before: a time with zone, or as in +30m.", clears=True),
        Box("Not before", edit=1, hint=_TIME_HINT), code="held_back.lua",
    ),
    Field(
        "dueAt", "du", Kind.OWN,
        Flag("When it is due, in the same form.", ("--due",), clears=True),
        Box("Due", edit=1, hint=_TIME_HINT), code="rules/times/due.py",
    ),
    Field(
        "recurs", "rc", Kind.OWN,
        Flag("When it recurs, as in '0 9 * * MON-FRI'.", ("--cron", "--recurs"), clears=True),
        code="rules/times/due.py",
    ),
    Field("recurrenceOf", "oc", Kind.ID),
    Field("budgetSpent", "bx", Kind.YES, plain=False),
    Field("usage", "us", Kind.OWN, code="rules/usage/budgets.py"),
)  # fmt: skip
"""What callers set and results show. Whatever else items have is state that scripts keep."""
NAMED = {field.name: field for field in FIELDS}
LETTERED = {field.letter: field for field in FIELDS}
LETTERS = {field.attribute: field.letter for field in FIELDS if field.letter}
"""By attribute."""
FOR_LUA = {"PLAIN": [field.letter for field in FIELDS if field.stored_as_given]}
"""The constants of the Lua module ``item_fields``."""


def _led(*names: str) -> Callable[[Field], int]:
    """Sorts these fields before others."""
    return lambda field: names.index(field.name) if field.name in names else len(names)


FILTERS = sorted((one for one in FIELDS if one.flag and one.flag.finds), key=_led("tags", "parentId", "type"))
"""By which people choose items."""
FACTS = sorted((one for one in FIELDS if one.fact), key=_led("complexity", "type", "tags"))
"""What people read first about an item."""
COLUMNS = [one for one in FIELDS if one.column is not None]
