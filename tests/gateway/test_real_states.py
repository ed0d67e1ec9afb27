"""A fleet with two workers in front of servers, as others publish them, that remember what their callers do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.gateway.fleet import Agent, GatewayFleet, Json, importing
from tests.support import real_servers
from tests.support.browser import MISSING, installed
from tests.support.wait import wait_until_sync

ROUNDS = 4
CHROMIUM = installed()


def keeping(connections: Json) -> Json:
    """The connections with a state for each owner."""
    return {name: {**one, "state": "session"} for name, one in connections.items()}


def callers(served: GatewayFleet, capability: str) -> list[Agent]:
    """Two callers, the second as two agents, once they are known and the capability is there."""
    ann, bob = (served.tokens.add(who, permissions=("gateway",)) for who in ("ann", "bob"))
    agents = [served.agent(ann), served.agent(bob, "/1"), served.agent(bob, "/2")]

    def ready() -> bool:
        try:
            answers = [agent.reply("gateway.describe", id=capability) for agent in agents]
        except AssertionError:  # their tokens are not known yet
            return False
        return not any(failed for _, failed in answers)

    wait_until_sync(ready, what=f"{capability} in the catalogue")
    return agents


def called(agent: Agent, capability: str, **arguments: Any) -> str:
    """What an imported tool returns, as JSON."""
    answer = agent.start("proxy_default", capability=capability, arguments=arguments)
    assert answer["context"].get("lastResult") is not None, answer
    return json.dumps(answer["context"]["lastResult"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    connections = keeping({"shell": real_servers.stdio("terminal-mcp")})
    with importing(tmp_path_factory.mktemp("states"), connections) as served:
        yield served


def test_each_caller_has_shells_of_their_own(served: GatewayFleet) -> None:
    agents = callers(served, "shell.session_create")
    shells = []
    for number, agent in enumerate(agents):
        made = called(agent, "shell.session_create", command="bash")
        found = re.search(r"session_id\W+([0-9a-f]+)", made)
        assert found is not None, made
        shells.append(found[1])
        called(agent, "shell.session_send", session_id=found[1], input=f"number={number}")
    for turn in range(ROUNDS):
        for number, (agent, shell) in enumerate(zip(agents, shells, strict=True)):
            line, wanted = f"echo is:$number:{turn}", f"is:{number}:{turn}"
            said = called(agent, "shell.session_interact", session_id=shell, input=line, wait_for=wanted)
            assert wanted in said
    for agent, foreign in zip(agents, reversed(shells), strict=True):
        listed = called(agent, "shell.session_list")
        assert sum(shell in listed for shell in shells) == 1
        assert (foreign in listed) == (foreign == shells[1] and agent is agents[1])


@pytest.fixture(scope="module")
def from_npm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    directory = tmp_path_factory.mktemp("npm")
    connections = {"thinking": real_servers.npm("mcp-server-sequential-thinking")}
    if CHROMIUM is not None:
        options = ("--headless", "--isolated", "--no-sandbox", "--executable-path", CHROMIUM)
        connections["browser"] = real_servers.npm("playwright-mcp", *options, workingDirectory=str(directory))
    with importing(directory, keeping(connections)) as served:
        yield served


@pytest.mark.servers
@pytest.mark.skipif(not real_servers.INSTALLED, reason=real_servers.REASON)
def test_each_caller_has_thoughts_of_their_own(from_npm: GatewayFleet) -> None:
    agents = callers(from_npm, "thinking.sequentialthinking")
    for number in range(1, ROUNDS):
        for agent in agents:
            thought = {"thought": "on", "nextThoughtNeeded": True, "thoughtNumber": number, "totalThoughts": ROUNDS}
            said = called(agent, "thinking.sequentialthinking", **thought)
            assert re.search(rf"thoughtHistoryLength\W+{number}\D", said), said


@pytest.mark.servers
@pytest.mark.skipif(not real_servers.INSTALLED, reason=real_servers.REASON)
@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_each_caller_has_a_page_of_their_own(from_npm: GatewayFleet) -> None:
    agents = callers(from_npm, "browser.browser_navigate")
    for number, agent in enumerate(agents):
        called(agent, "browser.browser_navigate", url=f"data:text/html,<title>P</title><p>page {number} is here")
    for _ in range(ROUNDS):
        for number, agent in enumerate(agents):
            assert f"page {number} is here" in called(agent, "browser.browser_snapshot")
