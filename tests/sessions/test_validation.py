"""The warnings of next_activity: their words, their order, and manifests against a plain model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.definitions import Definitions, LoadedWorkflow
from coordinator.toolsets.sessions.contract.arguments import ActivityReport, StepReport
from coordinator.toolsets.sessions.rules import validation
from tests.sessions import lab
from tests.sessions.client import Sessions
from tests.sessions.conftest import Make
from tests.sessions.pending import READS
from tests.support.workflows import Tree

MISSING = "No step_manifest provided for previous activity '{}'"
NOT_READY = "NOT (ready notExists)"
TO_MEASURE = f"'{NOT_READY}' or 'level > 3'"
STOPPED = "level == 0"


@pytest.fixture
def workflow(definitions: Definitions) -> LoadedWorkflow:
    return definitions.current.workflows["lab"]


def steps(*ids: str) -> list[StepReport]:
    return [StepReport(step_id=step, output="done") for step in ids]


def test_ways_out_are_transitions_then_decisions_then_options(workflow: LoadedWorkflow) -> None:
    activity = workflow.activity("prepare")
    assert activity is not None
    assert [tuple(way) for way in validation.ways(activity)] == [
        ("measure", NOT_READY, False),
        ("report", "", True),
        ("measure", "level > 3", False),
        ("report", "checkpoint:go:stop", False),
    ]
    assert activity.targets() == ("measure", "report")


@pytest.mark.parametrize(
    ("act", "target", "warning"),
    [
        ("", "prepare", None),
        ("", "report", "First activity must be 'prepare' but 'report' was requested"),
        ("prepare", "prepare", None),
        ("prepare", "measure", None),
        ("prepare", "report", None),
        ("report", "prepare", None),  # has no exits, so there is no warning
        ("measure", "prepare", "Activity 'prepare' is not a direct transition from 'measure'. Valid transitions: "
         "[report, workflow-end]"),
        ("measure", "workflow-end", None),
        ("gone", "prepare", None),
    ],
)  # fmt: skip
def test_transitions(workflow: LoadedWorkflow, act: str, target: str, warning: str | None) -> None:
    found = list(validation.transition(act, target, workflow))
    assert len(found) == (warning is not None)
    assert not warning or found[0].startswith(warning)


@pytest.mark.parametrize(
    ("act", "target", "claimed", "warning"),
    [
        ("prepare", "measure", NOT_READY, None),
        ("prepare", "measure", "default", f"requires condition {TO_MEASURE} but agent claimed 'default'"),
        ("prepare", "measure", "", f"requires condition {TO_MEASURE} but agent claimed no condition"),
        ("prepare", "measure", "level > 3", None),  # the second of two ways there
        ("prepare", "measure", "level > 4", f"Condition mismatch for transition to 'measure': the workflow has "
         f"{TO_MEASURE} but agent claimed 'level > 4'."),
        ("prepare", "report", "default", None),
        ("prepare", "report", "", None),
        ("prepare", "report", "checkpoint:go:stop", None),
        ("prepare", "report", "x", "is the default (no condition) but agent claimed condition 'x'"),
        ("prepare", "prepare", "x", None),
        ("measure", "workflow-end", STOPPED, None),
        ("measure", "prepare", "x", None),  # not a target: warned of already
        ("report", "prepare", "x", None),
        ("", "prepare", "x", None),
    ],
)  # fmt: skip
def test_conditions(workflow: LoadedWorkflow, act: str, target: str, claimed: str, warning: str | None) -> None:
    found = list(validation.condition(act, target, claimed, workflow))
    assert len(found) == (warning is not None)
    assert not warning or warning in found[0]


@pytest.mark.parametrize(
    ("act", "target", "ends"),
    [
        ("report", "__terminal__", True),
        ("report", "workflow-end", True),
        ("measure", "workflow-end", True),
        ("measure", "__terminal__", True),
        ("measure", "end-workflow", False),
        ("prepare", "__terminal__", False),
        ("report", "measure", False),
        ("report", "nowhere", False),
        ("gone", "__terminal__", False),
    ],
)
def test_ends(workflow: LoadedWorkflow, act: str, target: str, ends: bool) -> None:
    assert validation.ends(act, target, workflow) is ends


CLOSING = """\
id: closing
version: 1.0.0
name: Closing
checkpoints[1]:
  - id: sure
    name: Sure
    message: Is it done?
    options[2]:
      - id: done
        label: It is
      - id: back
        label: It is not
        effect:
          transitionTo: begin
"""


@pytest.mark.parametrize(
    ("act", "ends"),
    [
        ("begin", False),  # its only way is always open
        ("closing", True),
        ("careful", True),
        ("bold", False),
        ("open", False),
        ("end-workflow", True),
    ],
)
def test_an_activity_may_be_the_last_if_every_way_out_is_conditional(tmp_path: Path, act: str, ends: bool) -> None:
    tree = Tree(tmp_path)
    tree.workflow("loop", "begin", "end-workflow")
    way = "transitions[1]:\n  - to: begin\n"
    when = "    condition:\n      type: simple\n      variable: level\n      operator: exists\n"
    tree.activity("loop", "03", "careful", more=way + when)
    tree.activity("loop", "04", "bold", more=way + when + "    isDefault: true\n")
    tree.activity("loop", "06", "open", more=way)
    tree.write("loop/activities/05-closing.toon", CLOSING)
    loop = Definitions([tmp_path], 0).current.workflows["loop"]
    assert validation.ends(act, "__terminal__", loop) is ends
    # An activity of this name is a target, not an end.
    assert validation.ends(act, "end-workflow", loop) is False
    assert (list(validation.transition(act, "__terminal__", loop)) == []) is ends


@pytest.mark.parametrize(
    ("target", "claimed", "warned"),
    [
        ("hub", "x", False),  # stays where it is
        ("plain", "", False),
        ("plain", "default", False),
        ("plain", "x", False),  # there is neither a condition nor a default that "x" could contradict
        ("likely", "", False),
        ("likely", "default", False),
        ("likely", "level exists", False),
        ("either", "x", True),
    ],
)
def test_a_default_may_have_a_condition_and_other_ways_none(
    tmp_path: Path, target: str, claimed: str, warned: bool
) -> None:
    tree = Tree(tmp_path)
    tree.workflow("loop", "begin")
    when = "    condition:\n      type: simple\n      variable: level\n      operator: exists\n"
    tree.activity(
        "loop",
        "02",
        "hub",
        more="transitions[5]:\n"
        f"  - to: hub\n{when}"
        "  - to: plain\n"
        f"  - to: likely\n{when}    isDefault: true\n"
        f"  - to: either\n{when}"
        "  - to: either\n    isDefault: true\n",
    )
    tree.activity("loop", "03", "strict", more=f"transitions[1]:\n  - to: hub\n{when}")
    loop = Definitions([tmp_path], 0).current.workflows["loop"]
    told = "Condition mismatch for transition to 'either': the workflow has 'level exists' but agent claimed 'x'."
    assert list(validation.condition("hub", target, claimed, loop)) == ([told] if warned else [])
    report = ActivityReport(activity_id="strict", outcome="done", transition_condition="default")
    assert len(list(validation.activity_manifest([report], loop))) == 1  # has no default


def test_versions(workflow: LoadedWorkflow) -> None:
    assert list(validation.drift("1.2.3", workflow)) == []
    assert list(validation.drift("", workflow)) == []
    (found,) = validation.drift("1.0.0", workflow)
    assert "session started with v1.0.0 but current definition is v1.2.3" in found


def test_step_manifests_by_example(workflow: LoadedWorkflow) -> None:
    def found(manifest: list[StepReport] | None, act: str = "measure") -> list[str]:
        return list(validation.step_manifest(act, manifest, workflow))

    assert found(steps("one", "two", "three")) == []
    assert found(None, "") == []
    assert found(None)[0].startswith(MISSING.format("measure"))
    assert found(None, "report")[0].startswith(MISSING.format("report"))
    assert found(steps("x"), "report") == []  # has no steps
    assert found(steps("x"), "gone") == ["Cannot validate manifest: activity 'gone' not found"]
    assert found([]) == ["Missing steps in manifest: [one, two, three]"]
    assert found(steps("two", "one", "four")) == [
        "Missing steps in manifest: [three]",
        "Unexpected steps in manifest: [four]",
        "Step order mismatch at position 0: expected 'one' but got 'two'",
        "Step order mismatch at position 1: expected 'two' but got 'one'",
        "Step order mismatch at position 2: expected 'three' but got 'four'",
    ]
    blank = [StepReport(step_id="one", output=" \n"), *steps("two", "three")]
    assert found(blank) == ["Step 'one' has empty output"]
    assert found(steps("clean", "set-up"), "prepare") == []  # steps of loops are not expected


def model(expected: list[str], given: list[tuple[str, str]]) -> list[str]:
    """A plain model of the problems of a manifest."""
    names = [name for name, _ in given]
    missing = [name for name in expected if name not in names]
    unexpected = [name for name in names if name not in expected]
    places = range(min(len(names), len(expected)))
    return [
        *([f"Missing steps in manifest: [{', '.join(missing)}]"] if missing else []),
        *([f"Unexpected steps in manifest: [{', '.join(unexpected)}]"] if unexpected else []),
        *(
            f"Step order mismatch at position {place}: expected '{expected[place]}' but got '{names[place]}'"
            for place in places
            if names[place] != expected[place]
        ),
        *(f"Step '{name}' has empty output" for name, output in given if output.strip() == ""),
    ]


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from(["one", "two", "three", "four", ""]), st.sampled_from(["done", "", " ", "\t"])),
        max_size=6,
    )
)
def test_step_manifest_warnings_match_the_model(lab_workflow: Any, given: list[tuple[str, str]]) -> None:
    manifest = [StepReport(step_id=step, output=output) for step, output in given]
    found = list(validation.step_manifest("measure", manifest, lab_workflow))
    assert found == model(["one", "two", "three"], given)


@pytest.fixture(scope="session")
def lab_workflow(definitions: Definitions) -> LoadedWorkflow:
    return definitions.current.workflows["lab"]


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["prepare", "measure", "report", "other"]),
            st.sampled_from(["completed", " "]),
            st.sampled_from([None, "", "default", NOT_READY, STOPPED, "made up", "checkpoint:go:stop"]),
        ),
        max_size=5,
    )
)
def test_activity_manifest_warnings_match_the_model(
    lab_workflow: Any, given: list[tuple[str, str, str | None]]
) -> None:
    known = {
        "prepare": {NOT_READY, "level > 3", "checkpoint:go:stop", "default"},
        "measure": {STOPPED, "default"},
        "report": None,
    }
    told = [] if given else ["Empty activity_manifest provided"]
    for activity, outcome, condition in given:
        if activity not in known:
            told.append(f"Activity manifest references unknown activity '{activity}'")
        if outcome == " ":
            told.append(f"Activity '{activity}' has empty outcome")
        conditions = known.get(activity)
        if condition and conditions is not None and condition not in conditions:
            told.append(f"Activity '{activity}' claims transition condition '{condition}' not found")
    manifest = [
        ActivityReport(activity_id=activity, outcome=outcome, transition_condition=condition)
        for activity, outcome, condition in given
    ]
    found = list(validation.activity_manifest(manifest, lab_workflow))
    assert len(found) == len(told)
    assert all(one.startswith(words) for one, words in zip(found, told, strict=True))
    assert list(validation.activity_manifest(None, lab_workflow)) == []


@pytest.mark.anyio
async def test_warnings_have_the_documented_order_and_block_nothing(sessions: Sessions) -> None:
    token = await sessions.at("lab", "measure")
    answer = await sessions(
        "next_activity",
        session_token=token,
        activity_id="prepare",
        transition_condition="x",
        step_manifest=[{"step_id": "two", "output": ""}],
        activity_manifest=[{"activity_id": "other", "outcome": ""}],
    )
    assert answer["activity_id"] == "prepare"
    assert answer.meta["validation"]["status"] == "warning"
    assert [warning[:20] for warning in answer.warnings] == [
        "Activity 'prepare' is not"[:20],
        "Missing steps in manifest"[:20],
        "Step order mismatch at"[:20],
        "Step 'two' has empty"[:20],
        "Activity manifest references"[:20],
        "Activity 'other' has empty"[:20],
    ]


@pytest.mark.anyio
async def test_the_number_of_warnings_is_bounded(sessions: Sessions) -> None:
    answer = await sessions(
        "next_activity",
        session_token=await sessions.at("lab", "measure"),
        activity_id="report",
        step_manifest=[{"step_id": f"{number:0300}", "output": ""} for number in range(1000)],
        activity_manifest=[{"activity_id": "y" * 3000, "outcome": ""}] * 1000,
    )
    # Missing and unexpected steps, three in another order, an empty output each; then two for each activity.
    found = 2 + 3 + 1000 + 2000
    assert len(answer.warnings) == validation.MAX_WARNINGS + 1
    assert answer.warnings[-1].startswith(f"{found - validation.MAX_WARNINGS} more warnings are left out")
    assert answer.warnings[0] == "Missing steps in manifest: [one, two, three]"
    listed = len("Unexpected steps in manifest: []") + 1000 * 300 + 999 * 2
    assert answer.warnings[1].endswith(f"... ({listed - validation.MAX_WARNING} more characters)")
    assert sum(map(len, answer.warnings)) < 20_000


def test_the_bounds_of_warnings_are_exact() -> None:
    longest = ["x" * validation.MAX_WARNING] * validation.MAX_WARNINGS
    assert validation.bounded(longest) == longest
    assert validation.bounded([*longest, "y"]) == [*longest, "1 more warnings are left out; fix these first."]


@pytest.mark.anyio
async def test_every_call_warns_of_a_changed_version(make: Make, tmp_path: Path) -> None:
    """Each call is validated against the token's recorded state, including its workflow version."""
    definitions = Definitions([lab.write(tmp_path)], 0)
    sessions = make(definitions=definitions)
    token = await sessions.at("lab", "prepare")
    Tree(tmp_path).write("lab/workflow.toon", lab.LAB.replace("version: 1.2.3", "version: 1.3.0"))
    definitions.refresh()
    (drifted,) = validation.drift("1.2.3", definitions.current.workflows["lab"])

    async def warned(name: str, **arguments: Any) -> str:
        answer = await sessions(name, **arguments)
        assert drifted in answer.warnings, name
        return answer.meta.get("session_token", "")

    for name, more in READS:
        token = await warned(name, session_token=token, **more)
    handle = await warned("yield_checkpoint", session_token=token, checkpoint_id="go")
    await warned("present_checkpoint", checkpoint_handle=handle)
    token = await warned("respond_checkpoint", checkpoint_handle=handle, option_id="proceed")
    token = await warned("resume_checkpoint", session_token=token)
    await warned("next_activity", session_token=token, activity_id="prepare")


@pytest.mark.anyio
async def test_a_call_without_warnings_is_valid(sessions: Sessions) -> None:
    token = await sessions.at("lab", "prepare")
    answer = await sessions(
        "next_activity",
        session_token=token,
        activity_id="report",
        transition_condition="default",
        step_manifest=lab.PREPARED,
        activity_manifest=[{"activity_id": "prepare", "outcome": "completed", "transition_condition": "default"}],
    )
    assert answer.meta["validation"] == {"status": "valid", "warnings": []}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"step_manifest": [{"step_id": "a", "output": "b"}] * 1001}, "step_manifest"),
        ({"activity_manifest": [{"activity_id": "a", "outcome": "b"}] * 1001}, "activity_manifest"),
        ({"transition_condition": "x" * 1001}, "transition_condition"),
        ({"activity_id": ""}, "activity_id"),
        ({"activity_id": "x" * 201}, "activity_id"),
    ],
)
async def test_too_large_arguments_are_rejected_by_name(
    sessions: Sessions, arguments: dict[str, Any], field: str
) -> None:
    token = await sessions.start("lab")
    refused = await sessions.refusal("next_activity", **{"session_token": token, "activity_id": "prepare"} | arguments)
    assert refused.error == "VALIDATION_ERROR"
    assert refused.text.startswith(f"{field}: ")
    assert (await sessions("get_workflow_status", session_token=token))["current_activity"] == "none"
