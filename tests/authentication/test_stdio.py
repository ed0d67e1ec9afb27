"""``fleet stdio`` for a client with a token."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from coordinator.cli.exits import Exit
from coordinator.processes.authentication import stdio_principal
from coordinator.processes.errors import ProcessProblem
from coordinator.store.embedded.server import find_running
from coordinator.store.link.address import parse
from tests.authentication.support import Authenticators, Tokens
from tests.support.fleets import ROOT, environment, fleet_command, fork_line
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(redis_url: str, project: str, **env: str) -> AsyncIterator[Client]:
    command, *arguments = fork_line("stdio", "--toolset", "items", "--project", project)
    server = StdioServerParameters(
        command=command,
        args=arguments,
        env=environment(FLEET_REDIS_URL=redis_url, **env),
        cwd=str(ROOT),
    )
    async with Client(server, read_timeout_seconds=60) as client:
        yield client


def code(result: Any) -> str:
    assert result.is_error
    found: str = result.structured_content["error"]["code"]
    return found


async def test_the_client_has_the_identity_of_its_token(redis_url: str, project: str, tokens: Tokens) -> None:
    token = tokens.add("agent-1", projects=(project,))
    env = {"FLEET_AUTH_TOKENS": str(tokens.path), "FLEET_TOKEN": token, "DEGRADED_MODE_POLICY": "reject"}
    async with connected(redis_url, project, **env) as client:
        made = await client.call_tool("manage_items", {"operation": "create", "items": [{"title": "x"}]})
        item = made.structured_content["items"][0]["id"]
        wanted = {"requestId": str(uuid.uuid4()), "claims": [{"itemId": item}]}
        claimed = (await client.call_tool("claim_item", wanted)).structured_content
        assert claimed["claimResults"][0]["claimedBy"] == "agent-1"
        other = {**wanted, "actor": {"id": "agent-2", "kind": "user"}}
        assert code(await client.call_tool("claim_item", other)) == "actor_mismatch"
        # Access ends with the token.
        tokens.revoke("agent-1")

        async def refused() -> bool:
            found = await client.call_tool("get_next_item")
            return found.is_error is True and code(found) == "unauthenticated"

        await wait_until(refused, what="the end of the token")
        with pytest.raises(MCPError, match="no such token"):
            await client.list_tools()


async def test_the_client_may_use_permitted_tools(redis_url: str, project: str, tokens: Tokens) -> None:
    token = tokens.add("reader", permissions=("items.read",))
    env = {"FLEET_AUTH_TOKENS": str(tokens.path), "FLEET_TOKEN": f" {token}\n"}
    async with connected(redis_url, project, **env) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "get_next_item" in names
        assert "manage_items" not in names
        made = await client.call_tool("manage_items", {"operation": "create", "items": [{"title": "x"}]})
        assert code(made) == "permission_denied"
        assert not (await client.call_tool("get_next_item")).is_error


@pytest.mark.parametrize(
    ("token", "mode", "words"),
    [
        (None, "required", "FLEET_TOKEN: a bearer token is required"),
        ("wrong", "optional", "FLEET_TOKEN: no such token is known here"),
        ("two words", "required", "FLEET_TOKEN: the Authorization header must be"),
        ("elsewhere", "required", "the token is not for the project 'default'"),
    ],
)
async def test_a_bad_token_is_rejected_at_the_start(
    authenticators: Authenticators, tokens: Tokens, token: str | None, mode: str, words: str
) -> None:
    other = tokens.add("agent-1", projects=("elsewhere",))
    authenticator = authenticators.make(tokens=str(tokens.path), mode=mode)
    with pytest.raises(ProcessProblem, match=words) as caught:
        await stdio_principal(authenticator, {"elsewhere": other}.get(token or "", token), "default")
    assert caught.value.kind == "usage"
    assert other not in str(caught.value)


async def test_a_token_may_be_absent_if_not_required(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add("agent-1")
    authenticator = authenticators.make(tokens=str(tokens.path), mode="optional")
    assert await (await stdio_principal(authenticator, None, "default"))() is None
    caller = await (await stdio_principal(authenticator, token, "default"))()
    assert caller is not None
    assert caller.id == "agent-1"


def test_a_rejection_is_one_sentence(redis_url: str, tokens: Tokens) -> None:
    tokens.add()
    env: Any = {"FLEET_AUTH_TOKENS": str(tokens.path), "FLEET_REDIS_URL": redis_url, "FLEET_TOKEN": "a-secret"}
    done = fleet_command("stdio", **env)
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert done.stderr == "fleet: FLEET_TOKEN: no such token is known here\n"


async def test_child_processes_do_not_inherit_the_token(tmp_path: Path) -> None:
    # Without authentication the token means nothing either.
    async with connected("", "default", FLEET_DATA_DIR=str(tmp_path / "d"), FLEET_TOKEN="a-secret") as client:
        assert not (await client.call_tool("get_next_item")).is_error
        url = find_running(str(tmp_path / "d"))
        assert url is not None
        with redis.Redis(**parse(url).client_options()) as store:
            info: Any = store.info("server")
        environ = await anyio.Path(f"/proc/{info['process_id']}/environ").read_bytes()
        assert b"a-secret" not in environ
