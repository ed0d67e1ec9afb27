"""What holds of any records: they are shaped into what items can be, and written records come back."""

from __future__ import annotations

import copy
import random

from hypothesis import given
from hypothesis import strategies as st

from coordinator.interchange.formats import beads, markdown
from coordinator.interchange.identity import seen_of
from coordinator.interchange.mapping import Mapping_, apply_mapping
from coordinator.interchange.model import ImportSource, SourceRecord
from coordinator.interchange.shaping import MAX_DEPTH, shape

IDS = [f"r{n}" for n in range(12)]
TEXT = st.text(max_size=40)


@st.composite
def records(draw: st.DrawFn) -> list[SourceRecord]:
    """Any graph of some items: with cycles, links to nowhere, deep trees."""
    some = draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1))
    links = st.lists(st.sampled_from([*IDS, "nowhere"]), max_size=4)
    return [
        SourceRecord(
            one,
            draw(TEXT),
            draw(TEXT),
            state=draw(st.sampled_from(["queue", "done", "blocked", "cancelled"])),
            priority=draw(st.sampled_from(["high", "medium", "low"])),
            parent=draw(st.sampled_from([None, *IDS, "nowhere"])),
            blockers=draw(links),
            related=draw(links),
            complexity=draw(st.none() | st.floats(-5, 50)),
            container=draw(st.booleans()),
        )
        for one in some
    ]


@given(records(), st.randoms(use_true_random=False))
def test_shaped_records_are_trees_without_cycles_in_any_order(
    found: list[SourceRecord], shuffle: random.Random
) -> None:
    source = ImportSource(records=found)
    shape(source)
    here = {one.id: one for one in source.records}
    assert here.keys() == {one.id for one in found}
    seen: set[str] = set()
    for one in source.records:
        depth, above = 0, one
        while above.parent is not None:
            above, depth = here[above.parent], depth + 1
        assert depth <= MAX_DEPTH
        assert one.parent is None or one.parent in seen, "a child comes before its parent"
        seen.add(one.id)
        assert one.title.strip()
        assert one.complexity is None or 1 <= one.complexity <= 10
        assert {*one.blockers, *one.related} <= here.keys() - {one.id}
    left = {one.id: set(one.blockers) for one in source.records}
    while free := [name for name, blockers in left.items() if not blockers & left.keys()]:
        for name in free:
            del left[name]
    assert not left, "a cycle is left"
    again = ImportSource(records=shuffle.sample(copy.deepcopy(source.records), len(source.records)))
    shape(again)
    assert {one.id: seen_of(one) for one in again.records} == {one.id: seen_of(one) for one in source.records}
    assert not again.remarks, "what is shaped is changed once more"


LINES = st.lists(
    st.sampled_from(["text", "", "- [ ] task", "# head", "```", "~~~", "    deep", "* [x] #a !high", "-->"])
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20),
    max_size=6,
).map("\n".join)
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=20) | st.sampled_from(
    ["a #tag !high", "(after r1)", "<!-- fleet:x -->", "\\#1", "\\\\", "#", "!low", "``` x", "ends \\"]
)


STATES = st.sampled_from(["queue", "blocked", "done", "cancelled", "in-progress"])
MARKED = st.fixed_dictionaries(
    {},
    optional={
        "dueAt": st.sampled_from(["2027-01-31T12:00:00Z", "+2h"]),
        "recurs": st.sampled_from([{"cron": "0 9 * * MON,FRI"}, {"cron": "@daily", "timeZone": "Europe/Berlin"}]),
        "resources": st.sampled_from([[{"key": "gpu", "units": 2}], [{"key": "a/b"}, {"key": "c", "mode": "shared"}]]),
        "budget": st.fixed_dictionaries({"wallMs": st.integers(1, 10**12)}, optional={"costMicroUsd": st.just(25)}),
        "requires": st.lists(st.sampled_from(["gpu", "a b"]), min_size=1),
        "requiresVerification": st.just(True),
        "maxAttempts": st.integers(0, 9),
    },
)
ROWS = st.builds(
    SourceRecord,
    st.just(""),
    WORDS,
    LINES | st.just(""),
    summary=WORDS | st.just("") | st.just("(a (b (c)))\n#d"),
    state=STATES,
    priority=st.sampled_from(["high", "medium", "low"]),
    complexity=st.none() | st.integers(1, 10),
    type=st.sampled_from(["", "heading", "bug (odd)"]),
    container=st.booleans(),
    tags=st.lists(st.sampled_from(["t", "2024", "a.b/c"]), unique=True),
    parent=st.none() | st.integers(0, 5).map(lambda n: f"r{n}"),
    blockers=st.lists(st.integers(0, 5).map(lambda n: f"r{n}"), max_size=2),
    fields=MARKED,
)
ROLES = {"done": "terminal", "cancelled": "terminal", "in-progress": "work"}


@given(st.lists(ROWS, max_size=6))
def test_written_markdown_comes_back(rows: list[SourceRecord]) -> None:
    for n, one in enumerate(rows):
        one.id, one.status = f"r{n}", ROLES.get(one.state or "", one.state or "")
        one.parent = one.parent if one.parent and one.parent < one.id else None
    source = ImportSource(records=rows)
    shape(source)
    found = markdown.read("\n".join(markdown.write(source.records)).encode())
    apply_mapping(found, markdown.STATES, Mapping_(), None)
    assert found.losses() == []
    here = {one.id: one for one in source.records}
    back = {one.id: one for one in found.records}
    assert back.keys() == here.keys()
    for key, one in back.items():
        was = here[key]
        was.description = was.description.strip("\n")
        one.tags.sort()
        was.tags.sort()
        if not one.status and was.state == "in-progress":  # a heading: what is below says it
            was.state = "queue"
        was.status = one.status
        assert {name: getattr(one, name) for name in SourceRecord.__struct_fields__} == {
            name: getattr(was, name) for name in SourceRecord.__struct_fields__
        }


@given(records())
def test_written_beads_come_back(found: list[SourceRecord]) -> None:
    source = ImportSource(records=found)
    shape(source)
    roles = {"done": "terminal", "cancelled": "terminal"}
    for one in source.records:
        one.status = roles.get(one.state or "", one.state or "queue")
    lines = "\n".join(beads.write(source.records)).encode()
    back = beads.read(lines)
    apply_mapping(back, beads.STATES, Mapping_(), None)
    shape(back)
    assert [(one.id, one.title, one.parent, one.blockers) for one in back.records] == [
        (one.id, one.title, one.parent, one.blockers) for one in source.records
    ]
    assert not back.remarks


@given(st.binary(max_size=200), st.integers(0, 10**6))
def test_any_bytes_are_read_or_refused(noise: bytes, seed: int) -> None:
    from coordinator.interchange.formats import github, jira, linear, taskmaster
    from coordinator.interchange.model import ImportProblem

    for module in (beads, github, taskmaster, linear, jira, markdown):
        try:
            module.read(noise)
        except ImportProblem:
            pass


def test_all_that_is_not_carried_is_named() -> None:
    notes = {f"n{number}": "text" for number in range(502)} | {"blank": " "}
    long_keys = {"k" * 200 + "1": "first", "k" * 200 + "2": "second"}
    tags = [f"t{number}" for number in range(32)]
    source = ImportSource(
        records=[
            *(
                SourceRecord(f"r{n}", f"Item {n}", notes=dict(notes), tags=list(tags), blockers=["gone"])
                for n in range(7)
            ),
            SourceRecord(
                "k",
                "Keys",
                notes=long_keys,
                tags=["!!!", "l" * 101, "m" * 101, "no"],
                type="t" * 201,
                summary="s" * 2_001,
            ),
            SourceRecord("inf", "Endless", complexity=float("inf")),
            *(
                SourceRecord(one, one.upper(), blockers=[other], complexity=2.5)
                for one, other in (("x", "y"), ("y", "x"))
            ),
        ]
    )
    apply_mapping(source, {}, Mapping_(tags={"m" * 101: "m", "no": ""}), "queue")
    shape(source)
    said = "\n".join([*source.remarks, *source.losses()])
    for n in range(7):
        for what in ("'n500', 'n501'", "t30, t31", "gone"):
            assert f"Item {n} (r{n}) without {what}" in said
    assert "blank" not in said
    assert len(source.records[0].notes) == 500
    for what in (f"Keys (k) without the end of the key {'k' * 200 + '1'!r}", f"Keys (k) without {'k' * 200 + '2'!r}"):
        assert what in said
    for what in ("!!!", "l" * 101, "t" * 201):
        assert f"{what!r} of Keys" in said
    assert "Keys (k) without its end" in said
    assert "m" * 101 not in said, "it is mapped"
    assert "'' of Keys" not in said
    assert "Y (y) without its dependency on X (x)" in said or "X (x) without its dependency on Y (y)" in said
    assert "Endless (inf) without inf" in said
    assert "X (x); Y (y)" in said, "whose complexity is the nearest"
