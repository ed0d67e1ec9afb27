"""SIGHUP: every front-end applies the new settings at once, and keeps the old ones if the new are invalid."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.processes.reload import Rereader
from coordinator.settings import SettingsError, config_version, load_settings
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, RunningFleet, call_body, once, scrape
from tests.support.users import without_privileges
from tests.support.wait import process_alive, wait_until_sync

CONNECTIONS = 24
"""Connections to open to be sure to reach both front-ends."""


def config(*keys: str, more: str = "") -> str:
    """A file whose schema ``bug`` needs these notes to start."""
    notes = ", ".join(f"{{key: {key}, role: queue, required: true}}" for key in keys)
    return f"work_item_schemas: {{bug: {{notes: [{notes}]}}}}\n{more}"


class Configured:
    """A running command with a config file.

    Args:
        path: of the file.
        start: starts the command, given the file's path.
    """

    def __init__(self, path: Path, start: Callable[[str], RunningCommand]) -> None:
        self.path = path
        self.write(config("first"))
        self.command = start(str(path))
        line = self.command.wait_ready()
        self.port = int(line.split("ready at ")[1].split()[0].rsplit(":", 1)[1])

    def write(self, text: str) -> str:
        """Writes the file; returns the version of its settings, empty if it is invalid."""
        self.path.write_text(text)
        try:
            return config_version(load_settings({}, {}, self.path).settings)
        except SettingsError:
            return ""

    def hang_up(self) -> None:
        self.command.process.send_signal(signal.SIGHUP)

    def reports(self) -> list[dict[str, Any]]:
        """The configuration reports of /readyz on many connections; all have to be ready."""
        found = []
        for _ in range(CONNECTIONS):
            status, body = once(self.port, "/readyz")
            assert status == 200, body
            found.append(json.loads(body)["config"])
        return found

    def wait_for(self, what: Callable[[dict[str, Any]], bool], words: str) -> dict[str, Any]:
        """Waits until the reports of all front-ends match; returns one of them."""
        wait_until_sync(lambda: all(what(report) for report in self.reports()), what=words)
        return self.reports()[0]

    def wait_for_version(self, version: str) -> dict[str, Any]:
        return self.wait_for(lambda report: report["version"] == version and "refused" not in report, version)


@pytest.fixture(scope="module")
def running_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    """A fleet of two front-ends."""
    folder = tmp_path_factory.mktemp("reload")
    running: list[RunningFleet] = []

    def start(file: str) -> RunningCommand:
        options = ("--config", file, "--port", "0", "--workers", "0", "--log-format", "json")
        running.append(RunningFleet(folder / "data", *options))
        return running[0]

    try:
        yield Configured(folder / "fleet.yaml", start)
    finally:
        for command in running:
            command.clean_up()


@pytest.fixture
def fleet(running_fleet: Configured) -> Configured:
    """The fleet, with its initial settings."""
    version, before = running_fleet.write(config("first")), reloads(running_fleet, "ok")
    running_fleet.hang_up()
    # Both front-ends must have applied it, because tests count later reloads.
    wait_until_sync(lambda: reloads(running_fleet, "ok") == before + 2, what="the settings of the start")
    running_fleet.wait_for_version(version)
    return running_fleet


def reloads(fleet: Configured, outcome: str) -> float:
    return scrape(fleet.port)[f"coordinator_config_reloads_total{{outcome={outcome}}}"]


def missing(client: Http, item: str) -> list[str]:
    """The missing notes in the refusal to start ``item``."""
    (result,) = client.call("advance_item", transitions=[{"itemId": item, "trigger": "start"}])["results"]
    assert not result["applied"]
    found = [note["key"] for note in result["missingNotes"]]
    # Built from the schemas in Python, from what the script found with those in Redis.
    assert all(note["description"] == "" for note in result["missingNotes"])
    assert f": {', '.join(found)}. Fill them" in result["error"]
    return found


def new_bug(client: Http) -> str:
    return str(client.call("manage_items", operation="create", items=[{"title": "b", "type": "bug"}])["items"][0]["id"])


def versions_in_force(fleet: Configured) -> float:
    return sum(value for key, value in scrape(fleet.port).items() if key.startswith("coordinator_config_info{"))


def test_a_reload_reaches_every_front_end(fleet: Configured) -> None:
    before = reloads(fleet, "ok")
    with Http(fleet.port) as client:
        item = new_bug(client)
        assert missing(client, item) == ["first"]
        version = fleet.write(config("second", "third"))
        fleet.hang_up()
        fleet.wait_for_version(version)
        assert missing(client, item) == ["second", "third"]
        fleet.write(config(more="actor_authentication: {enabled: true}\n"))
        fleet.hang_up()
        wait_until_sync(lambda: refused(client, item), what="unsigned calls to be refused")
    wait_until_sync(lambda: versions_in_force(fleet) == 1, what="both front-ends to have the same version")
    assert reloads(fleet, "ok") - before == 4  # two front-ends, twice
    fleet.command.wait_logged("settings reloaded", slot="up-0", version=version)


def test_settings_may_be_larger_than_a_pipe(fleet: Configured) -> None:
    guidance = "x" * 300_000
    large = (
        f"work_item_schemas: {{bug: {{notes: [{{key: long, role: queue, required: true, guidance: {guidance}}}]}}}}\n"
    )
    version = fleet.write(large)
    fleet.hang_up()
    fleet.wait_for_version(version)
    with Http(fleet.port) as client:
        (result,) = client.call("advance_item", transitions=[{"itemId": new_bug(client), "trigger": "start"}])[
            "results"
        ]
    assert result["missingNotes"] == [{"key": "long", "role": "queue", "description": "", "guidance": guidance}]


def refused(client: Http, item: str) -> bool:
    """Whether an unsigned transition is refused as a call; else its element is."""
    body = call_body("advance_item", {"transitions": [{"itemId": item, "trigger": "cancel"}]})
    client.connection.request("POST", "/mcp/items", body, MCP_HEADERS)
    answer = json.loads(client.connection.getresponse().read())["result"]
    if not answer.get("isError"):
        return False
    assert "transitions[0].actor: is required" in answer["structuredContent"]["error"]["message"]
    return True


def test_calls_continue_during_reloads_and_see_one_version_each(fleet: Configured) -> None:
    allowed = {("first",), ("a1", "a2"), ("b1", "b2")}
    seen: list[tuple[str, ...]] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def ask() -> None:
        try:
            with Http(fleet.port) as client:
                item = new_bug(client)
                while not stop.is_set():
                    seen.append(tuple(missing(client, item)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            for keys in (("a1", "a2"), ("b1", "b2")):
                version = fleet.write(config(*keys))
                fleet.hang_up()
                fleet.wait_for_version(version)
                count = len(seen)
                wait_until_sync(lambda count=count: failures or len(seen) > count + 20, what="calls to continue")  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert set(seen) <= allowed
    assert {("a1", "a2"), ("b1", "b2")} <= set(seen)


def test_an_invalid_file_keeps_the_old_settings_and_is_reported(fleet: Configured) -> None:
    version, before = fleet.reports()[0]["version"], reloads(fleet, "refused")
    fleet.write(config("second", more="default: nothing\n"))
    fleet.hang_up()
    report = fleet.wait_for(lambda report: "refused" in report, "the reason")
    problem = f"{fleet.path}:2: default: unknown schema of work_item_schemas 'nothing'; known: bug"
    assert report["version"] == version
    # /readyz is public, so it omits the folder.
    assert f"{fleet.path.parent}/{report['refused']['reason']}" == problem
    fleet.command.wait_logged("settings not reloaded, the old ones stay in force", problem=problem)
    assert reloads(fleet, "refused") - before == 2
    with Http(fleet.port) as client:
        assert missing(client, new_bug(client)) == ["first"]

    # A front-end that starts now also uses the old settings, and reports why.
    restart(fleet)
    again = fleet.wait_for(lambda report: "refused" in report, "the reason in the new front-end")
    assert (again["version"], again["refused"]) == (version, report["refused"])

    fixed = fleet.write(config("second"))
    fleet.hang_up()
    fleet.wait_for_version(fixed)
    restart(fleet)
    fleet.wait_for_version(fixed)


def test_an_unreadable_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "closed" / "fleet.yaml"
    path.parent.mkdir()
    path.write_text(config("first"))
    reader = Rereader(load_settings({}, {}, path))
    path.parent.chmod(0)
    with without_privileges():
        outcome = reader.read()
    path.parent.chmod(0o700)
    assert outcome.settings is None
    assert outcome.problem == "cannot read the config file fleet.yaml: Permission denied"


def restart(fleet: Configured) -> None:
    """Kills a front-end and waits for its successor."""
    command = fleet.command
    assert isinstance(command, RunningFleet)
    killed = command.pid("fe-0")
    assert killed
    os.kill(killed, signal.SIGKILL)

    def back() -> bool:
        return all(one.ready and one.pid != killed for one in command.state.processes)

    wait_until_sync(back, what="the front-end to be back")


def test_settings_that_need_a_restart_are_named_and_stray_signals_ignored(fleet: Configured) -> None:
    command = fleet.command
    assert isinstance(command, RunningFleet)
    pids = command.pids
    for pid in pids:
        os.kill(pid, signal.SIGHUP)
    version = fleet.write(config("first", more="frontends: 3\nport: 1\nlog_level: debug\n"))
    fleet.hang_up()
    report = fleet.wait_for(lambda report: "needRestart" in report, "the names")
    # The port was given as a flag, which the file does not change.
    assert report["needRestart"] == ["frontends", "log_level"]
    assert report["version"] == version
    command.wait_logged("changed settings take effect at the next start", settings=["frontends", "log_level"])
    assert command.pids == pids
    assert all(process_alive(pid) for pid in pids)
    fleet.write(config("first"))
    fleet.hang_up()
    fleet.wait_for(lambda report: "needRestart" not in report, "nothing to restart for")


@pytest.mark.parametrize("frontends", ["1", pytest.param("2", marks=pytest.mark.chaos)])
def test_serve_reloads_too(tmp_path: Path, redis_url: str, frontends: str) -> None:
    running: list[RunningCommand] = []

    def start(file: str) -> RunningCommand:
        options = ("--config", file, "--port", "0", "--frontends", frontends, "--data-dir", str(tmp_path / "data"))
        running.append(RunningCommand(tmp_path / "output", "serve", *options, FLEET_REDIS_URL=redis_url))
        return running[0]

    try:
        served = Configured(tmp_path / "fleet.yaml", start)
        version = served.write(config("second"))
        served.hang_up()
        served.wait_for_version(version)
        assert served.write("port: x\n") == ""
        served.hang_up()
        report = served.wait_for(lambda report: "refused" in report, "the reason")
        assert report["version"] == version
        assert "port must be an integer" in report["refused"]["reason"]
        assert running[0].end() == 0
    finally:
        for command in running:
            command.clean_up()


def test_a_reload_closes_the_list_of_projects_and_opens_it_again(fleet: Configured) -> None:
    def answered(project: str) -> set[int]:
        statuses = set()
        for _ in range(CONNECTIONS):
            with Http(fleet.port) as client:
                body = call_body("get_next_item", {})
                client.connection.request("POST", f"/p/{project}/mcp/items", body, MCP_HEADERS)
                statuses.add(client.connection.getresponse().status)
        return statuses

    assert answered("gamma") == {200}
    for listed, statuses in (("[default, alpha]", {404}), ("[]", {200})):
        version = fleet.write(config("first", more=f"projects: {listed}\n"))
        fleet.hang_up()
        fleet.wait_for_version(version)
        assert answered("gamma") == statuses
