"""What marks of tasks in Markdown say, and what only looks like one."""

from __future__ import annotations

import re

import pytest

from coordinator.client.plans.plan import Text
from coordinator.interchange.formats import markdown
from coordinator.interchange.model import ImportProblem

PLAN = """\
## Notes (after: build)
- [ ] Write (due: +4w) (resources: gpu=2, repo/app=shared)
- [ ] Publish (after: write, 1a2b3c) (budget: cost=2.50, time=2h) (recurs: @daily) (not before: +2h)
## Rest
- [ ] Build #ci (ref: build)
- [ ] Review (after: tidy, Build) (after 1a2b3c)
  - [ ] first
  - [ ] Tidy <!-- fleet:1a2b3c -->
"""


def test_marks_of_plans_are_read_as_in_plans() -> None:
    source = markdown.read(PLAN.encode())
    assert source.losses() == []
    found = {one.title: one for one in source.records}
    names = {one.id: one.title for one in source.records}
    assert {one.title: [names[other] for other in one.blockers] for one in source.records if one.blockers} == {
        "Notes": ["Build"],
        "Write": ["Build"],
        "Publish": ["Build", "Write", "Tidy"],
        "Review": ["Tidy", "Build"],
        "first": ["Build"],  # not for its sibling
        "Tidy": ["Build"],
    }
    assert found["Write"].fields == {
        "dueAt": "+4w",
        "resources": [{"key": "gpu", "units": 2}, {"key": "repo/app", "mode": "shared"}],
    }
    assert found["Publish"].fields == {
        "budget": {"costMicroUsd": 2_500_000, "wallMs": 7_200_000},
        "recurs": {"cron": "@daily"},
        "notBefore": "+2h",
    }
    again = markdown.read("\n".join(markdown.write(source.records)).encode())
    assert {one.title: one.fields for one in again.records} == {one.title: one.fields for one in source.records}


def test_numbered_tasks_wait_for_each_other_with_what_is_below_them() -> None:
    text = (
        b"# A\nFor all.\n1. [ ] one\n2. [ ] two\n   - [ ] below\n- [ ] any\n1. [ ] new (tags: 2024, x) #12\n2. text\n"
    )
    source = markdown.read(text)
    names = {one.id: one.title for one in source.records}
    assert {one.title: [names[other] for other in one.blockers] for one in source.records} == {
        "A": [],
        "one": [],
        "two": ["one"],
        "below": ["one"],
        "any": [],
        "new #12": [],
    }
    assert (source.records[0].description, source.records[-1].description) == ("For all.", "2. text")
    assert (source.records[-1].tags, source.losses()) == (["2024", "x"], [])


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ("(after: Desing)", "line 2: after: there is no 'Desing'; did you mean"),
        ("(after: twice)", "line 2: after: 2 items have the title 'twice': give them a ref"),
        ("(resources: gpu=x)", "line 2: resources: 'gpu=x' must be KEY, KEY=UNITS or KEY=shared"),
        ("(budget: 3)", "line 2: budget: '3' must be cost=DOLLARS"),
        ("(ref: design)", "line 2: ref: 'design' is used twice"),
        ("(due: 2026-12-01)", "line 2: dueAt: '2026-12-01' must be a time with a zone, as in 2026-01-01T12:00:00Z"),
        ("(not before: tomorrow)", "line 2: notBefore: 'tomorrow' must be a time with a zone"),
        ("(after: Empty)", "line 2: after: there is no 'Empty'"),
    ],
)
def test_marks_that_cannot_be_read_stop_an_import(mark: str, problem: str) -> None:
    with pytest.raises(ImportProblem, match=re.escape(problem)):
        markdown.read(f"- [ ] Design (ref: design)\n- [ ] a {mark}\n- [ ] twice\n- [ ] twice\n# Empty\n".encode())


def test_what_looks_like_a_mark_and_is_none_is_named() -> None:
    source = markdown.read(
        rb"- [ ] Tidy f(after: x) (dueAt: +4w) !urgent \(due: +4w) \!low (about 2 h) (http://a.example) (due: ) "
        rb"(after 1a2b3c) (recurs: @daily) (recurs: @weekly)"
    )
    title = "Tidy f(after: x) (dueAt: +4w) !urgent (due: +4w) !low (about 2 h) (http://a.example) (due: )"
    assert source.records[0].title == title
    assert source.records[0].fields == {"recurs": {"cron": "@daily"}}
    assert source.losses() == [
        "1 x marks that a task has already: (recurs: @weekly)",
        "4 x what looks like a mark of a task, and stays text: (after: x), (dueAt: +4w), !urgent, (due: )",
    ]
    (written,) = markdown.write(source.records)
    assert markdown.read(written.encode()).records[0].title == source.records[0].title


def test_marks_may_name_titles_with_parentheses() -> None:
    text = "- [ ] Fix f(x) (again)\n- [ ] a (ref: 1a2b3c)\n- [ ] b <!-- fleet:1a2b3c -->\n"
    text += "- [ ] c (after: Fix f(x) (again), 1a2b3c)\n"
    first, second, _, last = markdown.read(text.encode()).records
    assert (last.title, last.blockers) == ("c", [first.id, second.id])
    assert Text(text, "plan.md", markdown=True).mapping()["children"][-1] == {
        "title": "c",
        "after": ["Fix f(x) (again)", "1a2b3c"],
    }
