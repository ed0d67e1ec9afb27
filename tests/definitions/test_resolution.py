"""Resolution of ids: skills, resources, templates and activities; no id is ever a path."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.definitions import Definitions, Library, shipped, valid_id
from tests.support.workflows import Tree

Read = Callable[[], Library]


@pytest.fixture
def library(tree: Tree, read: Read) -> Library:
    tree.workflow("one", "a")
    tree.workflow("lender", "b")
    tree.workflow("meta", "c")
    for workflow, skills in {"one": ["own", "all"], "lender": ["lent", "all"], "meta": ["lent", "all", "last"]}.items():
        for number, skill in enumerate(skills):
            tree.skill(workflow, f"{number:02}", skill)
    for workflow in ("one", "meta"):
        for index in ("00", "3", "012"):
            tree.write(f"{workflow}/resources/{index}-r.md", f"{workflow} {index}")
    tree.write("one/templates/07-t.md", "template")
    return read()


@pytest.mark.parametrize(
    ("reference", "owner", "found"),
    [
        ("own", None, "one/own"),
        ("all", None, "one/all"),
        ("all", "lender", "one/all"),
        ("lent", None, "meta/lent"),
        ("lent", "lender", "lender/lent"),
        ("last", "lender", "meta/last"),
        ("own", "nobody", "one/own"),
        ("nothing", "lender", None),
        ("meta/all", None, "meta/all"),
        ("lender/lent", None, "lender/lent"),
        ("meta/own", None, None),
        ("nobody/all", None, None),
        ("/all", None, None),
        ("one/../meta/all", None, None),
        ("", None, None),
    ],
)
def test_skills(library: Library, reference: str, owner: str | None, found: str | None) -> None:
    skill = library.skill("one", reference, owner)
    assert (f"{skill.workflow}/{skill.id}" if skill else None) == found


@pytest.mark.parametrize(
    ("reference", "width", "found"),
    [
        ("3", 3, "one 3"), ("03", 3, "one 3"), ("003", 3, "one 3"), ("0003", 3, None),
        ("0", 2, "one 00"), ("00", 2, "one 00"), ("000", 2, None), ("000", 3, "one 00"),
        ("12", 3, "one 012"), ("012", 2, "one 012"), ("12", 2, None),
        ("meta/3", 3, "meta 3"), ("nobody/3", 3, None), ("one/meta/3", 3, None), ("/3", 3, None),
        ("../3", 3, None), ("r", 3, None), ("", 3, None), ("٣", 3, None), ("-3", 3, None),
    ],
)  # fmt: skip
def test_resources(library: Library, reference: str, width: int, found: str | None) -> None:
    resource = library.resource("one", reference, width)
    assert (resource.text if resource else None) == found


def test_templates(library: Library) -> None:
    found = [library.template("one", index) for index in ("7", "07", "007", "x")]
    assert [template is not None for template in found] == [True, True, False, False]
    assert library.template("nobody", "7") is None


def test_an_activity_is_found_where_it_belongs() -> None:
    library = Definitions([shipped()], poll_seconds=0).current
    found = library.activity("build")
    assert found is not None
    assert found.owner == "change"
    assert library.activity("nothing") is None


def test_a_borrowed_activity_is_found_where_it_is_lent_from(tree: Tree, read: Read) -> None:
    tree.workflow("borrower", "own", more="activities[1]: lender/01-lent.toon\n")
    tree.workflow("lender", "lent")
    library = read()
    assert "lent" in library.workflows["borrower"].activities
    found = library.activity("lent")
    assert found is not None
    assert found.owner == "lender"


def test_an_id_is_of_a_bounded_length_and_no_folder_above() -> None:
    assert [valid_id(text) for text in ("a", "...", "x" * 200)] == [True] * 3
    assert [valid_id(text) for text in ("", ".", "..", "x" * 201)] == [False] * 4


paths = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.lists(st.sampled_from(("..", ".", "meta", "change", "", "activities", "workflow.toon")), max_size=5).map(
        "/".join
    ),
)


@given(paths)
def test_no_id_of_a_caller_becomes_a_path(text: str) -> None:
    library = Definitions([shipped()], poll_seconds=0).current
    known = {skill.place for folder in library.folders.values() for skill in folder.skills.values()}
    skill = library.skill("change", text)
    assert skill is None or skill.place in known
    assert library.workflows.get(text) is None or text in ("change", "hotfix", "meta")
    assert library.resource("change", text) is None or text.rpartition("/")[2].isdigit()
    assert not (valid_id(text) and ("/" in text or "\\" in text or "\0" in text or text in (".", "..")))
