"""Front-ends that are killed in the middle of a call, and agents at work on them."""

from __future__ import annotations

import http.client
import random
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec

from tests.items.client import Json, actor, fresh_id
from tests.support.fleets import MCP_HEADERS, RunningCommand, call_body
from tests.support.held import Hold, HoldingProxy
from tests.support.wait import wait_until_sync

INCLUDE = ["item", "notes", "results"]
CONFIG: Json = {"attempts": {"max": 0, "backoff_seconds": 0}}
"""Items of dead agents are offered again at once."""
HEADERS = {**MCP_HEADERS, "accept": "application/json"}
"""So that calls which wait are answered with one message, too."""


class Front:
    """A front-end process that can be killed, with a proxy before its store."""

    def __init__(self, folder: Path, redis_url: str, config: Json = CONFIG) -> None:
        self._folder, self._config = folder, config
        self._started = 0
        self.proxy = HoldingProxy(redis_url)
        self.port = 0
        self.begin()

    def begin(self) -> None:
        """Starts the process."""
        self._started += 1
        config = self._folder / "config.yaml"
        self._folder.mkdir(exist_ok=True)
        config.write_bytes(msgspec.yaml.encode(self._config))
        arguments = ("serve", "--port", "0", "--frontends", "1", "--config", str(config))
        output, data = self._folder / f"output-{self._started}", str(self._folder / "data")
        self.command = RunningCommand(output, *arguments, "--data-dir", data, FLEET_REDIS_URL=self.proxy.url)

    def ready(self) -> None:
        """Waits until it serves."""
        line = self.command.wait_ready()
        self.port = int(line.split("ready at ")[1].split()[0].rsplit(":", 1)[1])

    def revive(self) -> None:
        """Starts it again, if it is dead, and forgets what was held back."""
        for hold in (self.proxy.requests, self.proxy.replies):
            hold.free.set()
        self.proxy.requests, self.proxy.replies, self.proxy.answered = Hold(), Hold(), threading.Event()
        if self.command.process.poll() is not None:
            self.begin()
            self.ready()

    def close(self) -> None:
        """Ends the process, and what was held back."""
        for hold in (self.proxy.requests, self.proxy.replies):
            hold.free.set()
        self.command.clean_up()

    def kill(self) -> None:
        self.command.end(signal.SIGKILL)

    def call(self, project: str, tool: str, **arguments: Any) -> Json | None:
        """The structured result; None: the process died first, or does not serve."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST", f"/p/{project}/mcp/items", call_body(tool, arguments), HEADERS)
            answer = msgspec.json.decode(connection.getresponse().read())
        except (OSError, http.client.HTTPException, msgspec.DecodeError):
            return None
        finally:
            connection.close()
        if answer["result"]["isError"]:
            assert answer["result"]["structuredContent"]["error"]["kind"] != "permanent", answer
            return None
        return dict(answer["result"]["structuredContent"])


ITEMS, AGENTS, TTL_SECONDS = 30, 5, 3


class World:
    """What the agents of a run share."""

    def __init__(self, fronts: list[Front], project: str, seed: int) -> None:
        self.fronts = fronts
        self.project = project
        self.chance = random.Random(seed)
        self.over = threading.Event()
        self.deaths: list[str] = []
        self.problems: list[BaseException] = []

    def call(self, tool: str, **arguments: Any) -> Json:
        """Makes a call, and repeats it at other front-ends until one answers."""

        def answer() -> Json | None:
            front = self.chance.choice(self.fronts)
            return front.call(self.project, tool, **arguments) if front.port else None

        return wait_until_sync(answer, what=f"an answer of {tool}") or {}

    def dies(self, point: str) -> bool:
        """Whether an agent dies now: at each point a few times."""
        if self.deaths.count(point) >= 3 or self.chance.random() > 0.3:
            return False
        self.deaths.append(point)
        return True

    def live(self, name: str) -> None:
        """An agent; when it dies, another one follows."""
        try:
            life = 0
            while not self.over.is_set():
                life += 1
                self._work(f"{name}-{life}")
        except BaseException as problem:
            self.problems.append(problem)
            self.over.set()

    def _work(self, agent: str) -> None:
        who = actor(agent)
        while not self.over.is_set():
            claim = {"selector": {"tags": "deaths"}, "ttlSeconds": TTL_SECONDS}
            asked = {"actor": who, "requestId": fresh_id(), "claims": [claim], "include": INCLUDE, "waitMs": 500}
            (entry,) = self.call("claim_item", **asked)["claimResults"]
            if entry["outcome"] != "success":
                assert entry["outcome"] == "no_match", entry
                continue
            if self.dies("claimed"):
                return
            step = {"itemId": entry["itemId"], "actor": who, "fenceToken": entry["fenceToken"]}
            start = self.call("advance_item", transitions=[{**step, "trigger": "start"}], requestId=fresh_id())
            if not start["results"][0]["applied"]:
                continue  # the claim was lost meanwhile
            if self.dies("started"):
                return
            total = 1 + sum(one["result"]["sum"] for one in entry["results"])
            end = {**step, "trigger": "complete", "result": {"sum": total}}
            self.call("advance_item", transitions=[end], requestId=fresh_id())
            if self.dies("completed"):
                return
