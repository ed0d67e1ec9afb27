"""``fleet config check``: lists all problems of a file, or explains it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator import cli
from coordinator.settings import config_version, load_settings

Out = pytest.CaptureFixture[str]


def checked(folder: Path, text: str, capsys: Out, code: int = 0) -> list[str]:
    """The lines that the command prints about a file."""
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    assert cli.run(["config", "check", str(path)]) == code
    told = capsys.readouterr()
    assert (told.out if code else told.err) == ""
    return (told.err if code else told.out).splitlines()


def part(lines: list[str], title: str) -> list[str]:
    """The lines of one part, without their indentation."""
    found: list[str] = []
    for line in lines[lines.index(title) + 1 :]:
        if line and not line.startswith("  "):
            break
        found.append(line.removeprefix("  "))
    while found and not found[-1]:
        found.pop()
    return found


def test_connections_are_shown_without_secrets(tmp_path: Path, capsys: Out) -> None:
    lines = checked(
        tmp_path,
        "connections:\n"
        "  web: {kind: mcp, url: 'https://user:hunter2@h/mcp'}\n"
        "  files: {kind: mcp, command: ./serve, args: [--key=hunter2], workingDirectory: tools}\n"
        "  git: {kind: cli, command: git}\n",
        capsys,
    )
    assert part(lines, "Connections") == [
        "web: mcp, over HTTP",
        f"files: mcp, program ./serve, in {tmp_path}/tools",
        "git: cli, program git",
        "`fleet flows tools` asks those of kind mcp for their tools",
    ]
    assert "hunter2" not in "".join(lines)


def test_flows_tools_is_mentioned_only_if_a_connection_has_tools(tmp_path: Path, capsys: Out) -> None:
    text = "connections:\n  git: {kind: cli, command: git}\n  web: {kind: rest, baseUrl: 'https://h/v1'}\n"
    assert part(checked(tmp_path, text, capsys), "Connections") == ["git: cli, program git", "web: rest, over HTTP"]
    assert "Connections" not in checked(tmp_path, "connections: {}\n", capsys)


FULL = """\
port: 9000
redis_url: redis://:hunter2@store
work_item_schemas:
  bug:
    default_traits: [audited, seen]
    notes:
      - {key: repro, role: queue, required: true}
      - {key: hint, role: queue}
      - {key: verdict, role: work, required: true}
  Big Thing: {lifecycle: permanent, resources: [{key: gpu, units: 2}]}
traits:
  seen: {notes: [{key: verdict, role: review, required: true}, {key: look, role: review, required: true}]}
  audited: {notes: [{key: trail, role: work}]}
  spare: {notes: [{key: more, role: queue}]}
  hollow: {notes: []}
  costly: {resources: [{key: model/opus}, {key: repo, mode: shared}]}
default: bug
resources: {gpu: 2}
note_schemas: {old: []}
status_labels: {start: doing, hold: null, cascade: done}
actor_authentication: {enabled: true}
"""


def test_a_valid_file_is_explained(tmp_path: Path, capsys: Out) -> None:
    lines = checked(tmp_path, FULL, capsys)
    path = tmp_path / "fleet.yaml"
    version = config_version(load_settings({}, {}, path).settings)
    assert lines[0] == f"{path} is sound. Version of what a reload can change: {version}"
    assert part(lines, "Settings") == [
        "port = 9000  (line 1)",
        'redis_url = "redis://:***@store"  (line 2)',
        "actor_authentication.enabled = true  (line 21)",
    ]
    assert part(lines, "Schemas") == [
        "(work_item_schemas) An item has the schema that its type names, else the first that one of its tags names, "
        "else 'bug'.",
        "",
        "bug, the default: lifecycle auto, ends when the last of its children has ended",
        "  queue   repro (required), hint",
        "  work    verdict (required), trail (by trait audited)",
        "  review  look (required, by trait seen)",
        "",
        "Big Thing: lifecycle permanent, never ends by itself: a permanent container",
        "  queue   no notes",
        "  work    no notes",
        "  (no review: start takes its items from work to terminal)",
        "  takes   gpu=2",
    ]
    assert part(lines, "Traits") == [
        "seen, for all items of bug and others that name it: review verdict (required), review look (required)",
        "audited, for all items of bug and others that name it: work trail",
        "spare, for items that name it: queue more",
        "hollow, for items that name it: no notes",
        "costly, for items that name it: no notes; takes model/opus, repo=shared",
    ]
    assert part(lines, "Status labels") == [
        "start     doing",
        "cancel    cancelled (always)",
        "cascade   done",
        "none for complete, block, hold, resume, reopen; block and hold then keep the present one, others clear it",
    ]
    assert part(lines, "Actors") == [
        "required: advance_item and manage_notes upsert are refused if any element has no actor",
        "proofs are not verified: every actor is 'unchecked'",
        "policy accept-cached: a proof that verifies decides who acts; without one, actors are who they say they are",
    ]
    assert part(lines, "Notices") == [
        "note_schemas (line 19) is ignored as a whole, because work_item_schemas is there",
        "the note 'verdict' of the trait 'seen' does not count in 'bug', which has its own",
        "only a type can select the schema 'Big Thing': tags are lower-case letters, digits, "
        "'-', '_', '.', ':' and '/', and begin with a letter or digit",
        "no schema has the trait 'spare' by default; it counts for items that name it",
        "the trait 'hollow' has neither notes nor resources, so it does nothing",
    ]


def test_a_file_without_sections_means_the_built_in_rules(tmp_path: Path, capsys: Out) -> None:
    lines = checked(tmp_path, "workers: 3\n", capsys)
    assert part(lines, "Schemas") == ["none: items need no notes, and start takes them from work to terminal"]
    labels = part(lines, "Status labels")
    assert labels[0] == "(built-in)"
    assert "cascade   done" in labels
    assert part(lines, "Actors")[0].startswith("optional: ")
    assert "Traits" not in lines
    assert "Notices" not in lines


def test_implicit_rules_are_explained(tmp_path: Path, capsys: Out) -> None:
    legacy = checked(tmp_path, "note_schemas:\n  default: [{key: a, role: review}]\n  b: []\n", capsys)
    assert part(legacy, "Schemas")[0].startswith("(note_schemas) An item has ")
    assert "default, the default: lifecycle auto, ends when the last of its children has ended" in part(
        legacy, "Schemas"
    )
    assert part(legacy, "Notices") == [
        "the schema 'default' is the default by its name; the setting 'default' could name another"
    ]
    alone = checked(tmp_path, "traits: {t: {notes: [{key: a, role: work}]}}\n", capsys)
    assert part(alone, "Notices") == ["notes of traits have no effect: they add to schemas, and there are none"]
    free = checked(tmp_path, "work_item_schemas: {a: {}}\n", capsys)
    assert part(free, "Schemas")[0].endswith("else it has none and needs no notes.")


def test_all_problems_are_reported_in_file_order_with_exit_code_2(tmp_path: Path, capsys: Out) -> None:
    text = "prt: 1\nwork_item_schemas:\n  bug: {lifecycle: never}\n  task: {notes: [{key: a}]}\ndefault: nothing\n"
    path = tmp_path / "fleet.yaml"
    assert checked(tmp_path, text, capsys, code=2) == [
        "fleet: 3 settings are wrong:",
        f"  {path}:1: unknown setting 'prt'; did you mean 'port'?",
        f"  {path}:3: work_item_schemas.bug.lifecycle must be one of auto, manual, permanent, auto-reopen, not 'never'",
        f"  {path}:4: work_item_schemas.task.notes.0 lacks role, which must be one of queue, work, review",
    ]
    assert checked(tmp_path, "default: x\ntraits: [\n", capsys, code=2)[0].startswith(
        f"fleet: {path}:3: not valid YAML"
    )


def test_flags_and_environment_are_ignored(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_PORT", "7777")
    monkeypatch.setenv("FLEET_CONFIG", "/nowhere.yaml")
    monkeypatch.setenv("FLEET_NONSENSE", "1")
    assert "Settings" not in checked(tmp_path, "", capsys)
    assert cli.run(["config", "check", str(tmp_path / "none.yaml")]) == 2
    assert "cannot read the config file" in capsys.readouterr().err
    assert cli.run(["config", "check"]) == 2
