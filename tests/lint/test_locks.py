"""The lock files: pinned by hash, agreeing with each other and with pyproject.toml, and stored small."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import small_json

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "requirements.lock"
TESTS = ROOT / "tests" / "requirements.lock"
HOSTS = ROOT / "tests" / "hosts.lock"
SERVERS = ROOT / "tests" / "servers.lock"
"""Locks of separate environments."""


def entries(path: Path) -> dict[str, tuple[Requirement, int]]:
    """Distribution name -> (requirement, number of hashes)."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, tuple[Requirement, int]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        body, *hashes = re.split(r"\s+--hash=sha256:", line)
        requirement = Requirement(body)
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{name} is locked twice"
        assert all(re.fullmatch(r"[0-9a-f]{64}", one.strip()) for one in hashes)
        found[name] = (requirement, len(hashes))
    return found


@pytest.mark.parametrize("path", [RUNTIME, TESTS, HOSTS, SERVERS], ids=["runtime", "tests", "hosts", "servers"])
def test_every_line_is_an_exact_version_with_hashes_and_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"^\s*(--(?!hash)|-[a-z])", text, re.MULTILINE), "options do not belong in a lock"
    locked = entries(path)
    assert len(locked) > 20
    for name, (requirement, hashes) in locked.items():
        assert [one.operator for one in requirement.specifier] == ["=="], name
        assert hashes >= 1, name


def test_the_locks_agree() -> None:
    runtime, tests = entries(RUNTIME), entries(TESTS)
    assert set(runtime) <= set(tests)
    differing = {name for name in runtime if runtime[name] != tests[name]}
    assert not differing


def test_the_locks_satisfy_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    development = [one for one in groups["dev"] if isinstance(one, str)]
    extras = [one for extra in project["project"]["optional-dependencies"].values() for one in extra]
    runtime = project["project"]["dependencies"] + extras + groups["build"]
    asked = {RUNTIME: runtime, TESTS: development, HOSTS: groups["hosts"], SERVERS: groups["servers"]}
    for path, requirements in asked.items():
        locked = entries(path)
        for requirement in map(Requirement, requirements):
            found, _ = locked[canonicalize_name(requirement.name)]
            version = next(iter(found.specifier)).version
            assert requirement.specifier.contains(version), f"{path.name}: {found} does not fit {requirement}"


def test_the_build_backend_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (backend,) = map(Requirement, project["build-system"]["requires"])
    found, _ = entries(RUNTIME)[backend.name]
    assert backend.specifier.contains(next(iter(found.specifier)).version)


@pytest.mark.parametrize("path", small_json.files(), ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_lock_files_of_npm_and_recordings_have_a_line_for_each_element(path: Path) -> None:
    """``python -m tests.support.small_json`` writes them so."""
    text = path.read_text(encoding="utf-8")
    assert text == small_json.small(json.loads(text))
