"""``fleet import`` and ``fleet export``, beside a running fleet."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run as fleet_main
from coordinator.cli.exits import Exit
from coordinator.interchange import importing
from tests.support.fleets import RunningFleet

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("interchange")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0") as running:
        running.wait_ready()
        yield running


@pytest.fixture
def run(fleet: RunningFleet, project: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLEET_DATA_DIR", str(fleet.data_dir))
    monkeypatch.setenv("FLEET_PROJECT", project)

    def run(*words: str) -> tuple[int, str, str]:
        code = fleet_main(words)
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


def test_a_list_of_tasks_there_and_back(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("# Release\n- [ ] Upload \u200d retries #net !high\n  - [x] Child\n")
    text = file.read_text()
    code, out, err = run("import", "--format", "markdown", "--write-ids", "--dry-run", str(file))
    assert (code, out) == (Exit.OK, "3 items would be created, 0 updated, 0 unchanged\n"), err
    assert f"2 tasks of {file} would get an identity" in err
    assert file.read_text() == text
    code, out, err = run("import", "--format", "markdown", "--write-ids", str(file))
    assert f"2 tasks of {file} got an identity" in err
    assert (code, out) == (Exit.OK, "3 items created, 0 updated, 0 unchanged\n"), err
    file.write_text(file.read_text().replace("Upload", "Download"))
    assert run("import", "--format", "markdown", str(file))[1] == "0 items created, 1 updated, 2 unchanged\n"
    code, text, _ = run("export", "--format", "markdown")
    assert "Download \u200d retries #net !high" in text
    file.write_text(text)
    assert run("import", "--format", "markdown", str(file))[1].startswith("0 items created")
    with file.open("a") as more:
        more.write("- [ ] One more\n")
    code, out, err = run("import", "--format", "markdown", str(file))
    assert (code, out.split(",")[0]) == (Exit.OK, "1 item created"), err
    assert "fleet: 1 item created\n" in err


def test_what_a_plan_says_is_imported_kept_and_taken_back(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"

    def write(marks: str) -> str:
        file.write_text(f"- [ ] Upload (after: d) {marks}\n- [ ] Design [x](y: z) f(y: z) (ref: d)\n")
        return run("import", "--format", "markdown", str(file))[1]

    def upload() -> dict[str, object]:
        (found,) = json.loads(run("items", "search", "Upload", "--json")[1])["items"]
        names = ("dueAt", "resources", "budget", "recurs")
        got = json.loads(run("items", "show", found["id"], "--json")[1])["item"]
        return {name: got[name] for name in names if name in got}

    marks = "(due: +4w) (resources: gpu) (budget: cost=2.50, tokens=9, time=90s)"
    assert write(marks) == "2 items created, 0 updated, 0 unchanged; 1 dependency\n"
    assert (
        "fleet: not imported: 1 x what looks like a mark of a task, and stays text: (y: z)"
        in run("import", "--format", "markdown", str(file))[2]
    )
    before = upload()
    assert before.keys() == {"dueAt", "resources", "budget"}
    assert [one["title"] for one in json.loads(run("items", "ready", "--json")[1])["recommendations"]] == [
        "Design [x](y: z) f(y: z)"
    ]
    assert write(f"{marks} #net") == "0 items created, 1 updated, 1 unchanged\n"
    assert upload() == before, "a time from now on is not counted anew"
    file.write_text(run("export", "--format", "markdown")[1])
    assert run("import", "--format", "markdown", str(file))[0] == Exit.OK
    assert upload() == before
    assert write("(budget: tokens=9)").startswith("0 items created")
    assert upload().keys() == {"budget"}
    file.write_text("- [ ] Bad (due: soon)\n")
    code, out, err = run("import", "--format", "markdown", str(file))
    assert code != Exit.OK
    assert out == ""
    assert "line 1: dueAt: 'soon' must be a time with a zone" in err


def test_an_export_is_a_plan_and_an_import(run: Run, project: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first.md", tmp_path / "second.md"
    first.write_text(
        "# Release\n- [ ] Build #ci #x !high (ref: build)\n- [ ] Notes #docs (after: build)\n"
        "  - [x] Ask\n  - [~] Tell\n- [!] Ship (due: 2030-01-31T12:00:00Z) (after: Notes)\n"
    )
    assert run("import", "--format", "markdown", str(first))[0] == Exit.OK
    first.write_text(text := run("export", "--format", "markdown")[1])
    assert run("items", "note", run("items", "search", "Ship")[1].split()[0], "key", "body")[0] == Exit.OK
    code, out, err = run("export", "--format", "markdown")
    assert (code, out, err.endswith("left out are those of 1 item\n")) == (Exit.OK, text, True)
    named = re.compile(r"<!-- fleet:(\S+) -->|(?<=after )[\w, -]+")
    for words in (("items", "plan"), ("import", "--format", "markdown")):
        into = ("--project", f"{project}-{words[0]}")
        code, _, err = run(*words, *into, str(first))
        assert code == Exit.OK, err
        second.write_text(run("export", "--format", "markdown", *into)[1])
        assert named.sub("", second.read_text()) == named.sub("", text)
        assert [len(found.split(",")) for found in re.findall(r"after ([^)]*)", second.read_text())] == [1, 1, 1, 1]
    page = run("items", "plan", "--dry-run", "--project", f"{project}-3", str(second))[1].splitlines()
    assert page == [
        *("Release", "  Build", "  Notes  (after Build)", "    Ask  (done)  (after Build)"),
        *("    Tell  (cancelled)  (after Build)", "  Ship  (blocked)  (after Notes)"),
    ]  # fmt: skip


def test_headings_that_end_with_their_tasks_are_no_failures(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "TODO.md"

    async def last_first(work: Callable[[Any], Awaitable[Any]], values: Iterable[Any]) -> list[Any]:
        return [await work(one) for one in reversed(list(values))][::-1]

    monkeypatch.setattr(importing, "side_by_side", last_first)
    for mark, said in ((" ", "2 items created, 0 updated"), ("x", "0 items created, 2 updated")):
        file.write_text(f"# Release\n- [{mark}] a\n")
        code, out, err = run("import", "--format", "markdown", str(file))
        assert (code, out) == (Exit.OK, f"{said}, 0 unchanged\n"), err


def test_what_needs_something_that_was_refused_waits_for_the_next_import(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"

    def write(cron: str, *more: str) -> tuple[int, str, str]:
        tasks = [f"- [ ] Design (recurs: {cron})", "  - [ ] Draw", *more]
        file.write_text("\n".join([*tasks, "- [ ] Upload (after: Design)", "- [ ] Test"]))
        return run("import", "--format", "markdown", str(file))

    assert write("soon")[:2] == (Exit.FAILED, "2 items created, 0 updated, 0 unchanged\n")
    assert "Draw" in (said := write("soon", "- [ ] Other")[2])
    assert "what it is part of was refused" in said
    ready = json.loads(run("items", "ready", "--json")[1])["recommendations"]
    assert {one["title"] for one in ready} == {"Test", "Other"}
    assert write("@daily")[:2] == (Exit.OK, "2 items created, 1 updated, 1 unchanged; 1 dependency\n")
    assert " Draw" in run("export", "--format", "markdown")[1].split("Design")[1].splitlines()[1]
    ready = json.loads(run("items", "ready", "--json")[1])["recommendations"]
    assert "Upload" not in {one["title"] for one in ready}
    assert write("soon")[0] == Exit.FAILED
    assert write("@daily")[0] == Exit.OK


def test_a_file_without_items_is_told_and_cancels_nothing(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("- [ ] a\n")
    assert run("import", "--format", "markdown", str(file))[0] == Exit.OK
    file.write_text("# Plan\n\nLater.\n")
    code, _, err = run("import", "--format", "markdown", str(file))
    assert code == Exit.OK
    assert "there are no items in it, such as '- [ ] text'" in err
    code, out, err = run("import", "--format", "markdown", "--close-missing", str(file))
    assert (code, out) == (Exit.USAGE, "")
    assert "would cancel all" in err


def test_what_another_source_would_cancel_is_named_with_the_way_out(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "TODO.md", tmp_path / "OTHER.md"
    one.write_text("- [ ] Write the page\n")
    other.write_text("- [ ] Another\n")
    assert run("import", "--format", "markdown", str(one))[0] == Exit.OK
    words = ("import", "--format", "markdown", "--close-missing", str(other))
    code, out, err = run(*words, "--dry-run")
    assert (code, out) == (Exit.OK, "1 item would be created, 0 updated, 0 unchanged, 1 would be cancelled\n")
    assert "not in the source markdown any more, so they would be cancelled" in err
    assert "--source" in err
    assert ": Write the page (" in err
    code, out, err = run(*words, "--source", "other")
    assert (code, out, "--source" in err) == (Exit.OK, "1 item created, 0 updated, 0 unchanged\n", False)
    item = run("items", "search", "Write")[1].split()[0]
    assert run("items", "claim", item)[0] == Exit.OK
    one.write_text("- [ ] Next\n")
    err = run("import", "--format", "markdown", "--close-missing", str(one))[2]
    assert "because agents hold them: Write the page (" in err


def test_headings_are_no_work(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("# Roadmap\n\n## Phase 1\n- [ ] Task A\n- [ ] Task B\n")
    assert run("import", "--format", "markdown", str(file))[0] == Exit.OK
    found = json.loads(run("items", "ready", "--json")[1])["recommendations"]
    assert [one["title"] for one in found] == ["Task A", "Task B"]
    for agent in ("ann", "bob"):
        assert run("items", "claim", "--agent", agent)[0] == Exit.OK
    assert "nothing is offered" in run("items", "claim", "--agent", "cyd")[2]


def test_everything_comes_below_an_item(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "TODO.md"
    file.write_text("- [ ] a\n  - [ ] b\n    - [ ] c\n")
    above: list[str] = []
    for title in ("top", "middle", "low", "lowest"):
        more = ("--parent", above[-1]) if above else ()
        above.append(json.loads(run("items", "add", title, "--json", *more)[1])["id"])
    code, out, err = run("import", "--format", "markdown", "--parent", above[1][:12], str(file))
    assert (code, out) == (Exit.OK, "3 items created, 0 updated, 0 unchanged\n"), err
    assert "are deeper than 1" in err
    tree = [line.split()[3] for line in run("items", "tree", above[1])[1].splitlines()]
    assert tree == ["middle", "low", "lowest", "a", "b", "c"]
    code, _, err = run("import", "--format", "markdown", "--source", "other", "--parent", above[3], str(file))
    assert code == Exit.USAGE
    assert "--parent" in err


def test_several_of_one_id_stop_the_import(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "issues.jsonl"
    file.write_text('{"id":"a-1","title":"x","status":"closed"}\n{"id":"a-1","title":"x","status":"open"}\n')
    code, out, err = run("import", "--format", "beads", str(file))
    assert (code, out) == (Exit.USAGE, "")
    assert f"{file}: several have one id" in err
    assert run("items", "list")[1] == ""


def test_stdin_statuses_and_dry_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"id": "a-1", "title": "x", "status": "odd", "assignee": "bob"}\n'

    def read(*more: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run("import", "--format", "beads", "-", *more)

    code, out, err = read()
    assert (code, out) == (Exit.USAGE, "")
    assert "'odd' (1)" in err
    code, out, err = read("--unknown", "queue", "--dry-run", "--json")
    found = json.loads(out)
    assert (code, found["created"], found["lost"]) == (Exit.OK, 1, [])
    assert run("items", "list")[1] == ""
    assert read("--unknown", "queue")[0] == Exit.OK
    assert run("items", "search", "x")[1].split()[1:4] == ["queue", "medium", "x"]


def test_a_project_is_written_and_restored(
    run: Run, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("items", "add", "first", "--description", "text")
    item = run("items", "list")[1].split()[0]
    run("items", "note", item, "key", "body")
    run("items", "done", item)
    code, data, err = run("export", "--format", "fleet")
    assert code == Exit.OK, err
    file = tmp_path / "project.jsonl"
    file.write_text(data)
    monkeypatch.setenv("FLEET_PROJECT", f"{project}-2")
    code, out, err = run("import", "--format", "fleet", str(file))
    assert code == Exit.OK, err
    assert out == f"restored into project {project}-2: 1 item, 1 note, 0 dependencies, 1 transition\n"
    page = run("items", "show", item, "--history")[1]
    assert "queue -> terminal  complete" in page
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
    assert "0 items, 0 notes" in run("import", "--format", "fleet", "-")[1]
    file.write_text(data[:-20])
    code, out, err = run("import", "--format", "fleet", str(file))
    assert (code, out) == (Exit.USAGE, "")
    assert "line 5" in err
    log = run("audit-log", "tail", "--project", f"{project}-2")[1].splitlines()
    assert [line.split()[2:5:2] for line in log] == [["allowed", "restore_project"]] * 2 + [
        ["refused", "restore_project"]
    ]
    assert log[2].endswith("  the file is wrong")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("import", "--format", "beads", "/nowhere"), "/nowhere: No such file"),
        (("import", "--format", "beads", "/"), "/: Is a directory"),
        (("import", "--format", "backlog", "-"), "give the folder"),
        (("import", "--format", "backlog", "/"), "no folder of Backlog.md"),
        (("import", "--format", "beads", "--source", "A b", "/"), "--source"),
        (("import", "--format", "beads", "--write-ids", os.devnull), "--write-ids"),
        (("import", "--format", "beads", "--write-ids", "--dry-run", os.devnull), "--write-ids"),
        (("import", "--format", "beads", "--skip-unreadable", os.devnull), "--skip-unreadable"),
        (("import", "--format", "beads", "--map", "/nowhere", os.devnull), "the mapping /nowhere"),
        (("import", "--format", "fleet", "--dry-run", "/"), "without options"),
        (("import", "--format", "beads", "--reason", "x", "/"), "--reason: goes with --format fleet"),
        (("import", "--format", "fleet", "--url", "http://x", "/nowhere"), "works on the store"),
        (("import", "--format", "excel", "/"), "--format"),
        (("export", "--format", "fleet", "--project", "never-written"), "never-written"),
    ],
)
def test_wrong_arguments_are_refused(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (Exit.USAGE, ""), err
    assert said in err
