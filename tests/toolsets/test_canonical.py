"""The canonical form of arguments: calls that mean the same have one form, and no others have it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from coordinator.errors import ToolFailure
from coordinator.store.idempotency import idempotency_key
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.flows.contract.create import WorkflowCreate
from coordinator.toolsets.flows.rules.check import as_meant, check_flow
from coordinator.toolsets.items.contract.dependencies import ManageDependencies
from coordinator.toolsets.items.contract.items import EditItems, ManageItems
from coordinator.toolsets.items.rules import items, values
from coordinator.toolsets.items.rules.dependencies import edges as dependencies
from coordinator.toolsets.tool import Tool
from tests.support.contracts import toolsets

Json = dict[str, Any]
TOOLS = [
    tool
    for toolset in toolsets().values()
    for tool in toolset.tools
    if "request_id" in tool.arguments.__struct_fields__
]
BLANKS = ("", "  \n")
STATED_BLANK = {("ItemSpec", "traits"), ("NoteInput", "expectedModifiedAt")}
"""Where blank text says something."""
NOT_COMPARED = {
    *((tool.arguments.__name__, "requestId") for tool in TOOLS),
    *((name, "actor") for name in ("ClaimItem", "WorkflowCreate", "WorkflowCancel", "WorkflowStepReady")),
    *(("Actor", "proof"), ("ClaimEntry", "agentId"), ("ClaimItem", "waitMs"), ("ManageItems", "requiresVerification")),
}
UNCHANGED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("title", "summary", "priority"), (None, *BLANKS)),
    **dict.fromkeys(("parentId", "assignee", "notBefore", "dueAt"), BLANKS),
    **dict.fromkeys(("traits", "requiresVerification"), (None,)),
    "id": (None, *BLANKS),
}
"""What changes nothing in an update."""


class Site(NamedTuple):
    """An argument at one place of a call."""

    call: Json
    at: Json
    """The object in the call that has it."""
    struct: str
    field: msgspec.structs.FieldInfo
    hint: Any

    @property
    def name(self) -> str:
        return self.field.encode_name

    @property
    def is_optional(self) -> bool:
        return self.field.default is None or self.field.default is UNSET

    def with_value(self, value: Any) -> Json:
        """The call with another value here."""
        had = self.at.get(self.name, UNSET)
        self.at[self.name] = value
        made = copy.deepcopy(self.call)
        self.at[self.name] = had
        if had is UNSET:
            del self.at[self.name]
        return made


def metas(hint: Any) -> Iterator[Meta]:
    if get_origin(hint) is Annotated:
        yield from (meta for meta in hint.__metadata__ if isinstance(meta, Meta))
        yield from metas(hint.__origin__)
    elif get_origin(hint) is not list:
        for one in get_args(hint):
            yield from metas(one)


def kinds(hint: Any) -> list[Any]:
    """The types that a value may have."""
    if get_origin(hint) is Annotated:
        return kinds(hint.__origin__)
    if get_origin(hint) in (list, dict) or not get_args(hint):
        return [hint]
    return [kind for one in get_args(hint) for kind in kinds(one)]


def enum(hint: Any) -> list[str]:
    return [word for meta in metas(hint) for word in (meta.extra_json_schema or {}).get("enum", ()) if word]


def inner(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a value of this kind is, or has in a list."""
    if get_origin(kind) is list:
        return next(iter(filter(None, map(inner, kinds(get_args(kind)[0])))), None)
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


def grown(struct: type[msgspec.Struct]) -> Json:
    """A call with every structure that it may have, each with what it must have alone."""
    made: Json = {}
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        for kind in kinds(hint):
            if nested := inner(kind):
                made[field.encode_name] = [grown(nested)] if get_origin(kind) is list else grown(nested)
        if field.required and field.encode_name not in made:
            made[field.encode_name] = samples(hint)[0]
    return made


def samples(hint: Any) -> list[Any]:
    """Values that mean different things."""
    made: list[Any] = list(enum(hint))
    for kind in kinds(hint):
        if kind is str and not made:
            made += ["x", "y"]
        elif kind is int:
            made += [7, 8]
        elif kind is bool:
            made += [True, False]
        elif get_origin(kind) is dict:
            made += [{"a": 1}, {"a": 2}]
        elif get_origin(kind) is list and inner(kind) is None:
            words = enum(get_args(kind)[0]) or ["x", "y"]
            made += [[words[0]], [words[1]], words[:2]]
        elif kind is Any:
            made += ["x", {"a": 1}, {"a": True}, [1], [1, 1]]
    return made


def sites(struct: type[msgspec.Struct], call: Json, at: Json) -> Iterator[Site]:
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        yield Site(call, at, struct.__name__, field, hint)
        below = None if (struct.__name__, field.encode_name) in NOT_COMPARED else at.get(field.encode_name)
        for nested in filter(None, map(inner, kinds(hint))):
            for one in below if isinstance(below, list) else [] if below is None else [below]:
                yield from sites(nested, call, one)


def form(struct: type[msgspec.Struct], call: Json, *, partial: bool = False) -> str:
    return idempotency_key("a", "r", "t", canonical(msgspec.convert(call, struct), partial=partial)).fingerprint


def documented(site: Site) -> Any:
    """The default that the description of an argument names; UNSET: none."""
    text = " ".join(meta.description or "" for meta in metas(site.hint))
    if (found := re.search(r"[Dd]efault:? ([a-z_A-Z0-9]+)", text)) is None:
        return UNSET
    word = found[1]
    if word in enum(site.hint):
        return word
    constants: Json = {"false": False, "empty": "", "1": 1, "1000": 1000}
    return constants.get(word, UNSET)


EVERY_TOOL = pytest.mark.parametrize("tool", [pytest.param(tool, id=tool.name) for tool in TOOLS])


@EVERY_TOOL
def test_what_leaves_an_argument_out_in_other_words_is_the_same_call(tool: Tool) -> None:
    struct, call = tool.arguments, grown(tool.arguments)
    before, tried = form(struct, call), 0
    for site in sites(struct, call, call):
        texts = BLANKS if str in kinds(site.hint) and (site.struct, site.name) not in STATED_BLANK else ()
        words: list[Any] = [None, *texts, site.field.default, documented(site)] if site.is_optional else []
        if isinstance(said := documented(site), str):
            words += [said.upper(), said.capitalize()]
        if not site.field.required and site.field.default is not msgspec.NODEFAULT:
            words.append(site.field.default)
        for value in words:
            if value is UNSET or site.name in site.at or (value is None and type(None) not in kinds(site.hint)):
                continue
            assert form(struct, site.with_value(value)) == before, (site.struct, site.name, value)
            tried += 1
    assert tried > 0


@EVERY_TOOL
def test_what_says_something_else_is_another_call(tool: Tool) -> None:
    struct, call = tool.arguments, grown(tool.arguments)
    for site in sites(struct, call, call):
        values = samples(site.hint)
        forms = {form(struct, site.with_value(value)) for value in values}
        if (site.struct, site.name) in STATED_BLANK:
            assert form(struct, site.with_value("")) not in (form(struct, call), *forms)
        expected = 1 if (site.struct, site.name) in NOT_COMPARED else len(values)
        assert len(forms) == expected or not values, (site.struct, site.name, values)


def test_an_element_may_state_what_the_call_says_of_all() -> None:
    ends, asked = {"fromItemId": "1", "toItemId": "2"}, partial(form, ManageDependencies)

    def call(edge: Json, **shared: Any) -> Json:
        return {"operation": "create", "dependencies": [{**ends, **edge}], **shared}

    assert asked(call({}, type="relates_to")) == asked(call({"type": "RELATES_TO"}, type="RELATES_TO"))
    assert asked(call({}, type="RELATES_TO")) != asked(call({"type": "BLOCKS"}, type="RELATES_TO"))
    assert asked(call({}, unblockAt="work")) == asked(call({"unblockAt": "Work"}, unblockAt="work"))
    assert asked(call({}, unblockAt="work")) != asked(call({"unblockAt": "terminal"}, unblockAt="work"))
    items: list[Json] = [
        {"operation": "create", "parentId": "a", "items": [{"parentId": own}]} for own in ("a", "", "b")
    ]
    of_children = [form(ManageItems, one) for one in items]
    assert of_children[0] == of_children[1] != of_children[2]


@EVERY_TOOL
def test_an_argument_that_is_added_later_changes_no_form(tool: Tool) -> None:
    call = grown(tool.arguments)
    added: list[Any] = [("later", str | None, None), ("more", int, 5), ("other", str | None | UnsetType, UNSET)]
    later = msgspec.defstruct("Later", added, bases=(tool.arguments,), kw_only=True)
    assert canonical(msgspec.convert(call, later)) == canonical(msgspec.convert(call, tool.arguments))
    assert canonical(msgspec.convert({**call, "more": 6}, later))["more"] == 6


@pytest.mark.parametrize("struct", [ManageItems, EditItems])
def test_in_an_update_null_clears(struct: type[msgspec.Struct]) -> None:
    call = {"operation": "update", "items": [{"id": "1"}], "shown": [{}]}
    if struct is ManageItems:
        del call["shown"]
    asked = partial(form, struct, partial=True)
    for site in sites(struct, call, call):
        if site.struct not in ("ItemSpec", "ShownItem") or site.name == "id":
            continue
        texts = BLANKS if str in kinds(site.hint) else ()
        for value in (None, *texts):
            unchanged = site.struct == "ItemSpec" and value in UNCHANGED.get(site.name, ())
            assert (asked(site.with_value(value)) == asked(call)) is unchanged, (site.struct, site.name, value)
        if said := documented(site):  # a default that is written out is a change
            assert said is UNSET or asked(site.with_value(said)) != asked(call), site.name
        values = samples(site.hint)
        assert len({asked(call), *(asked(site.with_value(value)) for value in values)}) == len(values) + 1, site.name


RESOURCES: list[Any] = [None, [], [{"key": "a"}], [{"key": "a", "mode": "EXCLUSIVE", "units": 1}]]
FIELDS: dict[str, list[Any]] = {
    "title": ["t", "u"],
    "summary": [None, "", " ", "s"],
    "description": [None, "", " ", "d"],
    "statusLabel": [None, "", "l"],
    "priority": [None, "", "medium", "MEDIUM", "high", "High"],
    "complexity": [None, 1, 2],
    "parentId": [None, "", " ", "a" * 32, "b" * 32],
    "tags": [None, "", " ", "a", "b"],
    "metadata": [None, "", "m"],
    "type": [None, " ", "y"],
    "properties": [None, "", "{}", '{"traits": ["p"]}'],
    "traits": [None, "", " ", "q"],
    "requires": [None, [], ["a"], ["a", "a"], ["b", "a"], ["a", "b"]],
    "assignee": [None, "", "ann", "bob"],
    "resources": [*RESOURCES, [{"key": "a", "mode": "shared"}], [{"key": "a", "units": 2}]],
    "notBefore": [None, "", "2026-01-01T00:00:00Z"],
    "dueAt": [None, " ", "2026-01-01T00:00:00Z"],
    "recurs": [None, {"cron": "@daily"}, {"cron": "@daily", "timeZone": "UTC", "missed": "One"}],
    "requiresVerification": [None, False, True],
    "container": [None, False, True],
    "maxAttempts": [None, 0, 3],
    "retryBackoffSeconds": [None, 0, 5],
    "budget": [None, {"tokens": 5}, {"tokens": 5, "wallMs": None}, {"tokens": 6}],
}
ROLES = [None, "", "queue", "QUEUE", "work"]
EDGES: dict[str, list[Any]] = {
    "type": [None, "", "BLOCKS", "blocks", "RELATES_TO", "is_blocked_by"],
    "unblockAt": [None, " ", "terminal", "TERMINAL", "work"],
}
RETRIES = [{"max_attempts": 1}, {"max_attempts": 2}, {"max_attempts": 2, "delay_ms": 1000, "backoff": "exponential"}]
STEPS: dict[str, list[Any]] = {
    "tool": [None, "t"],
    "args": [None, {}, {"a": 1}],
    "gate": [None, True, False],
    "retry": [None, *RETRIES, {"max_attempts": 2, "max_delay_ms": 5}],
    "timeout_ms": [None, 60_000, 5, -5],
    "on_error": [None, "fail", "continue"],
    "queue": [None, "q"],
    "priority": [None, "high"],
    "delay_ms": [None, 0, 5],
}


@st.composite
def pairs(draw: st.DrawFn, fields: dict[str, list[Any]]) -> tuple[Json, Json]:
    """Two objects that differ in a few members."""
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=4))
    one = {name: draw(st.sampled_from(fields[name])) for name in names}
    changed = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, min_size=1, max_size=2))
    other = {**one, **{name: draw(st.sampled_from(fields[name])) for name in changed}}
    dropped = draw(st.sampled_from([*sorted(other), ""]))
    return one, {name: value for name, value in other.items() if name != dropped}


def meaning(make: Any) -> object:
    """What the rules make of arguments, or why they refuse them."""
    try:
        return make()
    except ToolFailure as failure:
        return failure.message


@given(st.sampled_from([{}, {"parentId": "a" * 32}, {"parentId": " ", "traits": " "}, {"traits": "q"}]), st.data())
def test_no_items_that_mean_something_else_have_the_same_form(shared: Json, data: st.DataObject) -> None:
    def made(call: ManageItems) -> object:
        (item,) = call.items or []
        above = values.not_blank(item.parent_id) or values.not_blank(call.parent_id)
        return items.new_item(item, "", above, call.traits)

    specs = data.draw(pairs({**FIELDS, "role": ROLES}))
    one, other = (
        msgspec.convert({"operation": "create", **shared, "items": [{"title": "t", **spec}]}, ManageItems)
        for spec in specs
    )
    if canonical(one) == canonical(other):
        assert meaning(partial(made, one)) == meaning(partial(made, other))


@given(pairs(FIELDS))
def test_no_updates_that_mean_something_else_have_the_same_form(specs: tuple[Json, Json]) -> None:
    def changes(call: ManageItems) -> object:
        (spec,) = call.items or []
        moved = {} if spec.parent_id is UNSET or spec.parent_id in (*BLANKS, " ") else {"pa": spec.parent_id}
        return {**items.changes(spec), **moved}

    one, other = (
        msgspec.convert({"operation": "update", "items": [{"id": "1", **spec}]}, ManageItems) for spec in specs
    )
    if canonical(one, partial=True) == canonical(other, partial=True):
        assert meaning(partial(changes, one)) == meaning(partial(changes, other))


@given(pairs(EDGES), pairs(EDGES))
def test_edges_have_one_form_where_they_mean_the_same(shared: tuple[Json, Json], own: tuple[Json, Json]) -> None:
    ends = {"fromItemId": "a" * 32, "toItemId": "b" * 32}
    one, other = (
        msgspec.convert({"operation": "create", **above, "dependencies": [{**ends, **edge}]}, ManageDependencies)
        for above, edge in zip(shared, own, strict=True)
    )

    def made(call: ManageDependencies) -> object:
        edges, failures = dependencies.checked(dependencies.edges_asked_for(call), call)
        return failures or tuple(edge._replace(unblock_at=edge.unblock_at or "terminal") for edge in edges)

    forms = [canonical(one), canonical(other)]
    meant = [meaning(partial(made, call)) for call in (one, other)]
    assert forms[0] != forms[1] or meant[0] == meant[1]
    if shared[0] == shared[1] and isinstance(meant[0], tuple):
        assert (forms[0] == forms[1]) is (meant[0] == meant[1])
    # What is deleted is not what an edge has by default.
    deletes = [msgspec.convert({"operation": "delete", **ends, **edge}, ManageDependencies) for edge in own]
    filters = [(values.not_blank(call.type).upper(), values.not_blank(call.unblock_at).lower()) for call in deletes]
    forms = [canonical(call, partial=True) for call in deletes]
    assert (forms[0] == forms[1]) is (filters[0] == filters[1])


@given(pairs(STEPS), st.booleans())
def test_steps_have_one_form_where_they_mean_the_same(specs: tuple[Json, Json], last: bool) -> None:
    after: Json = {"done": True} if last else {"next": "end", "done": False}
    flows = [
        {"start": {"name": "s", "tool": "t", **spec, **after}, "end": {"name": "e", "tool": None, "done": True}}
        for spec in specs
    ]
    if last:
        flows = [{"start": flow["start"]} for flow in flows]

    def checked(flow: Json) -> Any:
        made = check_flow(flow, {}, lambda name: "", with_results=False)
        start = made["start"]
        once = start.retry is not None and start.retry.max_attempts == 1
        return {**made, "start": msgspec.structs.replace(start, retry=None if once else start.retry)}

    one, other = (meaning(partial(checked, flow)) for flow in flows)
    forms = [as_meant(flow) for flow in flows]
    assert (forms[0] == forms[1]) is (one == other) or isinstance(one, str)
    assert one == other or forms[0] != forms[1]


def test_members_of_objects_have_no_order() -> None:
    one, other = (
        msgspec.convert({"name": "n", "flow": {}, "input": given}, WorkflowCreate)
        for given in ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2, "c": 1}, "a": 1})
    )
    prints = {idempotency_key("a", "r", "t", canonical(call)).fingerprint for call in (one, other)}
    assert len(prints) == 1
