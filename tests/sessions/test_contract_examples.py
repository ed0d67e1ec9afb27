"""The examples of the contract of sessions, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.definitions import Definitions
from coordinator.settings.sections.workflows import Signing
from coordinator.store.signing_keys import Key, KeyRing
from coordinator.toolsets.sessions.rules import tokens
from coordinator.toolsets.sessions.rules.signer import Signer
from tests.sessions.client import Sessions
from tests.sessions.conftest import Make
from tests.sessions.shown import payload
from tests.support.workflows import Tree

pytestmark = pytest.mark.anyio

MANIFEST = [
    {"step_id": "resolve-target", "output": "Target verified at /path"},
    {"step_id": "initialize-target", "output": "Checked out main, pulled latest"},
]
ACTIVITIES = [
    {"activity_id": "start-work-package", "outcome": "completed", "transition_condition": "default"},
    {
        "activity_id": "design-philosophy",
        "outcome": "completed",
        "transition_condition": "skip_optional_activities == true",
    },
]
START = """\
id: start-work-package
version: 1.0.0
name: Start Work Package
steps[2]:
  - id: resolve-target
    name: Resolve the target
  - id: initialize-target
    name: Initialize the target
checkpoints[1]:
  - id: ready
    name: Ready
    message: Go on?
    options[1]{id,label}:
      proceed,Proceed
transitions[1]{to,isDefault}:
  design-philosophy,true
"""
DESIGN = """\
id: design-philosophy
version: 1.0.0
name: Design Philosophy
transitions[1]:
  - to: plan-prepare
    condition:
      type: simple
      variable: skip_optional_activities
      operator: ==
      value: true
"""


@pytest.fixture
def sessions(make: Make, tmp_path: Any) -> Sessions:
    """A client on definitions that fit the examples."""
    tree = Tree(tmp_path)
    tree.workflow("meta", "begin")
    tree.write("meta/resources/01-shared.md", "Shared\n")
    tree.skill("meta", "00", "work")
    tree.write(
        "work-package/workflow.toon",
        "id: work-package\nversion: 3.7.0\ntitle: Work Package\ninitialActivity: start-work-package\n"
        "skills:\n  primary: meta/work\n",
    )
    tree.write("work-package/activities/01-start-work-package.toon", START)
    tree.write("work-package/activities/02-design-philosophy.toon", DESIGN)
    tree.activity("work-package", "03", "plan-prepare")
    tree.write("work-package/resources/03-own.md", "Own\n")
    return make(definitions=Definitions([tmp_path], 0))


async def test_the_bootstrap_procedure_from_discover_to_trace(sessions: Sessions) -> None:
    """The documented sequence of calls, with its manifests."""
    assert (await sessions("discover")).text.startswith("server: ")
    assert "work-package" in (await sessions("list_workflows")).text
    token = (await sessions("start_session", agent_id="orchestrator", workflow_id="work-package"))["session_token"]
    token = (await sessions("get_skills", session_token=token)).token
    overview = await sessions("get_workflow", session_token=token, summary=True)
    assert "initialActivity: start-work-package" in overview.text
    moved = await sessions("next_activity", session_token=overview.token, activity_id="start-work-package")
    assert set(moved.result) == {"activity_id", "name", "session_token"}
    first = moved.meta["trace_token"]
    token = (await sessions("get_activity", session_token=moved.token)).token
    handle = (await sessions("yield_checkpoint", session_token=token, checkpoint_id="ready"))["checkpoint_handle"]
    answer = await sessions("respond_checkpoint", checkpoint_handle=handle, option_id="proceed")
    assert answer["resolved"] is True
    token = (await sessions("resume_checkpoint", session_token=answer["checkpoint_handle"])).token
    moved = await sessions(
        "next_activity", session_token=token, activity_id="design-philosophy", step_manifest=MANIFEST
    )
    assert moved.meta["validation"] == {"status": "valid", "warnings": []}
    last = await sessions(
        "next_activity",
        session_token=moved.token,
        activity_id="plan-prepare",
        transition_condition="skip_optional_activities == true",
        step_manifest=[],
        activity_manifest=ACTIVITIES,
    )
    assert last.meta["validation"] == {"status": "valid", "warnings": []}
    resolved = await sessions(
        "get_trace", session_token=last.token, trace_tokens=[first, moved.meta["trace_token"], last.meta["trace_token"]]
    )
    assert [event["name"] for event in resolved["events"]] == [
        "start_session", "get_skills", "get_workflow", "next_activity", "get_activity", "yield_checkpoint",
        "respond_checkpoint", "resume_checkpoint", "next_activity",
    ]  # fmt: skip


async def test_meta_of_every_answer_with_a_session(sessions: Sessions) -> None:
    """``_meta``: session_token, trace_token on next_activity only, validation with status and warnings."""
    token = await sessions.start("work-package")
    for name, more, extra in (
        ("get_workflow", {}, set()),
        ("get_skills", {}, set()),
        ("get_skill", {}, set()),
        ("get_resource", {"resource_id": "03"}, set()),
        ("get_trace", {}, set()),
        ("next_activity", {"activity_id": "start-work-package"}, {"trace_token"}),
        ("get_activity", {}, set()),
        ("yield_checkpoint", {"checkpoint_id": "ready"}, set()),
    ):
        answer = await sessions(name, session_token=token, **more)
        assert set(answer.meta) == {"session_token", "validation"} | extra, name
        assert answer.meta["validation"] == {"status": "valid", "warnings": []}
        assert answer.token != token
        token = answer.token
    answer = await sessions("respond_checkpoint", checkpoint_handle=token, option_id="proceed")
    assert set(answer.meta) == {"session_token", "validation"}


async def test_resources_by_bare_index_and_with_prefix(sessions: Sessions) -> None:
    token = await sessions.start("work-package")
    assert (await sessions("get_resource", session_token=token, resource_id="03")).text.endswith("\n\nOwn\n")
    assert (await sessions("get_resource", session_token=token, resource_id="meta/01")).text.endswith("\n\nShared\n")


async def test_the_agent_id_is_replaced_and_the_rest_inherited(sessions: Sessions) -> None:
    """start_session(agent_id, session_token): the workflow is that of the token."""
    token = await sessions.at("work-package", "start-work-package")
    answer = await sessions("start_session", agent_id="worker", session_token=token, workflow_id="meta")
    assert answer["workflow"]["id"] == "work-package"
    assert payload(answer.token)["aid"] == "worker"
    kept = ("wf", "act", "skill", "cond", "v", "sid")
    assert [payload(answer.token)[name] for name in kept] == [payload(token)[name] for name in kept]


async def test_a_given_key_signs_as_documented(make: Make) -> None:
    """Keys may be given: then the signature is HMAC-SHA256 under the first of them, to the bit."""
    secret = bytes(range(32))
    rotated = f"new:{bytes(32).hex()}"
    sessions = make(signing=Signing(keys=(f"k1:{secret.hex()}",)))
    token = await sessions.start("lab")
    assert tokens.decode(token, Signer(KeyRing([Key("k1", secret)]))).wf == "lab"
    # A new key takes over; tokens of the old one stay valid until it is removed.
    both = make(signing=Signing(keys=(rotated, f"k1:{secret.hex()}")))
    answer = await both("get_skills", session_token=token)
    assert (await sessions.refusal("get_skills", session_token=answer.token)).error == "invalid_session_token"
    alone = make(signing=Signing(keys=(rotated,)))
    assert (await alone.refusal("get_skills", session_token=token)).error == "invalid_session_token"
    adopted = await alone("start_session", session_token=token)
    assert adopted["adopted"] is True
    assert (await alone("get_skills", session_token=adopted.token)).token
