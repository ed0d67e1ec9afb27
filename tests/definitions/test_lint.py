"""``fleet definitions check``: dangling references, missing parts, unreachable activities."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.cli.exits import Exit
from coordinator.definitions import Library, lint, shipped
from tests.support.fleets import fleet_command
from tests.support.workflows import Tree

Read = Callable[[], Library]

CHECKPOINT = """\
checkpoints[1]:
  - id: c
    name: C
    message: Well?
{more}    options[1]:
      - id: yes
        label: Yes
"""


@pytest.fixture
def sound(tree: Tree) -> Tree:
    tree.workflow("one", "a", "b")
    tree.skill("one", "00", "work")
    return tree


def test_sound_definitions_have_no_problems(sound: Tree, read: Read) -> None:
    assert lint(read()) == ()


@pytest.mark.parametrize(
    ("more", "level", "said"),
    [
        ("transitions[1]{to}:\n  nowhere\n", "wrong", "a transition leads nowhere: there is no activity 'nowhere'"),
        (
            "decisions[1]:\n  - id: d\n    name: D\n    branches[1]:\n      - id: x\n        label: X\n"
            "        transitionTo: nowhere\n",
            "wrong",
            "decision 'd', branch 'x', leads nowhere",
        ),
        (CHECKPOINT.format(more="") + "        effect:\n          transitionTo: nowhere\n", "wrong", "option 'yes'"),
        (CHECKPOINT.format(more="") + "        transitionTo: nowhere\n", "wrong", "option 'yes', leads nowhere"),
        (
            CHECKPOINT.format(more="") + "        effect:\n          skipActivities[1]: nowhere\n",
            "wrong",
            "skips an activity that does not exist: 'nowhere'",
        ),
        (CHECKPOINT.format(more="    defaultOption: no\n"), "wrong", "defaultOption 'no' is none of its options"),
        (CHECKPOINT.format(more="    autoAdvanceMs: 5\n    blocking: false\n"), "wrong", "needs a defaultOption"),
        (CHECKPOINT.format(more="    autoAdvanceMs: 5\n    defaultOption: yes\n"), "odd", "has no effect"),
        ("loops[1]:\n  - id: l\n    name: L\n    type: while\n", "odd", "has no condition"),
        ("loops[2]{id,name,type}:\n  l,L,forEach\n  l,L,forEach\n", "wrong", "loop 'l' is there 2 times"),
        ("estimatedTime: soon\n", "odd", "estimatedTime 'soon' is not a time"),
        ("triggers:\n  workflow: nobody\n", "wrong", "triggers a workflow that does not exist: 'nobody'"),
        ("transitions[2]{to,isDefault}:\n  a,true\n  b,true\n", "odd", "more than one transition is the default"),
    ],
)
def test_problems_of_an_activity(sound: Tree, read: Read, more: str, level: str, said: str) -> None:
    sound.activity("one", "02", "b", more=more)
    (problem,) = lint(read())
    assert (problem.level, problem.place) == (level, "one/activities/02-b.toon")
    assert said in problem.message


def test_missing_skills_checkpoints_and_activities(sound: Tree, read: Read) -> None:
    sound.activity("one", "02", "b", skill="nobody/nothing")
    sound.write(
        "one/activities/03-c.toon",
        "id: c\nversion: 1.0.0\nname: C\nsteps[2]:\n  - id: s\n    name: S\n    skill: absent\n    checkpoint: open\n"
        "  - id: s\n    name: S\n",
    )
    found = [(problem.place.rpartition("/")[2], problem.message) for problem in lint(read())]
    assert found == [
        ("02-b.toon", "there is no skill 'nobody/nothing'"),
        ("03-c.toon", "step 's': there is no skill 'absent'"),
        ("03-c.toon", "step 's': there is no checkpoint 'open'"),
        ("03-c.toon", "step 's' is there 2 times; the id refers to the first one"),
        ("workflow.toon", "activity 'c' is unreachable: nothing leads to it from 'a'"),
    ]


def test_modes_that_name_something_missing(sound: Tree, read: Read) -> None:
    sound.write("one/resources/24-review-mode.md", "How to review.\n")
    sound.workflow(
        "one",
        "a",
        "b",
        more="modes[3]:\n"
        '  - id: quick\n    name: Quick\n    activationVariable: q\n    skipActivities[2]: b,c\n    resource: "9"\n'
        "  - id: plain\n    name: Plain\n    activationVariable: p\n"
        "  - id: review\n    name: Review\n    activationVariable: r\n    resource: resources/24-review-mode.md\n",
    )
    assert [(problem.level, problem.message) for problem in lint(read())] == [
        ("wrong", "mode 'quick': skipActivities names no activity of the workflow: 'c'"),
        ("odd", "mode 'quick': there is no resource '9'"),
    ]


def test_ends_of_workflows_are_not_missing_activities(sound: Tree, read: Read) -> None:
    for target in ("__terminal__", "workflow-end", "end-workflow"):
        sound.activity("one", "02", "b", more=f"transitions[1]{{to}}:\n  {target}\n")
        assert lint(read()) == ()


def test_borrowed_activities_are_checked_where_they_are_used(sound: Tree, read: Read) -> None:
    sound.workflow("two", "x", more="activities[1]: one/01-a.toon\n")
    sound.skill("two", "00", "work")
    found = {str(problem) for problem in lint(read())}
    assert found == {
        "one/activities/01-a.toon: wrong: a transition leads nowhere: there is no activity 'b' (borrowed by two)",
        "two/workflow.toon: wrong: activity 'a' is unreachable: nothing leads to it from 'x'",
    }


def test_the_command_prints_a_summary(sound: Tree) -> None:
    done = fleet_command("definitions", "check", str(sound.root))
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("one 1.0.0 (")
    assert first.endswith("2 activities, 1 skill")
    assert last == "4 files, 1 workflow: no problems"
    assert done.stderr == ""


def test_the_command_fails_on_wrong_and_not_on_odd(sound: Tree, tmp_path: Path) -> None:
    sound.activity("one", "02", "b", more="estimatedTime: soon\n")
    assert fleet_command("definitions", "check", str(sound.root)).returncode == 0
    sound.write("one/skills/01-x.toon", "id: x\n")
    done = fleet_command("definitions", "check", str(sound.root))
    assert done.returncode == Exit.FAILED
    assert "one/skills/01-x.toon: broken: Object missing required field `version`" in done.stdout
    assert done.stdout.endswith("5 files, 1 workflow: 1 broken, 1 odd\n")
    done = fleet_command("definitions", "check", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert done.stderr == f"fleet: {tmp_path}/nowhere is not a directory\n"


@pytest.mark.parametrize("place", ["", "root/one"], ids=["above", "below"])
def test_the_command_requires_the_folder_of_the_workflows(sound: Tree, tmp_path: Path, place: str) -> None:
    done = fleet_command("definitions", "check", str(tmp_path / place))
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert "DIR is the folder above them" in done.stderr


def test_the_examples_are_sound() -> None:
    done = fleet_command("definitions", "check", str(shipped()))
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("no problems\n")


def triggering(tree: Tree, name: str, other: str, *passed: str, more: str = "") -> None:
    """A workflow whose activity runs another one."""
    tree.workflow(name, "a", more=more)
    context = f"    passContext[{len(passed)}]: {','.join(passed)}\n" if passed else ""
    tree.activity(name, "01", "a", more=f"triggers[1]:\n  - workflow: {other}\n{context}")
    tree.skill(name, "00", "work")


def variables(*rows: str) -> str:
    return f"variables[{len(rows)}]{{name,type,required}}:\n" + "".join(f"  {row}\n" for row in rows)


def said(read: Read) -> list[tuple[str, str]]:
    return [(problem.level, problem.message) for problem in lint(read())]


def test_a_complete_trigger_has_no_problems(sound: Tree, read: Read) -> None:
    triggering(sound, "two", "one", "x", more=variables("x,string,false"))
    sound.workflow("one", "a", "b", more=variables("x,string,true"))
    assert said(read) == []


def test_a_trigger_of_a_workflow_that_cannot_begin(sound: Tree, read: Read) -> None:
    triggering(sound, "two", "one")
    (sound.root / "one/workflow.toon").write_text("id: one\nversion: 1.0.0\ntitle: T\n")
    assert said(read) == [("wrong", "triggers workflow 'one', which has no activity to begin with")]


def test_variables_passed_by_a_trigger_are_checked(sound: Tree, read: Read) -> None:
    triggering(sound, "two", "one", "x", "y - why", more=variables("x,string,false"))
    sound.workflow("one", "a", "b", more=variables("x,number,true", "z,number,true", "free,number,false"))
    where = "trigger of 'one': passContext"
    assert said(read) == [
        ("wrong", f"{where} names 'x', which is of type string in 'two' and number in 'one', so it is not passed on"),
        ("odd", f"{where} names 'y', which workflow 'two' does not declare"),
        ("wrong", f"{where} lacks 'z', which 'one' requires"),
    ]


def test_cycles_of_triggers_are_reported_once(sound: Tree, read: Read) -> None:
    for name, other in (("two", "three"), ("three", "four"), ("four", "two"), ("self", "self"), ("outside", "two")):
        triggering(sound, name, other)
    assert said(read) == [
        ("odd", "workflows trigger each other in an endless cycle: four > two > three > four"),
        ("odd", "workflows trigger each other in an endless cycle: self > self"),
    ]
