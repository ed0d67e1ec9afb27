"""The section ``gateway``: includes, inheritance, and reported mistakes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.processes.gateway_settings import findings
from coordinator.processes.sound import sound
from coordinator.settings import Settings, SettingsError, load_settings
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.toolsets.gateway.rules.bundle import packed, unpacked
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, ImportedTool, LeftOut, ServerTools
from coordinator.toolsets.gateway.rules.resolve import resolved
from tests.gateway.lab import Json, section, states
from tests.support.fleets import fleet_command


def written(directory: Path, **files: str) -> Path:
    """Files of a configuration; the first is the one to load."""
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)
    return directory / f"{next(iter(files))}.yaml"


def test_files_are_merged_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "here")
    (tmp_path / "parts").mkdir()
    file = written(
        tmp_path,
        main="""
gateway:
  version: "1.0.0"
  include: [parts/one.yaml, "parts/${PLACE}.yaml"]
  workflows:
    w: {title: "on top, ${PLACE} and ${NOT_SET_ANYWHERE}", tags: [main]}
  proxy: {expose: [{capability: c, as: e3}]}
""",
    )
    written(
        tmp_path / "parts",
        one="""
workflows:
  w: {title: first, description: from one, tags: [one], initialState: a, states: {a: {terminal: true}}}
capabilities:
  c: {executor: {kind: cli, command: env, env: {TOKEN: "${PLACE}"}}}
proxy: {expose: [{capability: c, as: e1}]}
""",
        here="""
gateway:
  include: deeper.yaml
  proxy: {expose: [{capability: c, as: e2}]}
""",
        deeper="""
workflows: {w: {description: from deeper, maxChainDepth: 7}}
""",
    )
    gateway = load_settings({}, {}, file).settings.gateway
    assert gateway is not None
    workflow = gateway.workflows["w"]
    assert workflow.title == "on top, here and ${NOT_SET_ANYWHERE}"
    assert (workflow.description, workflow.max_chain_depth) == ("from deeper", 7)
    assert workflow.tags == ("one", "main")
    assert [one.id for one in gateway.proxy.expose] == ["e1", "e2", "e3"]
    # Secrets are resolved only by executors.
    executor = gateway.capabilities["c"].executor
    assert executor is not None
    assert executor.env == {"TOKEN": "${PLACE}"}
    assert msgspec.json.decode(msgspec.json.encode(gateway), type=Gateway) == gateway


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"main": "gateway: {version: '1.0.0', include: [nope.yaml]}"}, ["main.yaml:1: cannot read", "nope.yaml"]),
        (
            {"main": "gateway:\n  version: '1.0.0'\n  include: [two.yaml]", "two": "include: [main.yaml]"},
            ["two.yaml:1: the files include each other"],
        ),
        ({"main": "gateway:\n  version: '2.0.0'"}, ["main.yaml:2: gateway.version must be one of 1.0.0"]),
        ({"main": "gateway:\n  workflows: {}"}, ["gateway lacks version"]),
        ({"main": "gateway:\n  version: '1.0.0'\n  stroe: {}"}, ["main.yaml:3: unknown key 'gateway.stroe'"]),
        (
            {
                "main": "gateway:\n  version: '1.0.0'\n  include: two.yaml",
                "two": "workflows:\n  w:\n    initialState: a\n    states:\n      a:\n        terminl: true",
            },
            ["two.yaml:6: unknown key 'gateway.workflows.w.states.a.terminl'; did you mean", "terminal"],
        ),
        (
            {"main": "gateway:\n  version: '1.0.0'\n  capabilities:\n    c:\n      executor: {kind: cli, path: /x}"},
            ["main.yaml:5", "means nothing to kind cli", "kind cli needs either connection or command"],
        ),
        (
            {"main": "gateway:\n  version: '1.0.0'\n  workflows:\n    w: {initialState: a, states: {}}"},
            ["gateway.workflows.w.states must be"],
        ),
        ({"main": "gateway: [1]"}, ["gateway must be a mapping"]),
        ({"main": "gateway: {version: '1.0.0', include: [/dev/zero]}"}, ["main.yaml:1", "it is not a regular file"]),
        ({"main": "gateway: {version: '1.0.0', include: {a: 1}}"}, ["must be a list of files, not a mapping"]),
    ],
)
def test_malformed_sections_are_reported_with_place(tmp_path: Path, files: dict[str, str], says: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, written(tmp_path, **files))
    for part in says:
        assert part in str(caught.value)


NOOP: Json = {"executor": {"kind": "noop"}}
MISTAKES: list[tuple[Json, str]] = [
    ({"workflows": {"w": {"initialState": "x", "states": {"a": {}}}}}, "initialState: unknown state 'x'"),
    ({"workflows": {"w": states(a={"transitions": {"t": {"target": "x"}}})}}, "target: unknown state 'x'"),
    (
        {"workflows": {"w": states(a={"transitions": {"t": {"target": "a", "branches": [
            {"when": {"kind": "role", "role": "r"}, "target": "x"}]}}})}},
        "branches.0.target: unknown state 'x'",
    ),
    ({"workflows": {"w": {**states(a={}), "onTimeout": {"target": "x"}}}}, "onTimeout.target: unknown state 'x'"),
    ({"workflows": {"proxy_default": states(a={})}}, "the workflow name 'proxy_default' is reserved"),
    ({"workflows": {"x": states(a={})}, "capabilities": {"x": NOOP}}, "a workflow and a capability"),
    ({"capabilities": {"a": {"wraps": "b"}, "b": {"wraps": "a"}}}, "wrap each other: a -> b -> a"),
    (
        {"capabilities": {"c500": NOOP, **{f"c{n}": {"wraps": f"c{n + 1}"} for n in range(500)}}},
        "wrap each other more than 100 deep",
    ),
    (
        {"workflows": {"w": states(a={"transitions": {"t": {
            "target": "a", "output": {"x": f"$.output[{'9' * 5000}]"}}}})}},
        "leads anywhere",
    ),
    ({"capabilities": {"a": {"wraps": "nope"}}}, "unknown capability 'nope'"),
    ({"capabilities": {"a": {"executor": {"capability": "a"}}}}, "wrap each other"),
    ({"capabilities": {"a": {"executor": {"kind": "cli", "connection": "c"}}}}, "unknown connection 'c'"),
    (
        {"connections": {"c": {"kind": "rest", "baseUrl": "http://x"}},
         "capabilities": {"a": {"executor": {"kind": "cli", "connection": "c"}}}},
        "is of kind rest, not cli",
    ),
    ({"capabilities": {"a": {"executor": {"kind": "builtin", "tool": "workflow.start"}}}}, "gateway's own tools"),
    ({"capabilities": {"a": {"executor": {"kind": "builtin", "tool": "claim_itm"}}}}, "did you mean 'claim_item'"),
    ({"capabilities": {"a": {"executor": {"kind": "workflow", "definitionId": "w"}}}}, "unknown workflow 'w'"),
    ({"capabilities": {"a": {**NOOP, "inputSchema": {"type": "nope"}}}}, "is no JSON Schema"),
    ({"capabilities": {"a": {**NOOP, "inputSchema": {"type": "string"}}}}, "must describe an object"),
    ({"capabilities": {"a": {**NOOP, "inputSchema": {"$ref": "http://x/y"}}}}, "is no JSON Schema"),
    (
        {"capabilities": {"a": {"executor": {"kind": "noop"}, "guards": [{"kind": "not", "guard": {
            "kind": "expr", "expr": "a and b"}}]}}},
        "guards.0.guard.expr: the expression 'a and b' has 'a'",
    ),
    ({"capabilities": {"a": {"executor": {"kind": "cli", "command": "x", "args": ["$.output.x"]}}}}, "leads nowhere"),
    ({"capabilities": {"a": {"executor": {"kind": "noop", "idempotencyKey": "{id}"}}}}, "unknown variable 'id'"),
    (
        {"workflows": {"w": states(a={"transitions": {"t": {"target": "a", "output": {"x": {"add": [1]}}}}})}},
        "output.x: add needs a list of two operands",
    ),
    ({"proxy": {"import": [{"connection": "nope"}]}}, "unknown connection 'nope'"),
    (
        {"capabilities": {"a": NOOP}, "proxy": {"expose": [{"capability": "a", "as": "b", "reliability": {
            "fallback": {"executors": [{"capability": "nope"}]}}}]}},
        "expose.0.reliability.fallback.executors.0.capability: unknown capability 'nope'",
    ),
    ({"proxy": {"expose": [{"name": "a", "executor": {"kind": "noop"}}] * 2}}, "two capabilities called 'a'"),
    (
        {"capabilities": {"a": NOOP, "b": NOOP}, "proxy": {"expose": [{"capability": "a", "as": "b"}]}},
        "two capabilities called 'b'",
    ),
    (
        {"capabilities": {"a": {"executor": {"kind": "flow", "flow": {"start": {
            "name": "s", "tool": None, "args": {"x": "{{input.x}} {{context.x}}"}, "next": "nope"}}}}}},
        "capabilities.a.executor: flow.start.args.x: {{context.x}} means nothing",
    ),
    (
        {"capabilities": {"a": {"executor": {"kind": "flow", "flow": {"begin": {"name": "s", "tool": None}}}}}},
        'executor: flow: must have a "start" key',
    ),
    (
        {"connections": {"c": {"kind": "mcp", "command": "x"}},
         "proxy": {"import": [{"connection": "c", "prefix": "workflow"}]}},
        "import.0.prefix: the name 'workflow.' looks like one of the gateway's own tools",
    ),
    ({"capabilities": {"gateway.x": {"executor": {"kind": "noop"}}}}, "looks like one of the gateway's own tools"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "says"), MISTAKES)
def test_invalid_sections_are_reported_with_their_place(tmp_path: Path, parts: Json, says: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_bytes(msgspec.json.encode({"gateway": {"version": "1.0.0", **parts}}))
    with pytest.raises(SettingsError) as caught:
        sound(load_settings({}, {}, file))
    assert says in str(caught.value)
    assert f"{file}:1: gateway." in str(caught.value)


WARNINGS: list[tuple[Json, str]] = [
    ({"w": states(a={"terminal": True}, b={"terminal": True})}, "no transition leads to it"),
    ({"w": states(a={"transitions": {"t": {"target": "b"}}}, b={})}, "nothing leads out of it"),
    ({"w": states(a={"onEnter": {"output": {"x": 1}}, "terminal": True})}, "onEnter has no executor"),
    ({"w": {**states(a={"terminal": True}), "timeoutMs": 5}}, "there is no onTimeout"),
    ({"w": {**states(a={"terminal": True}), "onTimeout": {"target": "a"}}}, "there is no timeoutMs"),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "actor": "deterministic"}, "u": {"target": "a"}}})},
        "automatic only where all are deterministic",
    ),
    (
        {"w": states(a={"transitions": {n: {"target": "a", "actor": "deterministic"} for n in "tu"}})},
        "exactly one deterministic transition must be possible",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "executor": {"kind": "workflow", "definitionId": "w"}}}})},
        "starts itself",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "guards": [{"kind": "expr", "expr": "$.no.x == 1"}]}}})},
        "a path leads nowhere",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "executor": {
            "kind": "cli", "command": "x", "args": ["${NOT_SET_ANYWHERE}"]}}}})},
        "NOT_SET_ANYWHERE is not set here",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "executor": {"kind": "flow", "flow": {"start": {
            "name": "s", "tool": "get_next_itm", "args": {"tags": "{{input.tags}}"}, "done": True}}}}}})},
        "transitions.t.executor: flow.start.tool: unknown tool 'get_next_itm'; "
        "did you mean 'get_next_item' or 'get_next_status'?",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "prefill": {"x": ["$.arguments.x"]}}}})},
        "prefill.x.0: '$.arguments.x' leads nowhere: when a link is made",
    ),
    (
        {"w": states(a={"transitions": {"t": {"target": "a", "output": {"x": {"y": "$.output.y"}}}}})},
        "output.x.y: '$.output.y' is written as it is",
    ),
    ({"w": states(a={"transitions": {"t": {"target": "a", "reliability": {}}}})}, "no executor for it to apply to"),
]  # fmt: skip


@pytest.mark.parametrize(("workflows", "says"), WARNINGS)
def test_warnings_are_reported_and_block_nothing(tmp_path: Path, workflows: Json, says: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_bytes(msgspec.json.encode({"gateway": {"version": "1.0.0", "workflows": workflows}}))
    loaded = sound(load_settings({}, {}, file))
    assert [level for level, _ in findings(loaded)] == ["warning"] * len(findings(loaded))
    assert any(says in sentence for _, sentence in findings(loaded)), findings(loaded)


def test_guards_that_are_never_evaluated_are_reported(tmp_path: Path) -> None:
    """Only a transition's own executor inherits the guards of its capability."""
    deploy: Json = {"capability": "deploy"}
    parts: Json = {
        "capabilities": {"deploy": {"executor": {"kind": "noop"}, "guards": [{"kind": "role", "role": "ops"}]}},
        "workflows": {
            "w": states(
                a={
                    "transitions": {
                        "guarded": {"target": "b", "executor": deploy},
                        "insured": {
                            "target": "b",
                            "executor": {"kind": "noop"},
                            "reliability": {"fallback": {"executors": [deploy]}},
                        },
                    }
                },
                b={"onEnter": {"executor": deploy}, "terminal": True},
            )
        },
    }
    file = tmp_path / "fleet.yaml"
    file.write_bytes(msgspec.json.encode({"gateway": {"version": "1.0.0", **parts}}))
    found = findings(sound(load_settings({}, {}, file)))
    assert [level for level, _ in found] == ["warning"] * 2
    assert all("the guards of the capability 'deploy' are not evaluated here" in sentence for _, sentence in found)


def test_a_state_left_by_a_timeout_is_no_dead_end(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    dead_end = states(a={"transitions": {"t": {"target": "b"}}}, b={}, c={"terminal": True})
    workflow = {**dead_end, "timeoutMs": 5, "onTimeout": {"target": "c"}}
    file.write_bytes(msgspec.json.encode({"gateway": {"version": "1.0.0", "workflows": {"w": workflow}}}))
    assert findings(load_settings({}, {}, file)) == []


def test_an_unset_variable_of_a_connection_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    one = {"kind": "rest", "baseUrl": "https://x.example", "headers": {"Authorization": "Bearer ${NOT_SET_ANYWHERE}"}}
    file.write_bytes(msgspec.json.encode({"gateway": {"version": "1.0.0", "connections": {"x": one}}}))
    ((level, sentence),) = findings(sound(load_settings({}, {}, file)))
    assert level == "warning"
    assert sentence.endswith(
        "gateway.connections.x.headers.Authorization: the environment variable NOT_SET_ANYWHERE is not set here"
    )


def test_a_connection_cannot_be_declared_twice(tmp_path: Path) -> None:
    one = {"x": {"kind": "cli", "command": "ls"}}
    file = tmp_path / "fleet.yaml"
    file.write_bytes(msgspec.json.encode({"connections": one, "gateway": {"version": "1.0.0", "connections": one}}))
    with pytest.raises(SettingsError, match="at the top of the settings too"):
        sound(load_settings({}, {}, file))


# --- inheritance ----------------------------------------------------------------------------------

BASE: Json = {
    "title": "Base",
    "description": "What it does.",
    "tags": ["base"],
    "examples": [{"a": 1}],
    "inputSchema": {"type": "object", "properties": {"a": {}}},
    "guards": [{"kind": "role", "role": "base"}],
    "reliability": {"timeoutMs": 1, "retry": {"maxAttempts": 3}},
    "executor": {"kind": "cli", "command": "base"},
}
OWN: Json = {
    "wraps": "base",
    "description": "Another thing.",
    "tags": ["own", "base"],
    "examples": [2],
    "guards": [{"kind": "role", "role": "own"}],
    "reliability": {"timeoutMs": 2},
}


def test_a_capability_inherits_from_what_it_wraps() -> None:
    found = resolved(
        section(capabilities={"base": BASE, "own": OWN, "late": {"wraps": "own", "executor": {"kind": "noop"}}})
    )
    own = found.capabilities["own"]
    assert (own.title, own.description, own.tags, own.examples) == (
        "Base",
        "Another thing.",
        ("base", "own"),
        ({"a": 1}, 2),
    )
    assert own.input_schema == BASE["inputSchema"]
    assert [guard.role for guard in own.guards] == ["base", "own"]
    assert own.reliability is not None
    assert (own.reliability.timeout_ms, own.reliability.retry.max_attempts) == (2, 1)
    assert own.executor.command == "base"
    assert found.capabilities["late"].executor.kind == "noop"
    assert [guard.role for guard in found.capabilities["late"].guards] == ["base", "own"]


def test_a_capability_that_wraps_one_and_executes_another_has_the_guards_of_both() -> None:
    inner = {
        "executor": {"kind": "cli", "command": "inner"}, "guards": [{"kind": "role", "role": "inner"}],
        "reliability": {"timeoutMs": 3},
    }  # fmt: skip
    own = {"wraps": "base", "executor": {"capability": "inner"}, "aliases": ["mine"], "guards": OWN["guards"]}
    found = resolved(
        section(capabilities={"base": {**BASE, "aliases": ["its"]}, "inner": inner, "own": own})
    ).capabilities["own"]
    assert [guard.role for guard in found.guards] == ["base", "inner", "own"]
    assert (found.executor.command, found.title, found.aliases) == ("inner", "Base", ("its", "mine"))
    assert found.input_schema == BASE["inputSchema"]
    assert found.reliability is not None
    assert found.reliability.timeout_ms == 3


def test_an_exposure_adds_to_what_it_exposes() -> None:
    exposed = {
        "capability": "base", "as": "seen", "description": "Shown.", "tags": ["more"], "aliases": ["synonym"],
        "guards": [{"kind": "role", "role": "more"}],
        "reliability": {"timeoutMs": 9, "fallback": {"executors": [{"capability": "base"}]}},
    }  # fmt: skip
    found = resolved(section(capabilities={"base": BASE}, proxy={"expose": [exposed]})).exposed["seen"]
    assert (found.description, found.tags, found.aliases) == ("Shown.", ("base", "more"), ("synonym",))
    assert [guard.role for guard in found.guards] == ["base", "more"]
    assert found.reliability is not None
    assert found.reliability.timeout_ms == 9
    assert found.reliability.fallback is not None
    assert [one.command for one in found.reliability.fallback.executors] == ["base"]


def test_a_transition_takes_over_a_capability() -> None:
    def transition(**more: Any) -> Json:
        return {"target": "a", "executor": {"capability": "base"}, "guards": [{"kind": "role", "role": "mine"}], **more}

    workflow = states(a={"transitions": {
        "plain": transition(), "own": transition(inputSchema={"type": "object"}, reliability={"timeoutMs": 5}),
        "fallback": {"target": "a", "executor": {"kind": "noop"}, "reliability": {
            "fallback": {"executors": [{"capability": "base"}]}}}}})  # fmt: skip
    found = (
        resolved(section(capabilities={"base": BASE}, workflows={"w": workflow})).workflows["w"].states["a"].transitions
    )
    plain = found["plain"]
    assert plain.executor is not None
    assert plain.executor.command == "base"
    assert [guard.role for guard in plain.guards] == ["base", "mine"]
    assert plain.input_schema == BASE["inputSchema"]
    assert plain.reliability is not None
    assert plain.reliability.timeout_ms == 1
    own = found["own"]
    assert own.input_schema == {"type": "object"}
    assert own.reliability is not None
    assert own.reliability.timeout_ms == 5
    fallback = found["fallback"].reliability
    assert fallback is not None
    assert fallback.fallback is not None
    assert fallback.fallback.executors[0].command == "base"


def test_a_bundle_has_all_reachable_definitions() -> None:
    def calling(name: str) -> Json:
        return states(a={"transitions": {"t": {"target": "a", "executor": {"kind": "workflow", "definitionId": name}}}})

    workflows = {"one": calling("two"), "two": calling("three"), "three": calling("one"), "other": states(a={})}
    catalogue = Catalogue(section(workflows=workflows))
    found = catalogue.definition("one")
    assert found is not None
    assert set(found.bundle.definitions) == {"one", "two", "three"}
    assert unpacked(found.text) == found.bundle
    assert catalogue.definition("nope") is None
    # The name of a bundle is that of its content.
    again = packed("one", catalogue.workflows["one"], catalogue.workflows, catalogue.gateway.limits)
    assert again.hash == found.hash
    changed = Catalogue(section(workflows={**workflows, "three": states(a={"terminal": True})})).definition("one")
    assert changed is not None
    assert changed.hash != found.hash


def test_a_pipe_cannot_be_included(tmp_path: Path) -> None:
    """The reader of the configuration would block until somebody writes."""
    os.mkfifo(tmp_path / "two.yaml")
    with pytest.raises(SettingsError, match="it is not a regular file"):
        load_settings({}, {}, written(tmp_path, main="gateway: {version: '1.0.0', include: [two.yaml]}"))


# --- the catalogue --------------------------------------------------------------------------------


def test_workflows_come_first_and_imports_last() -> None:
    gateway = section(
        connections={"srv": {"kind": "mcp", "url": "http://x/mcp"}},
        capabilities={"zeta": {"executor": {"kind": "noop"}}, "alpha": {"executor": {"kind": "noop"}}},
        workflows={"w2": states(a={}), "w1": states(a={})},
        proxy={
            "expose": [{"capability": "zeta", "as": "shown"}, {"capability": "alpha"}],
            "import": [
                {"connection": "srv", "prefix": "s", "exclude": ["no"]},
                {"connection": "srv", "include": ["zeta"]},
            ],
        },
    )
    tools = (ImportedTool("yes"), ImportedTool("no"), ImportedTool("zeta", input_schema={"type": "object"}))
    found = Catalogue(gateway, servers={"srv": ServerTools(tools)})
    assert list(found.items) == ["w2", "w1", "zeta", "alpha", "shown", "s.yes", "s.zeta"]
    assert found.left_out == {
        "srv": [LeftOut("zeta", "something else is called 'zeta'; give the import a prefix, or exclude the tool")]
    }
    down = Catalogue(gateway, servers={"srv": ServerTools(tools, False, "it is gone")})
    assert [name for name, item in down.items.items() if not item.available] == ["s.yes", "s.zeta"]
    never = Catalogue(gateway, servers={"srv": ServerTools((), False, "it is gone")})
    assert never.items["connection:srv"].available is False


def test_tool_names_of_a_server_cannot_do_harm() -> None:
    """They become parts of definitions that instances keep and every process parses."""
    gateway = section(
        connections={"srv": {"kind": "mcp", "url": "http://x/mcp"}},
        proxy={"import": [{"connection": "srv", "prefix": "s"}, {"connection": "srv", "exclude": ["fine-1/x"]}]},
    )
    deep: Json = {}
    for _ in range(300):
        deep = {"properties": {"a": deep}}
    bad = ["", "my tool", "a[b]$", "x" * 300, "\x1b[31m", "a\nb", "\u202egnp"]
    tools = [*map(ImportedTool, bad), ImportedTool("deep", input_schema=deep), ImportedTool("fine-1/x")]
    found = Catalogue(gateway, servers={"srv": ServerTools(tuple(tools))})
    assert list(found.items) == ["s.fine-1/x"]
    assert len(found.left_out["srv"]) == 2 * len(bad) + 2
    packed = found.session("s.fine-1/x")
    assert packed is not None
    assert unpacked(packed.text) == packed.bundle


def test_tool_names_of_a_server_cannot_shadow_the_gateways_own() -> None:
    gateway = section(
        connections={"srv": {"kind": "mcp", "url": "http://x/mcp"}},
        proxy={"import": [{"connection": "srv", "prefix": "s"}, {"connection": "srv"}]},
    )
    found = Catalogue(gateway, servers={"srv": ServerTools((ImportedTool("workflow.submit"),))})
    assert list(found.items) == ["s.workflow.submit"]
    reason = "its name looks like one of the gateway's own tools; give the import a prefix"
    assert found.left_out == {"srv": [LeftOut("workflow.submit", reason)]}


def test_the_listing_can_be_configured() -> None:
    parts: Json = {
        "connections": {"srv": {"kind": "cli", "command": "ls"}},
        "capabilities": {"c": {"executor": {"kind": "noop"}}},
        "workflows": {"w": states(a={})},
        "proxy": {"expose": [{"capability": "c", "as": "e"}]},
    }
    for include, expected in (
        (["workflows"], ["w"]),
        (["proxy", "connections"], ["e", "connection:srv"]),
        (["capabilities"], ["c"]),
    ):
        found = Catalogue(section(**parts, discovery={"include": include}))
        assert list(found.items) == expected
        # Unlisted items can still be started.
        assert found.session("c") is not None


def test_no_section_is_an_empty_catalogue() -> None:
    assert Catalogue(Settings().gateway).items == {}


# --- the command ----------------------------------------------------------------------------------


def test_check_reports_and_counts(tmp_path: Path) -> None:
    good = written(
        tmp_path, good="version: '1.0.0'\nworkflows: {w: {initialState: a, states: {a: {terminal: true}, b: {}}}}"
    )
    done = fleet_command("gateway", "check", str(good))
    assert done.returncode == 0
    assert f"warning: {good}:2: gateway.workflows.w.states.b: no transition leads to it" in done.stdout
    assert "sound: 1 workflow" in done.stdout
    bad = written(tmp_path, bad="gateway: {version: '1.0.0', capabilities: {a: {wraps: b}}}")
    done = fleet_command("gateway", "check", str(bad))
    assert done.returncode == 1
    assert f"error: {bad}:1: gateway.capabilities.a.wraps: unknown capability 'b'" in done.stdout
    none = written(tmp_path, none="port: 1")
    assert "has no section 'gateway'" in fleet_command("gateway", "check", str(none)).stderr
