"""``fleet items plan``, over a running fleet."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run as fleet_main
from coordinator.cli.exits import Exit
from coordinator.client import Unavailable
from coordinator.client.core import Core
from tests.support.fleets import RunningFleet, fleet_command

Run = Callable[..., tuple[int, str, str]]

YAML = """\
title: Release 2
tags: release
children:
  - {ref: build, title: Build, tags: [ci]}
  - {ref: notes, title: Write notes, after: [build], notes: {style: short}}
  - title: Publish
    after: [build, notes]
"""
MARKDOWN = """\
# Release 2
- [ ] Build #ci (ref: build)
- [ ] Write notes (ref: notes) (after: build)
  - [x] Choose a date
- [ ] Publish (after: build, notes)
"""

DEEP = "title: Deep\nchildren: [{title: a, children: [b, c]}]\n"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("plans")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0") as running:
        running.wait_ready()
        yield running


@pytest.fixture
def items(
    fleet: RunningFleet,
    project: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs ``fleet items`` in this process, in a folder of its own: exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLEET_DATA_DIR", str(fleet.data_dir))
    monkeypatch.setenv("FLEET_PROJECT", project)
    monkeypatch.chdir(tmp_path)

    def run(line: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = fleet_main(["items", *shlex.split(line)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def listed(items: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(items("list --all --json")[1])["items"]
    return found


def titles(out: str) -> list[str]:
    """The lines without ids."""
    return [line[10:] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        (
            "release.yaml",
            YAML,
            ["Release 2", "  Build", "  Write notes  (after Build)", "  Publish  (after Build, Write notes)"],
        ),
        (
            "release.md",
            MARKDOWN,
            [
                *("Release 2", "  Build", "  Write notes  (after Build)", "    Choose a date  (done)  (after Build)"),
                "  Publish  (after Build, Write notes)",
            ],
        ),
    ],
)
def test_a_plan_is_made_once(items: Run, name: str, text: str, lines: list[str]) -> None:
    Path(name).write_text(text)
    code, out, err = items(f"plan {name} --dry-run")
    assert (code, out.splitlines()) == (Exit.OK, lines), err
    assert err == f"fleet: {len(lines)} items, {len(lines) - 1} dependencies would be made\n"
    assert listed(items) == []
    code, out, err = items(f"plan {name}")
    assert (code, titles(out)) == (Exit.OK, lines), err
    made = {one["id"][:8] for one in listed(items)}
    assert made == {line[:8] for line in out.splitlines()}
    assert "Build" in items("ready")[1]
    root = out[:8]
    for more in ("", " --dry-run"):
        code, out, err = items(f"plan {name}{more}")
        assert (code, out) == (Exit.OK, f"{root}  was made before from this plan: Release 2\n")
        assert err == "fleet: nothing is made; --again makes another tree of it\n"
    assert len(listed(items)) == len(lines)
    assert titles(items(f"plan {name} --again")[1]) == lines
    assert len(listed(items)) == 2 * len(lines)
    Path(name).write_text(text.replace("Build", "Build all").replace("after: [build", "after: [build"))
    assert items(f"plan {name}")[0] == Exit.OK
    assert len(listed(items)) == 3 * len(lines), "another plan is made"
    assert "x-" not in items("list")[1], "the tag that it is found by is not for people"


@pytest.mark.parametrize("text", [YAML, DEEP], ids=["in one call", "in several"])
def test_of_runs_at_once_one_makes_the_tree(items: Run, fleet: RunningFleet, project: str, text: str) -> None:
    Path("p.yaml").write_text(text)

    def run(_: int) -> tuple[int, str, str]:
        command = ("items", "plan", str(Path.cwd() / "p.yaml"), "--json")
        ran = fleet_command(*command, FLEET_DATA_DIR=str(fleet.data_dir), FLEET_PROJECT=project)
        return ran.returncode, ran.stdout, ran.stderr

    with ThreadPoolExecutor(4) as pool:
        ran = [*pool.map(run, range(4))]
    (root,) = [one["id"] for one in listed(items) if one.get("parentId") is None]
    assert {code for code, _, _ in ran} <= {Exit.OK, Exit.FAILED}, ran
    assert all("is unfinished: another run is making it" in err for code, _, err in ran if code == Exit.FAILED), ran
    told = [json.loads(out) for code, out, _ in ran if code == Exit.OK]
    assert [one["id"] for one in told if one["made"]] == [root]
    assert {one["id"] for one in told} == {root}


def test_a_tree_that_was_left_unfinished_is_named_and_made_anew(items: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.yaml").write_text(DEEP)
    call = Core.call

    async def ended(self: Core, tool: str, arguments: dict[str, Any], **more: Any) -> Any:
        if tool == "advance_item" or arguments.get("operation") == "delete":
            raise Unavailable("unreachable", "the process has ended")
        return await call(self, tool, arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Core, "call", ended)
        assert items("plan p.yaml")[0] != Exit.OK
    (root,) = [one["id"][:8] for one in listed(items) if one.get("parentId") is None]
    assert items("ready")[1] == ""
    for more in ("", " --dry-run"):
        code, out, err = items(f"plan p.yaml{more}")
        assert (code, out) == (Exit.FAILED, "")
        assert err.startswith(f"fleet: {root} of this plan is unfinished: "), err
    code, out, err = items("plan p.yaml --again")
    assert (code, titles(out)) == (Exit.OK, ["Deep", "  a", "    b", "    c"]), err
    assert {one["id"][:8] for one in listed(items)} == {line[:8] for line in out.splitlines()}
    assert items("plan p.yaml")[0] == Exit.OK


def test_it_comes_from_stdin_and_below_an_item(items: Run) -> None:
    assert items("add Above")[0] == Exit.OK
    (above,) = listed(items)
    code, out, err = items(f"plan - --json --parent {above['id'][:6]}", YAML)
    told = json.loads(out)
    assert (code, told["made"], sorted(told["ids"])) == (Exit.OK, True, ["3", "build", "notes", "root"]), err
    assert told["ids"]["root"] == told["id"]
    assert json.loads(items(f"show {told['id']} --json")[1])["item"]["parentId"] == above["id"]
    again = json.loads(items(f"plan - --json --parent {above['id'][:6]}", YAML)[1])
    assert again == {"made": False, "id": told["id"], "ids": {}}
    assert json.loads(items("plan - --json", YAML)[1])["made"], "not below that item it is another tree"
    code, out, err = items("plan - --format markdown", MARKDOWN)
    assert (code, len(out.splitlines())) == (Exit.OK, 5), err


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.yaml", "title: a\nchildren:\n  - {title: b, after: c}\n", "p.yaml:3: plan.children[0].after: there is no "),
        ("p.yaml", "title: a\nchildren:\n- b\n- title: c\n  tagz: x\n", "p.yaml:5: plan.children[1].tagz: is unknown"),
        ("p.yaml", "title: a\nchildren:\n- b\n- tags: x\n", "p.yaml:4: plan.children[1].title: must be a text"),
        ("p.yaml", "title: a\nchildren:\n- b\n- title: c\n  tags: Ä\n", "p.yaml:5: plan.children[1].tags: 'Ä' must"),
        ("p.yaml", "title: a\ntype: [\n", "p.yaml:3: is not YAML: "),
        ("p.yaml", "- a\n", "p.yaml: must be a mapping with title and children"),
        ("p.yaml", "title: a\ncomplexity: 70\n", "p.yaml:2: plan.complexity: "),
        ("p.md", "# a\n\n- [ ] b\n  text\n  - [ ] c\n- [ ] d (after: e)\n", "p.md:6: plan.children[1].after: "),
        ("p.md", "- a\n  - b\n    - c\n      - d\n", "p.md:4: plan" + ".children[0]" * 4 + ": is too deep"),
        ("p.md", "- a\n- b (due: yesterday)\n", "p.md:2: plan.children[1].dueAt: "),
        ("p.md", "- a\n- b (budget: x)\n", "p.md:2: plan.children[1].budget: "),
        # These are too deep for one call.
        ("p.md", "- a\n- b (due: yesterday)\n- c\n  - d\n", "p.md:2: plan.children[1].dueAt: "),
        ("p.yaml", "title: a\nchildren:\n- {title: b, children: [{title: c, tags: Ä}]}\n", "p.yaml:3: plan.child"),
        ("p.yaml", "title: a\ncomplexity: 70\nchildren: [{title: b, children: [c]}]\n", "p.yaml:2: plan.complexity: "),
        ("p.md", "- a\n- [ ] \n", "p.md:2: plan.children[1].title: must be a text that is not blank"),
        ("p.md", "- a\n  1. [x]\n", "p.md:2: plan.children[0].children[0].title: must be a text"),
        ("/dev/zero", None, "/dev/zero: is larger than a plan may be, 10 MB"),
        ("nowhere.md", None, "nowhere.md: No such file or directory"),
        ("p.md", b"\xff", "p.md: is not text"),
    ],
)  # fmt: skip
def test_a_wrong_plan_is_refused_with_its_line_and_nothing_is_made(
    items: Run, name: str, text: str | bytes | None, said: str
) -> None:
    if text is not None:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = items(f"plan {name}")
    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith(f"fleet: {said}"), err
    assert err.count("\n") == 1
    assert listed(items) == []


def test_what_is_on_stdin_is_named_so(items: Run) -> None:
    assert items("plan -", "title: [")[2].startswith("fleet: stdin:1: is not YAML: ")
    assert items("plan -", b"\xff") == (Exit.USAGE, "", "fleet: stdin: is not text in UTF-8\n")
    assert items("plan -", b" " * 10_000_001) == (Exit.USAGE, "", "fleet: stdin: is larger than a plan may be, 10 MB\n")
    assert items("plan - --format markdown", "- a\n- b (after: c)\n")[2].startswith("fleet: stdin:2: plan.children[1].")
