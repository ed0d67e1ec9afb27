"""Rules are stated or linked, not cited by numbers that readers cannot look up."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import needs

ROOT = Path(__file__).resolve().parents[2]

NUMBERED = re.compile(r"\bseeds?\s+[\"'`]?\d", re.IGNORECASE)
"""A contract cited by its number."""


def citations(text: str) -> list[int]:
    """The lines that cite a contract by number."""
    return [text.count("\n", 0, match.start()) + 1 for match in NUMBERED.finditer(text)]


@pytest.mark.parametrize("words", ["seed {}", "Seeds {} and {}", "(seed\n{})", "seed '{}'"])
def test_a_citation_is_found(words: str) -> None:
    assert citations("claims\n" + words.format("004", "002")) == [2]


@pytest.mark.parametrize("words", ["random.seed(7)", "seed: int = 1", "the seed of a run", "--randomly-seed=4"])
def test_random_seeds_are_not_citations(words: str) -> None:
    assert not citations(words)


def test_no_file_cites_a_contract_by_number() -> None:
    needs("git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is no git checkout")
    found = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="ignore")
            found += [f"{name}:{line}" for line in citations(text)]
    assert not found
