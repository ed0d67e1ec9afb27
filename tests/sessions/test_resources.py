"""The JSON Schemas for bootstrap procedures, over stdio and HTTP, from real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from coordinator.definitions.formats import json_schemas
from coordinator.toolsets.sessions.contract.resources import resources
from tests.sessions.client import Sessions
from tests.support.fleets import ROOT, environment, fork_line

pytestmark = pytest.mark.anyio

ALL = "workflow-server://schemas"


async def read(client: Client, uri: str) -> Any:
    (content,) = (await client.read_resource(uri)).contents
    return json.loads(content.text)  # type: ignore[union-attr]


async def test_agents_read_the_schemas(tmp_path: Path) -> None:
    command, *arguments = fork_line("stdio", "--toolset", "sessions", "--data-dir", str(tmp_path / "data"))
    process = StdioServerParameters(command=command, args=arguments, env=environment(), cwd=str(ROOT))
    async with Client(stdio_client(process), read_timeout_seconds=60) as client:
        listed = [one.uri for one in (await client.list_resources()).resources]
        kinds = ["workflow", "activity", "skill", "condition", "state"]
        assert listed == [ALL, *(f"{ALL}/{kind}" for kind in kinds)]
        together = await read(client, ALL)
        assert list(together) == kinds
        for kind in kinds:
            assert await read(client, f"{ALL}/{kind}") == together[kind]
        assert {kind: together[kind] for kind in kinds[:-1]} == json_schemas()


async def test_the_state_of_a_session_matches_its_schema(sessions: Sessions) -> None:
    started = await sessions("start_session", agent_id="a", workflow_id="lab")
    answer = await sessions("get_workflow_status", session_token=started.token)
    (schema,) = (json.loads(one.text) for one in resources() if one.uri == f"{ALL}/state")
    assert not [error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(answer.result)]
