"""What people do with items: the actions that an item allows now, and the forms of its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import htpy
import msgspec
from htpy import Node, div, span
from msgspec import UnsetType

from coordinator.console.acts.buttons import (
    Change,
    button,
    choice_field,
    form_dialog,
    hidden_field,
    note,
    number_field,
    opener,
    refusal,
    text_field,
    toolbar,
)
from coordinator.console.acts.confirms import Confirm, confirm
from coordinator.console.acts.large import is_large_tree
from coordinator.console.acts.operating import end_claim_button
from coordinator.console.items.cards import postponed
from coordinator.console.parts import number, plain
from coordinator.console.view import Region, Rendered, Row, Rows, Visit, region_element
from coordinator.errors import ToolFailure
from coordinator.toolsets.caller import BUDGETS
from coordinator.toolsets.items import (
    FIELDS,
    JSON,
    PHASES,
    PRIORITIES,
    PRIORITY_NAMES,
    ROLE_NAMES,
    STATES,
    THRESHOLDS,
    Box,
    BudgetLimits,
    FullItem,
    IncludedNote,
    ItemContextResult,
    rows_by_ids,
)
from coordinator.toolsets.items import ItemRow as Item

MAX_EDITED = 64_000
"""Characters of a note that is edited here; longer ones are for the command line."""
QUESTION = re.compile(r"question-(\d{1,3})")
"""The key of a note in which an agent asks, as the tool ``work_ask`` numbers them."""
_ADVANCE = "call/items/advance_item"
_ITEMS = "call/items/manage_items"
_NOTES = "call/items/manage_notes"
_THEN = "then.transitions.0.itemId"
_CHANGED = Change(_ITEMS, {"operation": "update", "items": [{}], "shown": [{}]}, "It is changed.")


async def _load(visit: Visit) -> Rows:
    if refused := refusal(visit.viewer, "items"):
        return Rows([Row("action:none", note(f"Read only: {refused}."))])
    full: FullItem = await visit.tool("items", "query_items", {"operation": "get", "id": visit.id})
    inner = full.id.replace("-", "")
    context: ItemContextResult = await visit.tool("items", "get_context", {"itemId": full.id})
    now, rows = await visit.read(rows_by_ids, [inner])
    if not rows:
        raise ToolFailure("RESOURCE_NOT_FOUND", "there is no such item")
    large = rows[0].children > 0 and await visit.read(is_large_tree, inner)
    actions = _actions(visit, rows[0], full, context, now, large)
    return Rows([Row(f"action:{name}", content) for name, content in actions])


ACTIONS = Region(_load, ("items",), htpy.li, personal=True)
"""What the viewer may do with an item now, one button a row; of the view ``item``, with the name ``actions``."""


def actions_element(visit: Visit, rendered: Mapping[str, Rendered]) -> Node:
    return region_element(visit, "actions", rendered, htpy.menu, class_="actions", aria_label="Actions")


def _actions(
    visit: Visit, item: Item, full: FullItem, context: ItemContextResult, now: int, large: bool
) -> Iterator[tuple[str, Node]]:
    """The buttons, each with what names it."""
    title, role = plain(item.title), ROLE_NAMES[item.role]
    project, dashed = visit.project, full.id
    live = STATES[item.state] == "held" and item.expires > now
    mine = visit.viewer.caller is not None and item.holder == visit.viewer.caller.id
    held = f"{plain(item.holder)} holds it" if live and not mine else ""
    waits = f"waits for {number(item.blockers)} other items" if item.blockers else ""

    def move(
        text: str, trigger: str, done: str, why: str = "", kind: str = "", asks: Confirm | None = None
    ) -> tuple[str, Node]:
        change = Change(_ADVANCE, {"transitions": [{"itemId": dashed, "trigger": trigger}]}, done)
        if trigger in ("block", "hold"):
            change = change._replace(undo={"transitions": [{"itemId": dashed, "trigger": "resume"}]})
        return trigger, button(text, change, project, refused=held or why, kind=kind, confirm=asks)

    if role == "blocked":
        if item.quarantined:
            asks = confirm("offer again", title=item.title, attempts=item.attempts)
            yield move("Offer again", "resume", "It is offered again.", kind="primary", asks=asks)
        else:
            yield move("Resume", "resume", "It goes on.", kind="primary")
    elif role == "terminal":
        yield move("Reopen", "reopen", "It is in the queue again.")
    else:
        start = "Start" if role == "queue" else "Move on"
        yield move(start, "start", "It has moved on.", waits or _missing(context, role), "primary")
        if role != "review":
            yield move("Complete", "complete", "It is done.", waits or _missing(context))
        yield move("Block", "block", f"\u201c{title}\u201d is blocked.")
        yield move("Hold", "hold", f"\u201c{title}\u201d is on hold.")
    if item.held_until > now and not postponed(item) and not item.blockers and role in ("queue", "work", "review"):
        yield "offer", _offer_now(project, item, full)
    if live:
        yield "end-claim", end_claim_button(visit, item)
    current = PRIORITY_NAMES[item.priority]
    yield from ((other, _priority(project, dashed, other, current)) for other in PRIORITIES if other != current)
    yield "edit-item", opener("Edit", "edit-item", _editable(full))
    yield "set-budget", budget_opener(visit, full.id, full.budget)
    if full.budget:
        change = _edit(dashed, "It has no budget.", {"budget": None}, {"budget": full.budget})
        refused = "" if _raises(visit) else "needs the permission 'items.budget'"
        asks = confirm("remove budget", title=item.title)
        yield "remove-budget", button("Remove budget", change, project, confirm=asks, refused=refused)
    yield "edit-note", opener("Add note", "edit-note", {"notes.0.itemId": dashed, "notes.0.expectedModifiedAt": ""})
    yield "add-dependency", opener("Add dependency", "add-dependency", {"dependencies.0.toItemId": dashed})
    yield "new-item", opener("New item below", "new-item", {"items.0.parentId": dashed})
    if item.children > item.ended_children:
        left = item.children - item.ended_children
        for text, trigger, word in (("Complete tree", "complete", "done"), ("Cancel tree", "cancel", "cancelled")):
            change = Change(
                "call/items/complete_tree",
                {"rootId": dashed, "trigger": trigger, "includeRoot": True},
                f"It is {word}.",
            )
            asks = confirm(text.lower(), project if large else "", title=item.title, left=left)
            yield f"{trigger}-tree", button(text, change, project, confirm=asks, kind="danger", refused=held)
    if role != "terminal":
        asks = confirm("cancel", title=item.title)
        yield move("Cancel item", "cancel", "It is cancelled.", kind="danger", asks=asks)


def _missing(context: ItemContextResult, phase: str = "") -> str:
    keys = [note.key for note in context.schema if note.required and not note.filled and phase in ("", note.role)]
    return f"lacks the note {', '.join(map(plain, keys))}" if keys else ""


def _edit(item: str, done: str, fields: Mapping[str, Any], expected: Mapping[str, Any]) -> Change:
    return Change(_ITEMS, {"operation": "update", "items": [{"id": item, **fields}], "shown": [expected]}, done)


def _priority(project: str, item: str, priority: str, current: str) -> Node:
    change = _edit(item, f"Priority: {priority}.", {"priority": priority}, {"priority": current})
    return button(f"Priority {priority}", change, project)


def _offer_now(project: str, item: Item, full: FullItem) -> Node:
    # 0 ends the back-off that runs; the field itself is to stay as it was.
    seconds = None if isinstance(full.retry_backoff_seconds, UnsetType) else full.retry_backoff_seconds
    now = _edit(full.id, "It is offered again.", {"retryBackoffSeconds": 0}, {"retryBackoffSeconds": seconds})
    back = _edit(full.id, "", {"retryBackoffSeconds": seconds}, {"retryBackoffSeconds": 0})
    asks = confirm("offer now", title=item.title, attempts=item.attempts)
    change = now._replace(then=(_ITEMS, back.arguments))
    return button("Offer now", change, project, confirm=asks)


def _raises(visit: Visit) -> bool:
    caller = visit.viewer.caller
    return caller is not None and not BUDGETS.isdisjoint(caller.permissions)


def budget_opener(visit: Visit, item: str, budget: BudgetLimits | UnsetType) -> Node:
    """A button that changes the budget of an item; the page needs ``budget_dialog``. Whoever lacks the permission to
    raise it may lower it.
    """
    limits = {} if isinstance(budget, UnsetType) else msgspec.to_builtins(budget)
    verb = "Raise" if limits and _raises(visit) else "Lower" if limits else "Set"
    values = {f"items.0.budget.{name}": str(limit) for name, limit in limits.items()}
    return opener(f"{verb} budget", "set-budget", {"items.0.id": item, **values})


def budget_dialog(visit: Visit) -> Node:
    fields = [
        hidden_field("items.0.id"),
        number_field("items.0.budget.costMicroUsd", "Cost, in millionths of a US dollar: 5000000 is $5.00"),
        number_field("items.0.budget.tokens", "Tokens, input and output"),
        number_field("items.0.budget.wallMs", "Time worked, in milliseconds: 3600000 is an hour"),
        note("Of the item with everything below it. A field that is empty is no limit."),
    ]
    return _dialog(visit, "set-budget", "Budget of the item", _CHANGED, fields, "Save budget", edits=True)


def _editable(full: FullItem) -> dict[str, Any]:
    boxes = [field for field in FIELDS if field.box and field.box.edit]
    values = {"id": full.id} | {field.name: getattr(full, field.attribute) or "" for field in boxes}
    return {f"items.0.{name}": value for name, value in values.items() if len(value) <= MAX_EDITED}


def note_opener(visit: Visit, item: str, key: str, phase: str, note: IncludedNote | None) -> Node:
    """A button that edits a note of an item, or writes one."""
    if refusal(visit.viewer, "items") or (note is not None and note.format == JSON):
        return None
    cut = "too long to edit here: use fleet items note" if note is not None and note.size else ""
    values = {
        "notes.0.itemId": item,
        "notes.0.key": key,
        "notes.0.role": phase,
        "notes.0.body": "" if note is None or cut else note.body or "",
        "notes.0.expectedModifiedAt": "" if note is None else note.modified_at,
    }
    return opener("Write" if note is None else "Edit", "edit-note", values, cut)


def edge_button(visit: Visit, dependency: str, title: str) -> Node:
    """A button that removes a dependency, given its id and the title of the other item."""
    if refusal(visit.viewer, "items"):
        return None
    change = Change(
        "call/items/manage_dependencies", {"operation": "delete", "id": dependency}, "The dependency is removed."
    )
    return button("Remove", change, visit.project, confirm=confirm("remove dependency", title=title))


def answer_opener(visit: Visit, item: str, question: int, phase: str = "work") -> Node:
    """A button that answers a question of an agent, in a phase of the item; the page needs ``answer_dialog``."""
    values = {"notes.0.itemId": item, "notes.0.key": f"answer-{question}", "notes.0.role": phase, _THEN: item}
    return opener("Answer", "answer", values, refusal(visit.viewer, "items"))


def answer_dialog(visit: Visit) -> Node:
    """The form of ``answer_opener``: a note, then the item goes on. Whoever takes it reads the note."""
    first = {"operation": "upsert", "notes": [{"expectedModifiedAt": ""}]}
    change = Change(
        _NOTES,
        first,
        "The answer is written, and the item goes on.",
        then=(_ADVANCE, {"transitions": [{"trigger": "resume", "summary": "answered"}]}),
    )
    hidden = [hidden_field(name) for name in ("notes.0.itemId", "notes.0.key", "notes.0.role", _THEN)]
    fields = [*hidden, text_field("notes.0.body", "Answer", lines=6, required=True)]
    return _dialog(visit, "answer", "Answer the question", change, fields, "Answer")


def dialogs(visit: Visit) -> Node:
    """The forms of an item's page; they belong outside of its regions."""
    note_fields = [
        hidden_field("notes.0.itemId"),
        hidden_field("notes.0.expectedModifiedAt"),
        text_field("notes.0.key", "Key", required=True, most=200, data_fixed=True),
        choice_field("notes.0.role", "Phase", PHASES),
        text_field("notes.0.body", "Text", lines=12),
    ]
    edge_fields = [
        hidden_field("dependencies.0.toItemId"),
        text_field(
            "dependencies.0.fromItemId", "It waits for", required=True, hint="id of an item, or its first digits"
        ),
        choice_field("dependencies.0.unblockAt", "Until that is in", ("terminal", *THRESHOLDS[:-1])),
    ]
    item_fields = [hidden_field("items.0.id"), *_boxes(lambda box: box.edit)]
    written = Change(_NOTES, {"operation": "upsert", "notes": [{}]}, "The note is written.")
    added = Change("call/items/manage_dependencies", {"operation": "create", "dependencies": [{}]}, "It waits now.")
    return [
        _dialog(visit, "edit-item", "Edit the item", _CHANGED, item_fields, "Save", edits=True),
        budget_dialog(visit),
        _dialog(visit, "edit-note", "Write a note", written, note_fields, "Save note"),
        _dialog(visit, "add-dependency", "Add a dependency", added, edge_fields, "Add dependency"),
        new_item_dialog(visit),
        answer_dialog(visit),
    ]


def _boxes(lines_of: Callable[[Box], int]) -> Iterator[Node]:
    """What a form asks of an item, by the table of fields."""
    for field in FIELDS:
        if (box := field.box) and (lines := lines_of(box)):
            name = f"items.0.{field.name}"
            yield (
                choice_field(name, box.title, box.choices)
                if box.choices
                else text_field(name, box.title, lines=lines, required=box.required, most=field.most, hint=box.hint)
            )


def new_item_dialog(visit: Visit) -> Node:
    fields = [hidden_field("items.0.parentId"), *_boxes(lambda box: box.new)]
    change = Change(_ITEMS, {"operation": "create", "items": [{}]}, "The item is created.")
    return _dialog(visit, "new-item", "New item", change, fields, "Create item")


def new_item(visit: Visit) -> Node:
    """A button for a new item; the page needs ``new_item_dialog``."""
    return None if refusal(visit.viewer, "items") else opener("New item", "new-item", {"items.0.parentId": ""})


def bulk_bar(visit: Visit) -> Node:
    """What can be done with the items that are chosen on a page."""
    if refusal(visit.viewer, "items"):
        return None

    def move(text: str, trigger: str, done: str, **more: Any) -> Node:
        undo = {"transitions": [{"trigger": "resume"}]} if trigger == "block" else None
        change = Change(_ADVANCE, {"transitions": [{"trigger": trigger}]}, done, undo)
        return button(text, change, visit.project, each="transitions.itemId", **more)

    buttons: Sequence[Node] = [
        span(".number", id="chosen", role="status")["0 chosen"],
        *(_priority_of_all(visit.project, level) for level in PRIORITIES),
        move("Block", "block", "They are blocked."),
        move("Resume", "resume", "They go on."),
        move("Cancel items", "cancel", "They are cancelled.", kind="danger", confirm=confirm("cancel many")),
        htpy.button(type="button", data_unchoose=True)["Choose none"],
    ]
    bar = toolbar("What to do with the chosen items", buttons)
    return div(".bulk", id="bulk", hidden=True)[bar, div(".failed", role="alert")]


def _priority_of_all(project: str, priority: str) -> Node:
    change = Change(_ITEMS, {"operation": "update", "items": [{"priority": priority}]}, f"Priority: {priority}.")
    return button(f"Priority {priority}", change, project, each="items.id")


def _dialog(
    visit: Visit, id: str, title: str, change: Change, fields: Sequence[Node], verb: str, *, edits: bool = False
) -> Node:
    if refusal(visit.viewer, "items"):
        return None
    return form_dialog(id, title, change, visit.project, fields, verb, edits=edits)
