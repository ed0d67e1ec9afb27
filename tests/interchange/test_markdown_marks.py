"""What marks of tasks in Markdown say, and what only looks like one."""

from __future__ import annotations

import re

import pytest

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


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ("(after: Desing)", "line 2: after: there is no 'Desing'; did you mean"),
        ("(after: twice)", "line 2: after: 2 tasks have the title 'twice': give them a ref"),
        ("(resources: gpu=x)", "line 2: resources: 'gpu=x' must be KEY, KEY=UNITS or KEY=shared"),
        ("(budget: 3)", "line 2: budget: '3' must be cost=DOLLARS"),
        ("(ref: design)", "line 2: ref: 'design' is used twice"),
    ],
)
def test_marks_that_cannot_be_read_stop_an_import(mark: str, problem: str) -> None:
    with pytest.raises(ImportProblem, match=re.escape(problem)):
        markdown.read(f"- [ ] Design (ref: design)\n- [ ] a {mark}\n- [ ] twice\n- [ ] twice\n".encode())


def test_what_looks_like_a_mark_and_is_none_is_named() -> None:
    source = markdown.read(rb"- [ ] Tidy f(after: x) (dueAt: +4w) !urgent \(due: +4w) \!low (about 2 h) (after 1a2b3c)")
    assert source.records[0].title == "Tidy f(after: x) (dueAt: +4w) !urgent (due: +4w) !low (about 2 h)"
    said = "3 x what looks like a mark of a task, and stays text: (after: x), (dueAt: +4w), !urgent"
    assert sorted(source.losses()[0].replace(":", ",", 1).split(", ")) == sorted(said.replace(":", ",", 1).split(", "))
    (written,) = markdown.write(source.records)
    assert markdown.read(written.encode()).records[0].title == source.records[0].title
