"""``fleet audit`` on a real store: consistency, differences, refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.definitions import Definitions, shipped
from coordinator.store import Store, keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.items.client import Client
from tests.sessions.client import Sessions, settings
from tests.support.fleets import fleet_command

pytestmark = pytest.mark.anyio


async def test_an_untouched_project_is_consistent(store: Store, project: str, redis_url: str) -> None:
    tools = Client(store, project)
    await tools.add_many(3)
    done = fleet_command("audit", "--project", project, "--redis-url", redis_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"project {project}: 3 items, 0 dependencies, 0 claims; everything agrees\n"


async def test_a_difference_is_named_and_fails_the_command(store: Store, project: str, redis_url: str) -> None:
    item = (await Client(store, project).add()).replace("-", "")
    with redis_client(parse(redis_url), project) as client:
        client.zrem(keys.ranked.key(project, "p"), item)
    command = ("audit", "--project", project, "--redis-url", redis_url)
    done = fleet_command(*command)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"project {project}: 1 item, 0 dependencies, 0 claims; 1 difference"
    done = fleet_command(*command, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["items"] == 1
    assert any(item in key for key, _ in report["differences"]), report


async def test_unusable_projects_and_stores_are_refused(redis_url: str) -> None:
    bad = fleet_command("audit", "--project", "Not A Project", "--redis-url", redis_url)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "project" in bad.stderr
    away = fleet_command("audit", "--data-dir", "/nonexistent/fleet")
    assert away.returncode == 6
    assert "no Redis to work with" in away.stderr


async def test_a_project_that_nobody_has_written_to_is_refused(store: Store, project: str, redis_url: str) -> None:
    await Client(store, project).add()
    close = fleet_command("audit", "--project", f"{project}x", "--redis-url", redis_url)
    assert (close.returncode, close.stdout) == (2, "")
    assert f"there is no project {project}x: nobody has written to it; did you mean {project}?" in close.stderr
    other = fleet_command("audit", "--project", "nobody-wrote-here", "--redis-url", redis_url)
    assert "there is no project nobody-wrote-here: nobody has written to it; there are " in other.stderr
    assert fleet_command("audit", "--redis-url", redis_url).returncode == 0


async def test_a_project_without_work_items_may_have_something_else(store: Store, project: str, redis_url: str) -> None:
    sessions = Sessions(store, project, Definitions([shipped()], 0), settings(0))
    await sessions.start("change")
    done = fleet_command("audit", "--project", project, "--redis-url", redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"project {project}: 0 items, 0 dependencies, 0 claims; everything agrees\n"


@pytest.mark.parametrize("command", [("flows", "list"), ("gateway", "audit"), ("gateway", "approvals", "list")])
async def test_an_empty_list_reports_an_unknown_project(
    store: Store, project: str, redis_url: str, command: tuple[str, ...]
) -> None:
    await Client(store, project).add()
    typo = fleet_command(*command, "--project", f"{project}x", "--redis-url", redis_url)
    assert (typo.returncode, typo.stdout) == (0, "")
    said = f"there is no project {project}x: nobody has written to it; did you mean {project}?"
    assert typo.stderr == f"fleet: {said}\n"
    for there in (("--project", project), ()):
        done = fleet_command(*command, *there, "--redis-url", redis_url)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("audit",),
        ("flows", "list"),
        ("flows", "show", "1"),
        ("gateway", "audit"),
        ("gateway", "approvals", "list"),
        ("demo",),
        ("token", "create", "agent-1"),
    ],
)
def test_commands_refuse_a_project_that_is_not_on_the_list(redis_url: str, command: tuple[str, ...]) -> None:
    settings: dict[str, Any] = {"FLEET_PROJECTS": "alpha,beta", "FLEET_REDIS_URL": redis_url}
    done = fleet_command(*command, "--project", "gamma", **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fleet: there is no project 'gamma' (setting projects); there are: alpha, beta\n"


def test_the_default_project_must_be_on_the_list_too(redis_url: str) -> None:
    settings: dict[str, Any] = {"FLEET_PROJECTS": "alpha,beta", "FLEET_REDIS_URL": redis_url}
    done = fleet_command("flows", "list", **settings)
    assert done.stderr == "fleet: there is no project 'default' (setting projects); there are: alpha, beta\n"
    assert "choose one with --project" in fleet_command("demo", **settings).stderr
    assert fleet_command("flows", "list", "--project", "alpha", **settings).returncode == 0
