"""The examples of the gateway's contract, one by one, against a running fleet."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator

import anyio
import pytest
from mcp.client import Client

from coordinator.toolsets.gateway.tools import ORDER
from tests.gateway.fleet import Agent, GatewayFleet, Json, link

WORKFLOW = "wf_a1b2c3d4e5f6"
"""The id in the examples; replaced by the real one."""

CLI = {"kind": "cli", "command": "sh"}
GATEWAY: Json = {
    "version": "1.0.0",
    "workflows": {
        "deploy_pipeline": {
            "title": "Deploy Pipeline",
            "description": "Lint, test, build, and deploy a service.",
            "tags": ["deploy", "pipeline"],
            "inputSchema": {
                "type": "object",
                "required": ["service", "environment"],
                "properties": {"service": {"type": "string"}, "environment": {"enum": ["staging", "production"]}},
            },
            "initialState": "lint",
            "states": {
                "lint": {
                    "transitions": {
                        "run_lint": {
                            "title": "Run linter",
                            "target": "test",
                            "executor": {**CLI, "args": ["-c", "true"]},
                            "output": {"lintPassed": "$.output.success"},
                        }
                    }
                },
                "test": {
                    "transitions": {
                        # Twice: the first run builds what the second one tests.
                        "run_tests": {
                            "title": "Run tests",
                            "target": "test",
                            "executor": {
                                **CLI,
                                "args": ["-c", 'echo "{\\"coverage\\": 87.5, \\"id\\": \\"art_xyz789\\"}"'],
                            },
                            "output": {
                                "testsPassed": "$.output.success",
                                "coverage": "$.output.json.coverage",
                                "artifactId": "$.output.json.id",
                            },
                            "branches": [
                                {
                                    "when": {"kind": "evidence", "requires": [{"kind": "cli_output", "count": 3}]},
                                    "target": "ready_to_deploy",
                                }
                            ],
                        }
                    }
                },
                "ready_to_deploy": {
                    "transitions": {
                        "deploy": {
                            "title": "Deploy to environment",
                            "target": "deployed",
                            "guards": [{"kind": "expr", "expr": "$.context.testsPassed == true"}],
                            "executor": {"kind": "cli", "command": "deploy"},
                            "output": {"deploymentId": "$.output.text"},
                        },
                        "abort": {"title": "Abort deployment", "target": "aborted"},
                    }
                },
                "deployed": {"terminal": True},
                "aborted": {"terminal": True},
            },
        }
    },
    "capabilities": {
        "github.list_issues": {
            "title": "List GitHub issues",
            "description": "List issues from a GitHub repository.",
            "tags": ["github", "issues", "read"],
            "inputSchema": {
                "type": "object",
                "required": ["repo"],
                "properties": {"repo": {"type": "string"}},
                "additionalProperties": False,
            },
            "executor": {**CLI, "args": ["-c", 'echo "[\\"$1\\"]"', "sh", "$.arguments.repo"]},
        }
    },
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    directory = tmp_path_factory.mktemp("examples")
    programs = directory / "bin"
    programs.mkdir()
    deploy = programs / "deploy"
    deploy.write_text("#!/bin/sh\necho dep_abc123\n")
    deploy.chmod(deploy.stat().st_mode | stat.S_IXUSR)
    with GatewayFleet(directory, {"gateway": GATEWAY}, PATH=f"{programs}:{os.environ['PATH']}") as served:
        yield served


@pytest.fixture
def agent(served: GatewayFleet) -> Agent:
    return served.agent()


def as_in_the_example(answer: Json, *beyond: str) -> Json:
    """An answer with the example's id, reduced to the fields of the example."""
    found: Json = json.loads(json.dumps(answer).replace(answer.get("workflowId", WORKFLOW), WORKFLOW))
    return {key: value for key, value in found.items() if key not in beyond}


def ready(agent: Agent) -> Json:
    """An instance in the state of the later examples."""
    at = agent.start("deploy_pipeline", service="payments", environment="staging")
    for name in ("run_lint", "run_tests", "run_tests"):
        at = agent("workflow.submit", **link(at, name))
    return at


START: Json = {"definitionId": "deploy_pipeline", "input": {}}
PIPELINE: Json = {
    "id": "deploy_pipeline",
    "kind": "workflow",
    "title": "Deploy Pipeline",
    "description": "Lint, test, build, and deploy a service.",
    "tags": ["deploy", "pipeline"],
    "links": [{"rel": "start", "method": "workflow.start", "args": START}],
}
ISSUES: Json = {
    "id": "github.list_issues",
    "kind": "capability",
    "title": "List GitHub issues",
    "description": "List issues from a GitHub repository.",
    "tags": ["github", "issues", "read"],
    "links": [
        {
            "rel": "start",
            "method": "workflow.start",
            "args": {"definitionId": "proxy_default", "input": {"capability": "github.list_issues"}},
        }
    ],
}


def test_home(agent: Agent) -> None:
    assert as_in_the_example(agent("gateway.home"), "links") == {"items": [PIPELINE, ISSUES]}


def test_search(agent: Agent) -> None:
    found = as_in_the_example(agent("gateway.search", query="deploy"), "links")
    # By the rules it is 17: the example leaves out the description and the transition's name.
    assert found == {"results": [{"score": 17.0, "item": PIPELINE}]}


def test_describe(agent: Agent) -> None:
    found = agent("gateway.describe", id="github.list_issues")
    (start,) = found["links"]
    assert start["input_schema"] == GATEWAY["capabilities"]["github.list_issues"]["inputSchema"]
    assert found == {**ISSUES, "links": [{**ISSUES["links"][0], "input_schema": start["input_schema"]}]}


def test_start(agent: Agent) -> None:
    answer = agent.start("deploy_pipeline", service="payments", environment="staging")
    assert as_in_the_example(answer) == {
        "workflowId": WORKFLOW,
        "definitionId": "deploy_pipeline",
        "state": "lint",
        "version": 1,
        "context": {},
        "links": [
            {
                "rel": "transition",
                "title": "Run linter",
                "method": "workflow.submit",
                "args": {"workflowId": WORKFLOW, "expectedVersion": 1, "transition": "run_lint", "arguments": {}},
            }
        ],
    }


KNOWN: Json = {"lintPassed": True, "testsPassed": True, "coverage": 87.5, "artifactId": "art_xyz789"}


def test_get(agent: Agent) -> None:
    found = agent.get(ready(agent))
    assert as_in_the_example(found, "evidence") == {
        "workflowId": WORKFLOW,
        "definitionId": "deploy_pipeline",
        "state": "ready_to_deploy",
        "version": 4,
        "context": KNOWN,
        "links": [
            {
                "rel": "transition",
                "title": title,
                "method": "workflow.submit",
                "args": {"workflowId": WORKFLOW, "expectedVersion": 4, "transition": name, "arguments": {}},
            }
            for name, title in (("deploy", "Deploy to environment"), ("abort", "Abort deployment"))
        ],
    }


def test_submit(agent: Agent) -> None:
    at = ready(agent)
    answer = agent(
        "workflow.submit",
        workflowId=at["workflowId"],
        expectedVersion=4,
        transition="deploy",
        arguments={"confirm": True},
    )
    assert as_in_the_example(answer, "evidence") == {
        "workflowId": WORKFLOW,
        "definitionId": "deploy_pipeline",
        "state": "deployed",
        "version": 5,
        "context": {**KNOWN, "deploymentId": "dep_abc123"},
        "terminal": True,
        "links": [],
    }


def test_error(agent: Agent) -> None:
    at = ready(agent)
    refused = agent.refused(
        "workflow.submit", workflowId=at["workflowId"], expectedVersion=3, transition="deploy", arguments={}
    )
    assert as_in_the_example(refused) == {
        "workflowId": WORKFLOW,
        "state": "ready_to_deploy",
        "version": 4,
        "error": {
            "code": "STALE_WORKFLOW_VERSION",
            "message": "Expected workflow version 3, but current version is 4.",
        },
        "links": [{"rel": "self", "method": "workflow.get", "args": {"workflowId": WORKFLOW}}],
    }


def test_explain(agent: Agent) -> None:
    found = as_in_the_example(agent("workflow.explain", definitionId="deploy_pipeline"), "links")
    assert found == {
        "definitionId": "deploy_pipeline",
        "description": "Lint, test, build, and deploy a service.",
        "initialState": "lint",
        "states": {
            "lint": {"transitions": ["run_lint"]},
            "test": {"transitions": ["run_tests"]},
            "ready_to_deploy": {"transitions": ["deploy", "abort"]},
            "deployed": {"terminal": True},
            "aborted": {"terminal": True},
        },
    }


def test_explain_a_transition(agent: Agent) -> None:
    found = as_in_the_example(agent("workflow.explain", definitionId="deploy_pipeline", transition="deploy"), "links")
    assert found == {
        "definitionId": "deploy_pipeline",
        "transition": "deploy",
        "title": "Deploy to environment",
        "target": "deployed",
        "actor": "agent",
        "guards": [{"kind": "expr", "expr": "$.context.testsPassed == true"}],
        "inputSchema": None,
        "executor": {"kind": "cli", "command": "deploy"},
    }


def test_a_capability_is_called_through_the_link_of_its_description(agent: Agent) -> None:
    start = agent("gateway.describe", id="github.list_issues")["links"][0]["args"]
    start["input"]["repo"] = "fleet"
    answer = agent("workflow.start", **start)
    assert answer["context"]["lastResult"]["json"] == ["fleet"]


def test_there_are_exactly_seven_tools(served: GatewayFleet) -> None:
    async def listed() -> list[str]:
        async with Client(f"http://127.0.0.1:{served.fleet.port}/mcp/gateway") as client:
            tools = (await client.list_tools()).tools
            answer = await client.call_tool("gateway.home", {})
            assert answer.structured_content is not None
            # Every link is a valid call.
            for item in answer.structured_content["items"]:
                found = await client.call_tool("gateway.describe", {"id": item["id"]})
                assert not found.is_error
            return [tool.name for tool in tools]

    assert anyio.run(listed) == list(ORDER)
