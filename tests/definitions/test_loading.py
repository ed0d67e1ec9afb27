"""Loading a folder: which files count, how they are assembled, and how the others are reported."""

from __future__ import annotations

import os
import shutil
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.definitions import Definitions, Library, shipped
from tests.support.workflows import Tree, roots

Read = Callable[[], Library]

ODD = {
    "ca53e84ca6b5": {"meta/skills/02-state-management.toon", "work-package/skills/02-pr-review-response.toon"},
    "c28b4df7fc6b": {
        "prism-update/workflow.toon",
        "prism-update/skills/00-diff-upstream.toon",
        "substrate-node-security-audit/skills/00-execute-audit.toon",
    },
}
"""By the version of a set: the files with problems. Other sets have none."""


def places(library: Library, level: str) -> set[str]:
    return {problem.place for problem in library.problems if problem.level == level}


@pytest.mark.parametrize("root", roots(), ids=lambda root: root.name)
def test_every_file_of_every_set_is_used(root: Path) -> None:
    library = Definitions([root], poll_seconds=0).current
    used = {workflow.place for workflow in library.workflows.values()}
    for folder in library.folders.values():
        used |= {skill.place for skill in folder.skills.values()}
        used |= {activity.place for activity in folder.activities.values()}
        used |= {f"{folder.id}/rules.toon"} if folder.rules else set()
    there = {path.relative_to(root).as_posix() for path in root.rglob("*.toon") if "resources" not in path.parts}
    assert used == there
    texts = {text.place for folder in library.folders.values() for text in (*folder.resources, *folder.templates)}
    numbered = {
        path.relative_to(root).as_posix()
        for kind in ("resources", "templates")
        for path in root.rglob(f"{kind}/*-*.*")
        if path.name[0].isdigit()
    }
    assert texts == numbered
    assert places(library, "broken") == set()
    assert places(library, "odd") == ODD.get(library.version, set())


def test_the_examples_show_both_eras() -> None:
    library = Definitions([shipped()], poll_seconds=0).current
    assert list(library.workflows) == ["change", "hotfix", "meta"]
    assert library.workflows["change"].initial_activity == "understand"
    assert library.workflows["meta"].initial_activity is None
    assert library.folders["meta"].rules is not None
    hotfix = library.workflows["hotfix"]
    assert {name: one.owner for name, one in hotfix.activities.items()} == {
        "triage": "hotfix", "review": "hotfix", "build": "change", "verify": "change"
    }  # fmt: skip
    build = hotfix.activities["build"]
    assert build.activity.artifact_prefix == "03"
    assert build.text == (shipped() / "change/activities/03-build.toon").read_text()


def test_names_decide_which_files_count(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a", "b")
    tree.activity("one", "100", "c")
    tree.activity("one", "07", "index")
    tree.write("one/activities/readme.toon", "id: x\n")
    tree.write("one/activities/README.md", "# no activity\n")
    tree.write("one/resources/03-guide.md", "# A guide\n")
    tree.write("one/resources/guide.md", "# no resource\n")
    tree.write("one/templates/01-form.md", "# A form\n")
    tree.write("one/templates/02-form.toon", "id: form\n")
    tree.write("one/README.md", "# One\n")
    tree.write(".git/config", "x")
    library = read()
    assert list(library.workflows["one"].activities) == ["a", "b", "c"]
    assert [text.name for text in library.folders["one"].resources] == ["guide"]
    assert [text.name for text in library.folders["one"].templates] == ["form"]
    assert library.problems == ()


def test_files_are_in_the_order_of_their_numbers(tree: Tree, read: Read) -> None:
    tree.workflow("one", "b")
    tree.activity("one", "10", "c")
    tree.activity("one", "9", "d")
    assert list(read().workflows["one"].activities) == ["b", "d", "c"]


def test_older_places_are_found(tree: Tree, read: Read) -> None:
    inline = "activities[1]:\n  - id: only\n    version: 1.0.0\n    name: Only\n"
    tree.write("flat.toon", "id: flat\nversion: 1.0.0\ntitle: Flat\n" + inline)
    tree.workflow("guided", "a")
    tree.write("guided/guides/01-how.md", "how")
    tree.workflow("both", "a")
    tree.write("both/guides/01-old.md", "old")
    tree.write("both/resources/01-new.md", "new")
    tree.write("moved/workflow.toon", "activitiesDir: parts\nid: moved\nversion: 1.0.0\ntitle: Moved\n")
    tree.write("moved/parts/01-a.toon", "id: a\nversion: 1.0.0\nname: A\n")
    tree.write("both.toon", "id: both\nversion: 1.0.0\ntitle: Both\n")
    library = read()
    assert list(library.workflows) == ["both", "flat", "guided", "moved"]
    only = library.workflows["flat"].activities["only"]
    assert (only.owner, only.text) == ("flat", "id: only\nversion: 1.0.0\nname: Only\n")
    assert [text.name for text in library.folders["guided"].resources] == ["how"]
    assert [text.name for text in library.folders["both"].resources] == ["new"]
    assert list(library.workflows["moved"].activities) == ["a"]
    assert [str(problem) for problem in library.problems] == [
        "both.toon: odd: is not used, because both/workflow.toon is there"
    ]


def test_of_two_resources_with_one_number_the_one_in_toon_comes_first(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    tree.write("one/resources/02-b.md", "markdown")
    tree.write("one/resources/02-z.toon", "id: z\nversion: 2.0.0\n")
    tree.write("one/resources/10-later.md", "---\nid: later\nversion: 3.1.0\n---\n\n  The body.\n\n")
    folder = read().folders["one"]
    assert [text.format for text in folder.resources] == ["toon", "md", "md"]
    first, later = folder.resource("2", 3), folder.resource("10", 3)
    assert first is not None
    assert (first.front.id, first.front.version) == ("z", "2.0.0")
    assert later is not None
    assert later.front == ("later", "3.1.0", "The body.")


def test_a_text_without_front_matter_stays_as_it_is(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    texts = [
        "\n# No front\n\n",
        "---\nid: x\nnever closed\n",
        "a\n---\nid: x\n---\n",
        "---\nA rule, then a title\n-----\nand more\n",
        "---\n| a table |\n|---\n| of one column |\n",
    ]
    for number, text in enumerate(texts):
        tree.write(f"one/resources/{number:02}-x.md", text)
    resources = read().folders["one"].resources
    assert [resource.text for resource in resources] == texts
    assert [resource.front for resource in resources] == [(None, None, text) for text in texts]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nid: a ---\nversion: 1.0.0\n---\nbody\n", ("a ---", "1.0.0", "body")),
        ("---\r\nid: a\r\n---\r\nbody\r\n", ("a", None, "body")),
        ("---\n---\nbody", (None, None, "body")),
        ("---\nid: a\n---", ("a", None, "")),
    ],
)
def test_front_matter_ends_at_a_line_of_its_own(
    tree: Tree, read: Read, text: str, said: tuple[str | None, str | None, str]
) -> None:
    tree.workflow("one", "a")
    tree.write("one/resources/01-x.md", text)
    (resource,) = read().folders["one"].resources
    assert resource.front == said


def test_texts_are_kept_byte_for_byte(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    text = "\ufeffid: s\r\nversion: 1.0.0\r\ncapability: Käse \u2028 \U0001f600\r\n\r\n"
    tree.write("one/skills/00-s.toon", text)
    skill = read().folders["one"].skills["s"]
    assert skill.text == text
    assert skill.skill.capability == "Käse \u2028 \U0001f600"


def test_a_workflow_of_two_roots_is_taken_from_the_first(tree: Tree, tmp_path: Path) -> None:
    other = Tree(tmp_path / "other")
    tree.workflow("one", "a")
    other.workflow("one", "b")
    other.workflow("two", "c")
    library = Definitions([tree.root, other.root], poll_seconds=0).current
    assert {name: list(one.activities) for name, one in library.workflows.items()} == {"one": ["a"], "two": ["c"]}
    (problem,) = library.problems
    assert (problem.level, problem.place) == ("odd", "one")


def test_activities_can_be_borrowed(tree: Tree, read: Read) -> None:
    tree.workflow("lender", "a", "b")
    tree.workflow(
        "one", "own", more="activities[6]: 01-own.toon,lender/02-b.toon,lender/activities/01-a.toon,"
        '"../lender/activities/01-a.toon",lender/skills/01-a.toon,nobody/01-a.toon\n'
    )  # fmt: skip
    library = read()
    assert {name: one.owner for name, one in library.workflows["one"].activities.items()} == {
        "own": "one", "b": "lender", "a": "lender"
    }  # fmt: skip
    assert [problem.message.split("file ")[1].split(",")[0] for problem in library.problems] == [
        "'../lender/activities/01-a.toon'", "'lender/skills/01-a.toon'", "'nobody/01-a.toon'"
    ]  # fmt: skip
    tree.activity("lender", "02", "b", more="notes[1]: changed\n")
    changed = read()
    same = [name for name in ("one", "lender") if changed.workflows[name].digest == library.workflows[name].digest]
    assert same == []


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("one/activities/05-x.toon", b"\xff\xfe", "is not UTF-8 text"),
        ("one/activities/05-x.toon", 'id: "x\n', "is not TOON"),
        pytest.param(
            "one/activities/05-x.toon",
            f"id: x\nsteps[{'9' * 5000}]: 1\n",
            "05-x.toon:2: broken: is not TOON: a length has too many digits",
            id="long length",
        ),
        ("one/activities/05-x.toon", "id: x\nversion: 1.0.0\n", "missing required field `name`"),
        ("one/activities/05-x.toon", "id: x\nversion: 1\nname: X\n", "version: expected `str`, got `int`"),
        ("one/activities/05-x.toon", "id: x\nversion: v1\nname: X\n", "version: expected `str` matching regex"),
        ("one/activities/05-x.toon", "a\n", "must hold keys and values"),
        ("one/activities/05-x.toon", "", "missing required field"),
        (
            "one/activities/05-x.toon",
            "id: x\nversion: 1.0.0\nname: X\nloops[1]:\n  - id: l\n    name: L\n    type: until\n",
            "loops[0].type: invalid enum value 'until'",
        ),
        ("one/activities/05-b ad.toon", "id: x\n", "cannot be an id"),
        ("two/workflow.toon", "id: two\nversion: 1.0.0\ntitle: Two\n", "has no activity that can be used"),
        ("two/workflow.toon", "id: two\n", "missing required field `version`"),
        ("two.toon", "id: two\nversion: 1.0.0\ntitle: Two\nactivities: all\n", "must be a list of activities"),
        (
            "two.toon",
            "id: two\nversion: 1.0.0\ntitle: Two\nactivities[1]{id,version,name}:\n  ../x,1.0.0,X\n",
            "activities[0]: '../x' cannot be an id",
        ),
        (
            "two.toon",
            "id: two\nversion: 1.0.0\ntitle: Two\nactivities[1]{id,version}:\n  x,1.0.0\n",
            "activities[0]: Object missing required field `name`; it is left out",
        ),
        ("t wo/workflow.toon", "id: two\n", "cannot be an id"),
        ("one/skills/05-x.toon", "id: x\nversion: 1.0.0\n", "missing required field `capability`"),
        ("one/rules.toon", "id: x\n", "missing required field `version`"),
        ("one/activities/05-x.toon", "id: ../x\nversion: 1.0.0\nname: X\n", "cannot be an id"),
    ],
)
def test_unusable_files_are_reported_and_left_out(
    tree: Tree, read: Read, place: str, text: str | bytes, said: str
) -> None:
    tree.workflow("one", "a", "b")
    tree.skill("one", "00", "work")
    before = read()
    tree.write(place, text)
    after = read()
    assert [problem.level for problem in after.problems] == ["broken"] * len(after.problems)
    assert said in " ".join(map(str, after.problems))
    assert {problem.place for problem in after.problems} <= {place, place.partition("/")[0]}
    assert list(after.workflows) == ["one"]
    assert after.workflows["one"].activities == before.workflows["one"].activities
    assert after.folders["one"].skills == before.folders["one"].skills


@pytest.mark.parametrize("folder", ["..", "skills", "a/b"])
def test_activities_are_read_only_from_a_folder_of_their_own(tree: Tree, read: Read, folder: str) -> None:
    tree.workflow("one", "a")
    tree.write("one/workflow.toon", f"activitiesDir: {folder}\n" + (tree.root / "one/workflow.toon").read_text())
    library = read()
    assert list(library.workflows["one"].activities) == ["a"]
    (problem,) = library.problems
    assert problem.message == f"activitiesDir: {folder!r} is not a folder directly within the workflow's"


def test_a_folder_without_a_workflow_is_reported_except_meta(tree: Tree, read: Read) -> None:
    tree.skill("meta", "00", "work")
    tree.skill("other", "00", "work")
    assert [str(problem) for problem in read().problems] == ["other: odd: the folder other has no workflow.toon"]


def test_pipes_and_devices_are_not_read(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    os.mkfifo(tree.root / "one/activities/02-pipe.toon")
    (tree.root / "one/activities/03-zero.toon").symlink_to("/dev/zero")
    (tree.root / "one/activities/04-circle.toon").symlink_to("04-circle.toon")
    (tree.root / "circle").symlink_to("circle")
    (tree.root / "one/circle").symlink_to("circle")
    library = read()
    assert list(library.workflows["one"].activities) == ["a"]
    assert places(library, "broken") == {f"one/activities/{name}.toon" for name in ("02-pipe", "03-zero", "04-circle")}


def test_an_oversized_workflow_is_not_read_whole(tree: Tree, read: Read) -> None:
    with tree.write("one/workflow.toon", "id: one\n").open("ab") as file:
        file.truncate(100 * 1024 * 1024)  # a sparse file, which takes no space
    tracemalloc.start()
    try:
        library = read()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [problem.message for problem in library.problems] == ["cannot be read: larger than 4194304 bytes"]
    assert most < 50 * 1024 * 1024


def test_any_file_name_can_be_printed(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    (tree.root / os.fsdecode(b"one/activities/02-\xff.toon")).touch()
    (tree.root / "t\nwo").mkdir()
    reported = [str(problem) for problem in read().problems]
    assert [line.partition(": ")[0] for line in reported] == ["one/activities/02-\\udcff.toon", "t\\nwo"]
    assert all(line.isprintable() and line.encode() for line in reported)


def test_long_lines_of_blanks_are_read_fast(tree: Tree, read: Read) -> None:
    # So many that a backtracking pattern takes half a minute.
    few, blanks = " " * 3_000, " " * 60_000
    tree.workflow("one", "a")
    workflow = tree.root / "one/workflow.toon"
    workflow.write_text(f'activitiesDir:{few}"x"y\n{workflow.read_text()}')
    tree.write("one/resources/01-text.md", f"---\nid: a{blanks}b\n---\nThe text.\n")
    began = time.process_time()
    library = read()
    assert time.process_time() - began < 5.0
    assert [text.front[0] for text in library.folders["one"].resources] == [f"a{blanks}b"]


def test_a_file_that_is_too_large_is_left_out(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    tree.write("one/resources/01-log.md", b"x" * (4 * 1024 * 1024 + 1))
    library = read()
    assert [str(problem) for problem in library.problems] == [
        "one/resources/01-log.md: broken: cannot be read: larger than 4194304 bytes"
    ]
    assert library.folders["one"].resources == ()


@pytest.mark.parametrize("damage", [b"\xff", b"id: x\n      y: 1\n", b""], ids=["bytes", "indent", "empty"])
def test_a_damaged_file_affects_no_others(tmp_path: Path, damage: bytes) -> None:
    root = tmp_path / "copy"
    shutil.copytree(shipped(), root)
    definitions = Definitions([root], poll_seconds=0)
    whole = definitions.current
    for path in sorted(root.rglob("*.toon")):
        place, text = path.relative_to(root).as_posix(), path.read_bytes()
        path.write_bytes(damage)
        left = definitions.refresh()
        path.write_bytes(text)
        if "resources" not in place or damage == b"\xff":
            assert place in places(left, "broken")
        expected = {one.place for one in whole.workflows.values()} - {place}
        assert {one.place for one in left.workflows.values()} == expected, place
        for name, folder in whole.folders.items():
            kept = {one.place for one in folder.skills.values()} - {place}
            assert {one.place for one in left.folders[name].skills.values()} == kept, place
            kept = {one.place for one in folder.activities.values()} - {place}
            assert {one.place for one in left.folders[name].activities.values()} == kept, place


def test_a_root_that_is_no_folder_is_reported(tmp_path: Path) -> None:
    library = Definitions([tmp_path / "nowhere"], poll_seconds=0).current
    (problem,) = library.problems
    assert str(problem) == f"{tmp_path}/nowhere: broken: there is no such folder"
    assert library.workflows == {}
    (tmp_path / "file").touch()
    (problem,) = Definitions([tmp_path / "file"], poll_seconds=0).current.problems
    assert str(problem) == f"{tmp_path}/file: broken: cannot be listed: Not a directory"


def test_ids_that_differ_from_file_names_are_reported(tree: Tree, read: Read) -> None:
    tree.workflow("one", "a")
    tree.write("one/workflow.toon", "id: uno\nversion: 1.0.0\ntitle: One\ninitialActivity: z\n")
    tree.write("one/activities/02-b.toon", "id: bee\nversion: 1.0.0\nname: B\n")
    tree.write("one/activities/03-again.toon", "id: a\nversion: 1.0.0\nname: A\n")
    tree.skill("one", "00", "s")
    tree.skill("one", "01", "s")
    library = read()
    assert list(library.workflows["one"].activities) == ["a", "bee"]
    assert library.folders["one"].skills["s"].index == "00"
    assert "initialActivity: there is no activity 'z'" in [problem.message for problem in library.problems]
    reported = {(problem.level, problem.place) for problem in library.problems}
    assert reported == {
        ("odd", "one/workflow.toon"),
        ("odd", "one/activities/02-b.toon"),
        ("odd", "one/activities/03-again.toon"),
        ("broken", "one/activities/03-again.toon"),
        ("broken", "one/skills/01-s.toon"),
    }
