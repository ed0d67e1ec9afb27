"""Schemas, traits, labels and the actor rule: from the YAML file to enforcement by the tools."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.settings import Settings, SettingsError, load_settings
from coordinator.settings.sections.work import NoteSettings
from coordinator.store import Store
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.rules.roles import DEFAULT_LABELS
from coordinator.toolsets.items.rules.schema import Schema, SchemaConfig, SchemaSource
from coordinator.toolsets.tool import Call
from tests.items.client import Client, Json, actor

PHASES = ("queue", "work", "review")


def config_of(folder: Path, text: str) -> SchemaConfig:
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return schema_config(load_settings({}, {}, path).settings)


def problems_of(folder: Path, text: str) -> list[str]:
    """The problems of a file, without its name: ``3: sentence``."""
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, path)
    assert all(problem.startswith(f"{path}:") for problem in caught.value.problems), caught.value.problems
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]


def client_of(store: Store, project: str, **sections: Any) -> Client:
    return Client(store, project, msgspec.convert(sections, Settings))


# --- meaning of a file ------------------------------------------------------------------------


def test_a_file_without_sections_has_no_schemas_and_the_built_in_labels(tmp_path: Path) -> None:
    config = config_of(tmp_path, "port: 1\n")
    assert config == SchemaConfig()
    assert config.version == ""
    assert config.labels == DEFAULT_LABELS
    assert not config.require_actor


def test_every_key_of_a_schema_is_read(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        "work_item_schemas:\n"
        "  bug:\n"
        "    lifecycle: AUTO_REOPEN\n"
        "    default_traits: [t]\n"
        "    notes:\n"
        "      - {key: b, role: work}\n"
        "      - {key: a, role: queue, required: true, description: D, guidance: G, skill: S}\n"
        "  other: {}\n"
        "traits:\n"
        "  t: {notes: [{key: c, role: review, required: true}]}\n"
        "default: other\n"
        "actor_authentication: {enabled: true}\n",
    )
    full = NoteSettings(key="a", role="queue", required=True, description="D", guidance="G", skill="S")
    notes = (NoteSettings(key="b", role="work"), full)
    assert config.schemas == {"bug": Schema(notes, "auto-reopen", ("t",)), "other": Schema()}
    assert config.traits == {"t": (NoteSettings(key="c", role="review", required=True),)}
    assert (config.default, config.require_actor) == ("other", True)


def test_default_traits_apply_to_every_schema(tmp_path: Path) -> None:
    traits = "default_traits: [t, u]\ntraits: {t: {notes: []}, u: {notes: []}, v: {notes: []}}\n"
    config = config_of(tmp_path, traits + "work_item_schemas:\n  a: {default_traits: [v, u]}\n  b: {}\n")
    assert {name: schema.default_traits for name, schema in config.schemas.items()} == {
        "a": ("v", "u", "t"),
        "b": ("t", "u"),
    }
    assert config_of(tmp_path, traits + LEGACY).schemas["feature"].default_traits == ("t", "u")


@pytest.mark.parametrize("spelling", ["auto-reopen", "auto_reopen", "Auto-Reopen", "AUTO_REOPEN"])
def test_lifecycles_ignore_case_and_dashes(tmp_path: Path, spelling: str) -> None:
    config = config_of(tmp_path, f"work_item_schemas:\n  x: {{lifecycle: {spelling}}}\n")
    assert config.schemas["x"].lifecycle == "auto-reopen"


LEGACY = "note_schemas:\n  feature:\n    - {key: old, role: queue, required: true}\n"


def test_the_older_form_is_read_with_lifecycle_auto(tmp_path: Path) -> None:
    config = config_of(tmp_path, LEGACY)
    assert config.schemas == {"feature": Schema((NoteSettings(key="old", role="queue", required=True),))}


@pytest.mark.parametrize(
    ("newer", "names"), [("work_item_schemas:\n  a: {}\n", ["a"]), ("work_item_schemas: {}\n", [])]
)
def test_the_older_form_is_ignored_beside_the_newer(tmp_path: Path, newer: str, names: list[str]) -> None:
    assert list(config_of(tmp_path, LEGACY + newer).schemas) == names


def test_sections_whose_entries_are_commented_out_are_as_if_absent(tmp_path: Path) -> None:
    names = ("work_item_schemas", "traits", "default", "status_labels", "actor_authentication")
    config = config_of(tmp_path, LEGACY + "".join(f"{name}:\n#  x: y\n" for name in names))
    assert list(config.schemas) == ["feature"]
    assert config.labels == DEFAULT_LABELS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("work_item_schemas: {default: {}, a: {}}\n", "default"),
        ("work_item_schemas: {default: {}, a: {}}\ndefault: a\n", "a"),
        ("work_item_schemas: {a: {}}\n", None),
        ("note_schemas: {default: [], b: []}\n", "default"),
        ("note_schemas: {b: []}\ndefault: b\n", "b"),
    ],
)
def test_the_default_schema(tmp_path: Path, text: str, expected: str | None) -> None:
    assert config_of(tmp_path, text).default == expected


def test_configured_labels_replace_all_built_in_ones_except_cancel(tmp_path: Path) -> None:
    config = config_of(tmp_path, "status_labels: {start: doing, hold: waiting, complete: null}\n")
    assert config.labels == {"start": "doing", "hold": "waiting", "cancel": "cancelled"}
    assert config_of(tmp_path, "status_labels: {}\n").labels == {"cancel": "cancelled"}
    assert config_of(tmp_path, "status_labels: {cancel: cancelled}\n").labels == {"cancel": "cancelled"}


# --- errors and their places ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "work_item_schemas:\n  a:\n    lifecycle: sometimes\n",
            ["3: work_item_schemas.a.lifecycle must be one of auto, manual, permanent, auto-reopen, not 'sometimes'"],
        ),
        (
            "work_item_schemas:\n  a:\n    notes:\n      - {key: k, role: terminal}\n      - {key: k2, role: Queue}\n",
            [
                "4: work_item_schemas.a.notes.0.role must be one of queue, work, review, not 'terminal'",
                "5: work_item_schemas.a.notes.1.role must be one of queue, work, review, not 'Queue'",
            ],
        ),
        (
            "work_item_schemas:\n  a:\n    notes:\n      - {role: work}\n      - key: k\n",
            [
                "4: work_item_schemas.a.notes.0 lacks key, which must be 1 to 200 characters of text",
                "5: work_item_schemas.a.notes.1 lacks role, which must be one of queue, work, review",
            ],
        ),
        (
            "work_item_schemas:\n  a:\n    notes:\n      - {key: ' ', role: work, required: yes}\n",
            [
                "4: work_item_schemas.a.notes.0.key must be 1 to 200 characters of text",
                "4: work_item_schemas.a.notes.0.required must be true or false, not 'yes'",
            ],
        ),
        (
            "traits:\n  t:\n    notes:\n      - {key: answer-1, role: work}\n",
            [
                "4: traits.t.notes.0.key must be 1 to 200 characters of text without blanks around them, other than "
                "question-<number> and answer-<number>, not 'answer-1'"
            ],
        ),
        (
            "traits:\n  t: {notes: []}\nwork_item_schemas:\n  a:\n    default_traits:\n      - t\n      - tt\n",
            ["7: work_item_schemas.a.default_traits.1: unknown trait 'tt'; did you mean 't'?"],
        ),
        ("default_traits: [t]\n", ["1: default_traits.0: unknown trait 't'; known: none"]),
        (
            "traits: {t: {notes: []}}\ndefault_traits: [t, t]\n",
            ["2: default_traits.1: the trait 't' is there twice; entry 0 has it too"],
        ),
        (
            "work_item_schemas:\n  a:\n    default_traits: [x]\n",
            ["3: work_item_schemas.a.default_traits.0: unknown trait 'x'; known: none"],
        ),
        (
            "work_item_schemas:\n  a:\n    traits: [x]\n",
            ["3: unknown key 'work_item_schemas.a.traits'; did you mean 'work_item_schemas.a.default_traits'?"],
        ),
        ("work_item_schemas: {feature: {}}\ndefault: featur\n", ["2: default: unknown schema of work_item_schemas"]),
        (LEGACY + "work_item_schemas: {}\ndefault: feature\n", ["5: default: unknown schema of work_item_schemas"]),
        ("note_schemas: {a: []}\ndefault: b\n", ["2: default: unknown schema of note_schemas 'b'; known: a"]),
        (
            "work_item_schemas:\n  a:\n    notes:\n      - {key: k, role: work}\n      - {key: k, role: review}\n",
            ["5: work_item_schemas.a.notes.1: the key 'k' is there twice; entry 0 has it too"],
        ),
        (
            "note_schemas:\n  a:\n    - {key: k, role: work}\n    - {key: k, role: work}\n",
            ["4: note_schemas.a.1: the key 'k' is there twice; entry 0 has it too"],
        ),
        (
            "traits:\n  t:\n    notes:\n      - {key: k, role: work}\n      - {key: k, role: work}\n",
            ["5: traits.t.notes.1: the key 'k' is there twice; entry 0 has it too"],
        ),
        (
            "traits: {t: {notes: []}}\nwork_item_schemas:\n  a: {default_traits: [t, t]}\n",
            ["3: work_item_schemas.a.default_traits.1: the trait 't' is there twice; entry 0 has it too"],
        ),
        ("work_item_schemas:\n  a: {}\n  a: {}\n", ['3: the key is there twice: "a"']),
        ("traits:\n  t: [{key: k, role: work}]\n", ["2: traits.t must be a mapping, not [{"]),
        (
            "traits:\n  t: {resources: [{key: gpu, units: 2}]}\n",
            ["2: traits.t.resources.0.units: the item demands 2 units of gpu, and its capacity is 1"],
        ),
        (
            "work_item_schemas:\n  t: {resources: [{key: a}, {key: a}]}\n",
            ["2: work_item_schemas.t.resources.1: the key 'a' is there twice; entry 0 has it too"],
        ),
        (
            "resources: {a b: 2}\n",
            ["1: a name in resources must be a path of at most 8 names and 200 characters"],
        ),
        (
            "work_item_schemas:\n  'a,b': {}\n",
            ["2: a name in work_item_schemas must be 1 to 200 characters without ','"],
        ),
        ("work_item_schemas:\n  a:\n", ["2: work_item_schemas.a must be a mapping, not None; its keys: lifecycle, "]),
        ("work_item_schemas: [a]\n", ["1: work_item_schemas must be a mapping"]),
        (
            "status_labels:\n  begin: x\n",
            ["2: unknown key 'status_labels.begin'; known: block, cancel, cascade, complete, hold, reopen, resume"],
        ),
        (
            "status_labels:\n  start: ''\n",
            ["2: status_labels.start must be 1 to 200 characters of text or null, not ''"],
        ),
        ("status_labels: {cancel: gone}\n", ["1: status_labels.cancel: must be left out or 'cancelled'"]),
        ("status_labels: {cancel: null}\n", ["1: status_labels.cancel: must be left out or 'cancelled'"]),
        (
            "actor_authentication: {enabled: 'yes'}\n",
            ["1: actor_authentication.enabled must be true or false, not 'yes'"],
        ),
        ("auditing: {enabled: true}\n", ["1: unknown setting 'auditing'; it is now called 'actor_authentication'"]),
    ],
)
def test_an_invalid_section_prevents_the_start_and_names_the_place(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    problems = problems_of(tmp_path, text)
    assert len(problems) == len(expected), problems
    for problem, words in zip(problems, expected, strict=True):
        assert problem.startswith(words)


def test_problems_of_all_sections_are_reported_together_without_follow_up_errors(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        "traits: {t: 3}\n"  # so references to t cannot be checked
        "work_item_schemas:\n  a: {default_traits: [t]}\n"
        "default: b\n"
        "status_labels: {nope: x}\n"
        "port: x\n",
    )
    assert [problem.split(":")[0] for problem in problems] == ["1", "5", "6", "4"]


def test_names_and_notes_are_bounded(tmp_path: Path) -> None:
    many = "".join(f"  t{n}: {{}}\n" for n in range(1001))
    assert problems_of(tmp_path, "work_item_schemas:\n" + many) == [
        "1: work_item_schemas may have at most 1000 entries"
    ]
    notes = "".join(f"      - {{key: k{n}, role: work}}\n" for n in range(101))
    assert problems_of(tmp_path, "work_item_schemas:\n  a:\n    notes:\n" + notes)[0].startswith(
        "3: work_item_schemas.a.notes must be a list of at most 100 notes"
    )


async def test_the_largest_configuration_can_be_installed(store: Store, project: str) -> None:
    notes = [{"key": f"k{n}", "role": "queue", "required": True} for n in range(100)]
    traits: Json = {f"t{n}": {"notes": []} for n in range(1000)}
    schemas = {f"s{n}": {"notes": notes, "default_traits": list(traits)[:100]} for n in range(1000)}
    tools = client_of(store, project, work_item_schemas=schemas, traits=traits)
    refused = await tools.advance(await tools.add(type="s999"), "start")
    assert [note["key"] for note in refused["missingNotes"]] == [note["key"] for note in notes]


# --- enforcement by the tools -----------------------------------------------------------------

pytestmark = pytest.mark.anyio


async def test_labels_follow_the_file(store: Store, project: str) -> None:
    tools = client_of(
        store, project, status_labels={"start": "doing", "block": None, "reopen": "again", "cascade": "all"}
    )

    async def label(item: str) -> str | None:
        found: str | None = (await tools.get(item)).get("statusLabel")
        return found

    parent = await tools.add()
    item = await tools.add(parentId=parent)
    await tools.move(item, "start")
    assert (await label(item), await label(parent)) == ("doing", "doing")
    await tools.move(item, "block")
    assert await label(item) == "doing"  # entering blocked keeps the current label
    await tools.move(item, "resume", "complete")
    assert (await label(item), await label(parent)) == (None, "all")
    await tools.move(item, "reopen")
    assert await label(item) == "again"
    await tools.move(item, "cancel")
    assert await label(item) == "cancelled"


async def test_a_schema_is_chosen_by_type_then_tags_then_default(store: Store, project: str) -> None:
    schemas = {name: {"notes": [{"key": name, "role": "queue", "required": True}]} for name in ("a", "b", "fallback")}
    tools = client_of(store, project, work_item_schemas=schemas, default="fallback")
    for fields, expected in (
        ({"type": "a", "tags": "b"}, "a"),
        ({"type": "unknown", "tags": "x, b,a"}, "b"),
        ({"tags": "x,y"}, "fallback"),
        ({}, "fallback"),
    ):
        refused = await tools.advance(await tools.add(**fields), "start")
        assert [note["key"] for note in refused["missingNotes"]] == [expected], fields


async def test_unsigned_elements_fail_the_call_if_actors_are_required(store: Store, project: str) -> None:
    open_tools = Client(store, project)
    tools = client_of(store, project, actor_authentication={"enabled": True})
    first, second = await tools.add(), await tools.add()
    signed = {"itemId": first, "trigger": "start", "actor": actor("me")}
    failure = await tools.refusal("advance_item", transitions=[signed, {"itemId": second, "trigger": "start"}])
    assert failure.code == "VALIDATION_ERROR"
    assert failure.message.startswith("transitions[1].actor: is required")
    assert await tools.role(first) == "queue"

    note = {"itemId": first, "key": "k", "role": "queue", "body": "x"}
    unsigned = await tools.refusal("manage_notes", operation="upsert", notes=[note] * 7, actor=actor("me"))
    assert unsigned.message.startswith("notes[0].actor, notes[1].actor, ")
    assert "notes[4].actor and 2 more: is required" in unsigned.message
    assert (await tools("query_notes", operation="list", itemId=first))["total"] == 0

    written = await tools("manage_notes", operation="upsert", notes=[{**note, "actor": actor("me")}])
    assert written["notes"][0]["actor"]["id"] == "me"
    assert (await tools("advance_item", transitions=[signed]))["summary"]["succeeded"] == 1
    # Deleting notes and the other tools do not need one; without the rule nothing does.
    assert (await tools("manage_notes", operation="delete", itemId=first))["deleted"] == 1
    assert (await open_tools.advance(second, "start"))["applied"]


async def test_a_malformed_actor_is_still_rejected(store: Store, project: str) -> None:
    tools = client_of(store, project, actor_authentication={"enabled": True})
    result = await tools.advance(await tools.add(), "start", actor={"id": " ", "kind": "user"})
    assert not result["applied"]
    assert "actor.id" in result["error"]


# --- one version for a whole call -------------------------------------------------------------


class Answer(msgspec.Struct):
    versions: list[str]


def named(name: str) -> SchemaConfig:
    return SchemaConfig(schemas={name: Schema()})


async def test_a_call_uses_one_version_despite_a_reload() -> None:
    source = SchemaSource(named("old"))
    halfway, go_on = asyncio.Event(), asyncio.Event()

    async def handler(_call: Call, _arguments: Any) -> Answer:
        seen = [source.current]
        halfway.set()
        await go_on.wait()
        seen.append(source.current)
        return Answer([config.version for config in seen])

    steady = source.steady(handler)

    async def call() -> msgspec.Struct:
        return await steady(Call("p"), None)

    early = asyncio.create_task(call())
    await halfway.wait()
    source.current = named("new")
    late = asyncio.create_task(call())
    go_on.set()
    assert await early == Answer([named("old").version] * 2)
    assert await late == Answer([named("new").version] * 2)
    assert source.current == named("new")


async def test_a_reload_applies_to_later_calls(store: Store, project: str) -> None:
    tools = Client(store, project)
    first, second = await tools.add(type="bug"), await tools.add(type="bug")
    await tools.move(first, "start")
    why = {"key": "why", "role": "queue", "required": True}
    tools.configure(msgspec.convert({"work_item_schemas": {"bug": {"notes": [why]}}}, Settings))
    refused = await tools.advance(second, "start")
    assert [note["key"] for note in refused["missingNotes"]] == ["why"]
    tools.configure(msgspec.convert({"actor_authentication": {"enabled": True}}, Settings))
    assert (await tools.refusal("advance_item", transitions=[{"itemId": second, "trigger": "start"}])).code
    tools.configure(Settings())
    assert (await tools.advance(second, "start"))["applied"]


# --- scripts and Python resolve alike ---------------------------------------------------------

NAMES = ("bug", "task", "Epic 7", "default")
KEYS = ("a", "b", "c", "d")
TRAITS = ("t1", "t2", "t 3")


def some(random: Random, names: Sequence[str], most: int) -> list[str]:
    return random.sample(names, random.randint(0, min(most, len(names))))


def random_notes(random: Random) -> list[Json]:
    return [
        {"key": key, "role": random.choice(PHASES), "required": random.random() < 0.7} for key in some(random, KEYS, 3)
    ]


def random_config(random: Random) -> Json:
    traits = {name: {"notes": random_notes(random)} for name in some(random, TRAITS, 3)}
    schemas = {
        name: {"notes": random_notes(random), "default_traits": some(random, list(traits), 2)}
        for name in some(random, NAMES, 4)
    }
    default = {"default": random.choice(list(schemas))} if schemas and random.random() < 0.3 else {}
    everywhere = {"default_traits": some(random, list(traits), 2)} if random.random() < 0.5 else {}
    return {"work_item_schemas": schemas, "traits": traits, **default, **everywhere}


def random_item(random: Random, known: Collection[str]) -> Json:
    """Its traits are configured ones, or any if none is."""
    fields = {
        "type": random.choice([*NAMES, "unknown"]),
        "tags": ",".join(some(random, ["bug", " task", "default ", "x"], 3)),
        "traits": ",".join(random.sample([*known, *(f" {name} " for name in known)] or ["nobody"], k=1 + bool(known))),
        "role": random.choice(PHASES),
    }
    return {name: value for name, value in fields.items() if random.random() < 0.8}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def test_scripts_and_python_resolve_the_same_schema(redis_url: str, project: str, runner: asyncio.Runner) -> None:
    """Gates and review phases of random items under random configurations."""
    store = Store(redis_url, timeout_ms=5000)
    runner.run(store.open())

    seen: Counter[str] = Counter()

    @hypothesis.settings(max_examples=60)
    @given(st.randoms(use_true_random=True))
    def check(random: Random) -> None:
        sections = random_config(random)
        item = random_item(random, sections["traits"])
        filled, trigger = set(some(random, KEYS, 3)), random.choice(["start", "complete"])
        settings = msgspec.convert(sections, Settings)
        result = runner.run(advanced(Client(store, project, settings), item, filled, trigger))
        role = item.get("role", "queue")
        traits = [name.strip() for name in item.get("traits", "").split(",")]
        schema = schema_config(settings).resolve(item.get("type"), item.get("tags"), traits)
        missing = [
            note.key
            for note in (schema.notes if schema else ())
            if note.required and note.key not in filled and (trigger == "complete" or note.role == role)
        ]
        assert [note["key"] for note in result.get("missingNotes", [])] == missing
        assert result["applied"] is (not missing)
        seen["blocked" if missing else "applied"] += 1
        seen["with traits"] += schema is not None and any(name in sections["traits"] for name in traits)
        if not missing:
            review = schema is not None and schema.has_review
            after = {"queue": "work", "work": "review" if review else "terminal", "review": "terminal"}
            assert result["newRole"] == ("terminal" if trigger == "complete" else after[role])

    try:
        check()
    finally:
        runner.run(store.close())
    assert min(seen["blocked"], seen["applied"], seen["with traits"]) >= 10, seen


async def advanced(tools: Client, item: Json, filled: set[str], trigger: str) -> Json:
    created = await tools.add(**item)
    blank = [{"itemId": created, "key": key, "role": "queue", "body": "  "} for key in KEYS if key not in filled]
    full = [{"itemId": created, "key": key, "role": "work", "body": "done"} for key in sorted(filled)]
    await tools("manage_notes", operation="upsert", notes=blank + full)
    return await tools.advance(created, trigger)
