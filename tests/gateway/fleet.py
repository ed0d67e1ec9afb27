"""A fleet that serves a gateway, and agents that speak plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.authentication.support import Tokens
from tests.support.fleets import MCP_HEADERS, RunningFleet, call_body, once, samples
from tests.transport.rig import meta, modern

Json = dict[str, Any]
R = TypeVar("R")


class Agent:
    """One client with a connection of its own.

    Args:
        token: its bearer token; empty: anonymous.
        agent: whom its header Fleet-Agent names; empty: it has none.
    """

    def __init__(self, port: int, token: str = "", project: str = "default", agent: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        named = {"fleet-agent": agent} if agent else {}
        self._headers = {**MCP_HEADERS, **named, **({"authorization": f"Bearer {token}"} if token else {})}
        self._path = f"/p/{project}/mcp/gateway"

    def reply(self, tool: str, **arguments: Any) -> tuple[Json, bool]:
        """The structured content of an answer, and whether it is a refusal."""
        self._connection.request("POST", self._path, call_body(tool, arguments), self._headers)
        response = self._connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, (response.status, text)
        if text.startswith(("event:", "data:", ":")):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip())
        result = json.loads(text)["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"], bool(result.get("isError"))

    def __call__(self, tool: str, **arguments: Any) -> Json:
        """The answer to a call that must succeed."""
        body, failed = self.reply(tool, **arguments)
        assert not failed, body
        return body

    def refused(self, tool: str, **arguments: Any) -> Json:
        """The body of a call that must be refused."""
        body, failed = self.reply(tool, **arguments)
        assert failed, body
        return body

    def begun(self, tool: str, **arguments: Any) -> str:
        """A call that becomes a task: its id."""
        result = self._modern("tools/call", {"name": tool, "arguments": arguments})
        assert result["resultType"] == "task", result
        task: str = result["taskId"]
        return task

    def task(self, id: str, method: str = "get") -> Json:
        """The result of a request about a task."""
        return self._modern(f"tasks/{method}", {"taskId": id}, mcp_name=id)

    def asked(self, tool: str, **arguments: Any) -> Json:
        """A call whose answer is a question to a person: its parameters, and the state to repeat it with."""
        result = self._modern("tools/call", {"name": tool, "arguments": arguments})
        assert result["resultType"] == "input_required", result
        (key,) = result["inputRequests"]
        unanswered = {key: {"action": "accept"}}
        return {
            "name": tool,
            "arguments": arguments,
            "requestState": result["requestState"],
            "inputResponses": unanswered,
        }

    def answered(self, call: Json, **content: Any) -> Json:
        """The answer to such a call when the person has filled in the form."""
        (key,) = call["inputResponses"]
        result = self._modern("tools/call", {**call, "inputResponses": {key: {"action": "accept", "content": content}}})
        assert not result["isError"], result
        body: Json = result["structuredContent"]
        return body

    def _modern(self, method: str, params: Json, **headers: str | None) -> Json:
        can: Json = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
        declared = {"io.modelcontextprotocol/clientCapabilities": can}
        head, body = modern(method, {**params, "_meta": {**meta(), **declared}}, host=None, **headers)
        token = self._headers.get("authorization")
        self._connection.request("POST", self._path, body, dict(head) | ({"authorization": token} if token else {}))
        response = self._connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, (response.status, text)
        if text.startswith(("event:", "data:", ":")):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip())
        result: Json = json.loads(text)["result"]
        return result

    def items(self) -> dict[str, Json]:
        """The whole catalogue."""
        found: dict[str, Json] = {}
        cursor: Json = {}
        while True:
            page = self("gateway.home", **cursor)
            found.update({item["id"]: item for item in page["items"]})
            if page["links"][0]["rel"] != "next":
                return found
            cursor = page["links"][0]["args"]

    def start(self, definition: str, **given: Any) -> Json:
        """Starts a workflow."""
        return self("workflow.start", definitionId=definition, input=given)

    def get(self, answer: Json) -> Json:
        """The current instance of an answer."""
        return self("workflow.get", workflowId=answer["workflowId"])

    def close(self) -> None:
        self._connection.close()


class GatewayFleet:
    """A running fleet with a gateway. As a context manager, it is ready within, and cleaned up after.

    Args:
        config: the config file as data; JSON is YAML.
    """

    def __init__(self, directory: Path, config: Json, *arguments: str, **env: str) -> None:
        self.file = directory / "fleet.yaml"
        self.tokens = Tokens(directory / "tokens.yaml")
        self.human = self.tokens.add("ana", kind="user", roles=("human",), permissions=("gateway",))
        """The token of a person."""
        self._agents: list[Agent] = []
        self.write(config)
        self.fleet = RunningFleet(
            directory / "data", "--port", "0", "--config", str(self.file), "--frontends", "2", "--workers", "2",
            *arguments, **env,
        )  # fmt: skip

    def write(self, config: Json) -> None:
        """Rewrites the config file."""
        stated = {"auth": {"tokens": str(self.tokens.path)}, **config}
        self.file.write_text(json.dumps(stated))

    def agent(self, token: str = "", agent: str = "") -> Agent:
        """A client on a new connection."""
        self._agents.append(Agent(self.fleet.port, token, agent=agent))
        return self._agents[-1]

    def together(self, count: int, act: Callable[[Agent], R]) -> list[R]:
        """The outcomes of many concurrent agents, each with a connection of its own."""
        agents = [self.agent() for _ in range(count)]
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(act, agents))

    def answered(self) -> dict[str, float]:
        """Calls answered by each front-end."""
        return self._measured("coordinator_slot_requests_total")

    def in_flight(self) -> float:
        """Requests that front-ends are answering."""
        return sum(self._measured("coordinator_inflight").values())

    def _measured(self, metric: str) -> dict[str, float]:
        status, text = once(self.fleet.port, "/metrics")
        assert status == 200
        return {key: value for key, value in samples(text).items() if key.startswith(metric)}

    def __enter__(self) -> Self:
        try:
            self.fleet.wait_ready()
        except BaseException:
            self.clean_up()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.clean_up()

    def clean_up(self) -> None:
        """Cleans up."""
        for agent in self._agents:
            agent.close()
        self.fleet.clean_up()


def importing(directory: Path, connections: Json, **workflows: Json) -> GatewayFleet:
    """A fleet that imports all tools of the connections, by their names."""
    imports = [{"connection": name, "prefix": name} for name in connections]
    gateway = {"version": "1.0.0", "connections": connections, "proxy": {"import": imports}, "workflows": workflows}
    return GatewayFleet(directory, {"gateway": gateway})


def link(answer: Json, transition: str) -> Json:
    """The arguments of the link that takes a transition."""
    found: Sequence[Json] = [one["args"] for one in answer["links"] if one["args"].get("transition") == transition]
    assert found, answer
    return found[0]


SERVER = str(Path(__file__).parent.parent / "support" / "downstream_server.py")
STDIO: Json = {"kind": "mcp", "command": sys.executable, "args": [SERVER]}
"""A downstream MCP server on stdin and stdout."""
