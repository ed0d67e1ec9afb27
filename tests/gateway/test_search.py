"""Search: the reference's vectors, and every score against a plain scorer."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.toolsets.gateway.rules.search import Index, SearchEntry
from tests.gateway import plain

PIPELINE = SearchEntry(
    "deploy_pipeline",
    "workflow",
    "Deploy Pipeline",
    ("deploy", "pipeline"),
    (),
    "Lint, test, build, and deploy a service.",
    "lint test ready_to_deploy deployed aborted run_lint run_tests deploy abort",
)
ISSUES = SearchEntry(
    "github.list_issues",
    "capability",
    "List GitHub issues",
    ("github", "issues"),
    (),
    "List issues from a GitHub repository.",
    "github.list_issues",
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("deply", "deploy", 0.4),
        ("deploi", "deploy", 0.6),
        ("pipelne", "pipeline", 0.375),
        ("isues", "issues", 0.4),
        ("githb", "github", 0.4),
        ("deploymnt", "deployment", 0.5),
        ("depoly", "deploy", 0.1429),
        ("lsit", "list", 0),
        ("", "", 1),
        ("ab", "cd", 1),
        ("ab", "abc", 0),
    ],
)
def test_similarity_of_words(one: str, other: str, expected: float) -> None:
    """Of the plain search that the index is compared with."""
    assert round(plain.alike(one, other), 4) == expected == round(plain.alike(other, one), 4)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("deploy", 17),
        ("dep", 17),
        ("deploy deploy", 34),
        ("deploy pipeline", 31),
        ("DEPLOY-pipeline!", 31),
        ("deply", 3.4),
        ("deploi", 5.1),
        ("pipelne", 2.625),
        ("lint", 3),
        ("depoly", None),
    ],
)
def test_scores_of_the_examples_workflow(query: str, expected: float | None) -> None:
    found = [(one.id, one.score) for one in Index([PIPELINE]).search(query)]
    assert found == ([("deploy_pipeline", expected)] if expected is not None else [])


@pytest.mark.parametrize(("query", "expected"), [("issues", 17), ("list issues", 31), ("isues", 3.4), ("githb", 3.4)])
def test_scores_of_the_examples_capability(query: str, expected: float) -> None:
    assert [(one.id, one.score) for one in Index([PIPELINE, ISSUES]).search(query)] == [
        ("github.list_issues", expected)
    ]


@pytest.mark.parametrize("query", ["", "  ", "\t"])
def test_an_empty_query_finds_everything(query: str) -> None:
    index = Index([ISSUES, PIPELINE])
    assert [(one.score, one.id) for one in index.search(query)] == [
        (1.0, "deploy_pipeline"),
        (1.0, "github.list_issues"),
    ]
    assert [one.id for one in index.search(query, kind="capability")] == ["github.list_issues"]
    assert len(index.search(query, limit=1)) == 1


def test_a_query_without_letters_finds_nothing() -> None:
    assert Index([ISSUES]).search("...") == []


WORDS = (
    "deploy",
    "deployed",
    "deployment",
    "deplyo",
    "list",
    "lists",
    "ab",
    "a",
    "issue",
    "issues",
    "ünïcode",
    "x1",
    "1",
)
ROUNDED = 1e-4
"""Scores are rounded; sums in another order may round differently."""
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
entries = st.builds(
    SearchEntry,
    st.text(st.sampled_from("abdepl_.1"), min_size=1, max_size=8),
    st.sampled_from(["workflow", "capability"]),
    texts,
    st.lists(st.sampled_from(WORDS), max_size=3),
    st.lists(st.sampled_from(WORDS), max_size=2),
    texts,
    texts,
)
queries = st.lists(st.sampled_from((*WORDS, "depl", "dep", "isue", "e", "Deploy", "loy", "listed")), max_size=4).map(
    " ".join
)


@settings(max_examples=60)
@given(
    st.lists(entries, max_size=8, unique_by=lambda entry: entry.id),
    queries,
    st.sampled_from([None, "workflow", "capability"]),
    st.integers(1, 8),
)
@example(
    [
        SearchEntry(".", "workflow", "deploy", [], [], "", "deploy"),
        SearchEntry("1", "workflow", "", ["deploy"], ["deploy"], "", "deploy"),
    ],
    "deploy deploy depl",
    None,
    1,
)
def test_scores_and_order_match_the_plain_scorer(
    made: list[SearchEntry], query: str, kind: str | None, limit: int
) -> None:
    expected = {}
    for entry in made:
        points = plain.score({name: entry.field(name) for name in plain.WEIGHTS}, query)
        if kind in (None, entry.kind) and (points > 0 or not query.strip()):
            expected[entry.id] = points if query.strip() else 1.0
    found = Index(made).search(query, kind, limit)
    assert len(found) == min(limit, len(expected))
    assert all(abs(one.score - expected.pop(one.id)) < ROUNDED for one in found)
    assert found == sorted(found, key=lambda one: (-one.score, one.id))
    # No better result is missing, and no equal one that sorts earlier.
    for name, points in expected.items():
        assert points < found[-1].score + ROUNDED
        assert points < found[-1].score - ROUNDED or name > found[-1].id or round(points, 4) < found[-1].score


def test_a_repeated_query_has_the_same_answer() -> None:
    index = Index([PIPELINE, ISSUES])
    assert index.search("deploi isues") == index.search("deploi isues") != []
