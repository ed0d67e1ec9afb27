"""Key names, project names and the families' declarations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.errors import ToolFailure
from coordinator.store import keys
from coordinator.store.keys import Family
from tests.support.fleets import ROOT


@pytest.mark.parametrize("name", ["a", "0", "default", "team-7_x", "x" * 63])
def test_a_project_name_makes_a_prefix(name: str) -> None:
    assert keys.check_project(name) == name
    assert keys.project_prefix(name) == b"fc:{" + name.encode() + b"}:"
    assert keys.prefix(name) == keys.project_prefix(name)


@pytest.mark.parametrize("name", ["", "-a", "_a", "A", "a b", "a\n", "é", "a:b", "{a}", "a*", "!fleet", "x" * 64])
def test_an_invalid_project_name_is_rejected_with_the_rule(name: str) -> None:
    with pytest.raises(ToolFailure) as raised:
        keys.check_project(name)
    assert raised.value.code == "VALIDATION_ERROR"
    assert raised.value.message.startswith("project: must be 1 to 63 lower-case letters")


@given(st.text(max_size=70))
def test_no_project_name_leaves_its_partition(name: str) -> None:
    try:
        prefix = keys.project_prefix(name)
    except ToolFailure:
        return
    assert re.fullmatch(rb"fc:\{[a-z0-9_-]+\}:", prefix)
    assert prefix != keys.prefix(keys.FLEET)


def test_the_fleet_has_a_partition_that_no_project_can_take() -> None:
    assert keys.prefix(keys.FLEET) == b"fc:{!fleet}:"


def test_a_family_makes_its_keys() -> None:
    assert Family("i", "hash", reason="r", doc="d").key("p", "1") == b"fc:{p}:i:1"
    assert Family("x", "zset", reason="r", doc="d").key("p", "a", "b") == b"fc:{p}:x:a:b"
    assert Family("ready", "zset", reason="r", single=True, doc="d").key("p") == b"fc:{p}:ready"
    assert Family("jwks", "string", ttl="t", scope="fleet", doc="d").key(keys.FLEET, "1") == b"fc:{!fleet}:jwks:1"


@pytest.mark.parametrize(
    ("family", "arguments"),
    [
        (Family("i", "hash", reason="r", doc="d"), ("p",)),
        (Family("i", "hash", reason="r", single=True, doc="d"), ("p", "1")),
        (Family("i", "hash", reason="r", doc="d"), (keys.FLEET, "1")),
        (Family("i", "hash", reason="r", scope="fleet", doc="d"), ("p", "1")),
    ],
)
def test_a_family_refuses_keys_that_are_not_its_own(family: Family, arguments: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="family"):
        family.key(*arguments)


@pytest.mark.parametrize(("ttl", "reason"), [(None, None), ("t", "r")])
def test_a_family_has_either_a_ttl_or_a_reason_for_none(ttl: str | None, reason: str | None) -> None:
    with pytest.raises(ValueError, match="either a ttl or the reason"):
        Family("i", "hash", ttl=ttl, reason=reason, doc="d")


@pytest.mark.parametrize("suffix", ["", "I", "a:b", "1a", "a}"])
def test_a_suffix_is_a_plain_word(suffix: str) -> None:
    with pytest.raises(ValueError, match="suffix"):
        Family(suffix, "hash", reason="r", doc="d")


def test_two_families_cannot_share_a_suffix_within_a_scope() -> None:
    one, two = Family("i", "hash", reason="r", doc="d"), Family("i", "set", reason="r", doc="d")
    with pytest.raises(ValueError, match="one and two share a suffix"):
        keys.index([("one", one), ("two", two)])
    elsewhere = Family("i", "set", reason="r", scope="fleet", doc="d")
    assert keys.index([("one", one), ("elsewhere", elsewhere)])["fleet"]["i"] is elsewhere


def test_every_declared_family_is_found_from_its_keys() -> None:
    for scope, families in keys.FAMILIES.items():
        for family in families.values():
            key = family.key(keys.FLEET if scope == "fleet" else "p", *(() if family.single else ("some:id",)))
            assert keys.declared(key) is family
            assert family.name
            assert family.doc


@pytest.mark.parametrize(
    "key", [b"", b"fc:", b"fc:{p}:", b"fc:{p}:nosuch:1", b"fc:{p}:i", b"fc:{p}x:i:1", b"rq:job:1", b"fc:{!fleet}:i:1"]
)
def test_other_keys_belong_to_no_family(key: bytes) -> None:
    assert keys.declared(key) is None


def test_lua_makes_the_same_keys() -> None:
    for scope, families in keys.FAMILIES.items():
        for family in families.values():
            project = keys.FLEET if scope == "fleet" else "p"
            key = family.key(project, *(() if family.single else ("id",)))
            assert keys.prefix(project) + f"{family.lua_suffix}{'' if family.single else 'id'}".encode() == key


# --- what has a cluster refuse a project that is only partly there


def test_no_key_is_the_prefix_that_functions_declare() -> None:
    """A key that is never there: so a node from which its slot is being moved refuses every function (ASK)."""
    for scope, families in keys.FAMILIES.items():
        partition = keys.FLEET if scope == "fleet" else "p"
        for family in families.values():
            assert family.key(partition, *(() if family.single else ("",))) != keys.prefix(partition)


def test_nothing_asks_the_node_that_a_slot_is_moved_to() -> None:
    """It would run functions on a part of the project's keys."""
    sources = [path for folder in ("coordinator", "workers") for path in (ROOT / folder).rglob("*.py")]
    said = [path.name for path in sources for line in path.read_text().splitlines() if "ASKING" in line]
    assert said == ["store.py"], "where the shared connection refuses it"
