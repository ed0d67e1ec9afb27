"""Which fleet a command is about: flags before variables before files, by URL or by data directory."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App

from coordinator import cli
from coordinator.cli.commands import COMMANDS
from coordinator.cli.exits import Exit
from coordinator.cli.leading import OPTIONS, behind_the_command
from coordinator.client import SyncFleet
from coordinator.store.embedded.server import find_running
from tests.support.fleets import RunningFleet

Run = Callable[..., tuple[int, str, str]]

NOWHERE, NO_STORE = "http://127.0.0.1:1", "redis://127.0.0.1:1"
LINES = {
    "agents": "", "agents drain": "nobody", "agents undrain": "nobody", "audit": "", "audit-log tail": "",
    "cluster status": "", "console": "",
    "doctor identity": "token", "drain": "--end", "events": "", "export": "--format beads",
    "flows list": "", "flows show": "7", "flows cancel": "7", "flows pause": "7", "flows resume": "7",
    "flows retry": "7", "gateway approvals list": "", "gateway approvals resolve": "hr_0123456789abcdef approve",
    "gateway approvals show": "hr_0123456789abcdef", "gateway audit": "", "gateway connections": "",
    "gateway tools": "",
    "import": "--format markdown /dev/null",
    "items add": "x", "items answer": "1111 x", "items block": "1111", "items cancel": "1111",
    "items claim": "1111", "items dep add": "1111 2222", "items dep rm": "1111 2222", "items done": "1111 --alone",
    "items edit": "1111 --title x", "items end-claim": "1111 --reason x", "items list": "", "items note": "1111",
    "items plan": "/dev/null --format markdown --dry-run",
    "items ready": "", "items release": "1111", "items reopen": "1111", "items resume": "1111",
    "items retry": "1111", "items search": "x", "items show": "1111", "items start": "1111", "items tree": "",
    "items watch": "1111 --timeout 1", "project accept": "nothing", "project copy": "nothing",
    "project list": "", "project move": "nothing --to-shard 1",
    "project pause": "nothing", "project resume": "nothing", "status": "", "usage": "", "webhooks list": "",
    "webhooks pause": "x", "webhooks resume": "x", "webhooks rotate": "x", "webhooks test": "x",
}  # fmt: skip
"""Commands that are about a fleet which runs, each with arguments."""
OF_ITS_OWN = {
    "config show", "demo", "doctor", "run", "serve", "stdio", "stop", "store accept", "top", "up", "worker",
}  # fmt: skip
"""Commands whose directory is one of their own, or has more to say than which fleet it is."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("which")
    with RunningFleet(folder / "data", "--port", "0", "--frontends", "1", "--workers", "0") as running:
        running.wait_ready()
        yield running


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process, with variables: exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)

    def run(line: str, *more: str, **env: str) -> tuple[int, str, str]:
        with monkeypatch.context() as here:
            for name, value in env.items():
                here.setenv(name, value)
            code = cli.run([*shlex.split(line), *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def commands(app: App = cli.app, *path: str) -> Iterator[tuple[str, set[str]]]:
    """All commands with their flags."""
    if (words := " ".join(path)) in COMMANDS:
        yield words, {name for one in app.assemble_argument_collection() for name in one.names}
    for name in app:
        if not name.startswith("-"):
            yield from commands(app[name], *path, name)


def test_each_command_with_a_data_directory_is_tried() -> None:
    assert {name for name, flags in commands() if "--data-dir" in flags} == LINES.keys() | OF_ITS_OWN


@pytest.mark.parametrize("command", LINES)
def test_no_variable_beats_the_data_directory(run: Run, fleet: RunningFleet, command: str) -> None:
    line = f"{command} {LINES[command]} --data-dir {fleet.data_dir}"
    code, out, err = run(line, FLEET_URL=NOWHERE, FLEET_REDIS_URL=NO_STORE)
    assert code != Exit.STORE_UNREACHABLE, err
    assert not any(where in out + err for where in ("127.0.0.1:1 ", "127.0.0.1:1:", f"{NO_STORE}\n", "FLEET_URL")), err


def test_the_data_directory_on_the_command_line_beats_the_url_of_a_runner(
    run: Run, tmp_path: Path, fleet: RunningFleet
) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(f"runners: {{r: {{command: [/bin/true], url: '{NOWHERE}', until_tree: '11111111'}}}}")
    line = f"run --runner r --config {config} --state-dir {tmp_path}"
    code, _, err = run(line, "--data-dir", str(fleet.data_dir))
    assert (code, "11111111" in err) == (Exit.USAGE, True), err
    config.write_text("runners: {r: {command: [/bin/true], url: 'ftp://x'}}")
    code, _, err = run(line)
    assert err == "fleet: runners.r.url must be an http or https URL such as http://127.0.0.1:8420\n"


@pytest.mark.parametrize(
    ("entry", "more", "said"),
    [
        ("priority: urgent", "", "runners.r.priority: must be high"),
        ("priority: urgent", "--priority urgent", "--priority: must be high"),
        ("preset: nobody", "", "runners.r.preset: must be one of"),
        ("base: main", "", "runners.r.base needs --worktree"),
        ("verify: /nowhere/to/be/found", "", "runners.r.verify: "),
        ("token_file: /nowhere", "", "runners.r.token_file /nowhere cannot be read"),
        ("token_file: /nowhere", "--token-file /elsewhere", "--token-file /elsewhere cannot be read"),
        ("project: a/b", "", "runners.r.project: must be"),
    ],
)
def test_a_message_about_an_entry_of_runners_names_it(
    run: Run, tmp_path: Path, fleet: RunningFleet, entry: str, more: str, said: str
) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(f"runners: {{r: {{command: [/bin/true], {entry}}}}}")
    line = f"run --runner r --config {config} --state-dir {tmp_path} --data-dir {fleet.data_dir} {more}"
    code, _, err = run(line)
    assert (code, err.startswith(f"fleet: {said}")) == (Exit.USAGE, True), err


def test_the_fleet_of_the_directory_is_used_with_the_password_that_a_variable_has(
    run: Run, fleet: RunningFleet, tmp_path: Path
) -> None:
    store = find_running(fleet.data_dir)
    assert store is not None
    with RunningFleet(
        *(tmp_path / "second", "--port", "0", "--frontends", "1", "--workers", "0"), FLEET_REDIS_URL=store
    ) as second:
        second.wait_ready()
        line = f"project list --data-dir {second.data_dir}"
        assert run(line, FLEET_REDIS_URL=store)[0] == Exit.OK
        code, _, err = run(line, FLEET_REDIS_URL=NO_STORE)
        assert (code, "put its password into FLEET_REDIS_PASSWORD" in err) == (Exit.STORE_UNREACHABLE, True)


def test_two_names_of_a_fleet_are_refused(run: Run, fleet: RunningFleet) -> None:
    url = fleet.state.base_url
    for command, other in (("items list", "data-dir"), ("events", "data-dir"), ("agents", "redis-url")):
        code, _, err = run(f"{command} --url {url} --{other} {NO_STORE}")
        assert (code, err) == (Exit.USAGE, f"fleet: --url and --{other} exclude each other: each names a fleet\n")


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_commands_work_over_the_url(run: Run, fleet: RunningFleet, project: str, by: str) -> None:
    url = fleet.state.base_url

    def over(line: str, *more: str) -> str:
        words = [*more, "--url", url] if by == "flag" else more
        variables = {} if by == "flag" else {"FLEET_URL": f"{url}/"}
        code, out, err = run(line, *words, FLEET_PROJECT=project, FLEET_AGENT="ann", **variables)
        assert code == Exit.OK, err
        return out

    item = json.loads(over("items add --json", "One"))["id"]
    over("items claim", item)
    over("items start", item)
    events = [json.loads(line) for line in over("events --json").splitlines()]
    assert [(one["name"], one["data"]["id"]) for one in events] == [("item.create", item), ("item.transition", item)]
    assert len(over("events --count 1").splitlines()) == 1
    assert len(over("events --kinds item.create").splitlines()) == 1
    listed = over("agents")
    assert listed.startswith("ann  user, unverified, holds an item since 20")
    assert f"project {project}: 1 agent, 1 live claim, " in listed
    with SyncFleet(url, project=project, agent="ann") as client:
        gate = {"start": {"name": "gate", "tool": None, "done": True}}
        flows = [str(client.flow(f"flow {number}", gate).id) for number in range(3)]
    assert [line.split()[0] for line in over("flows list").splitlines()] == flows[::-1]
    assert over(f"flows cancel {flows[0]}") == f"workflow {flows[0]} is cancelled\n"
    (row,) = json.loads(over("flows list --status cancelled --format json"))
    store = run(f"flows list --status cancelled --format json --project {project} --data-dir {fleet.data_dir}")
    of_store = json.loads(store[1])[0]
    assert row == {**of_store, "cancelled_by": None}


def test_unknown_ids_are_refused_over_the_url_too(run: Run, fleet: RunningFleet) -> None:
    url = fleet.state.base_url
    assert run(f"flows cancel 7 --url {url}")[0] == Exit.FAILED
    code, _, err = run(f"events --id 11111111-1111-4111-8111-111111111111 --url {url}")
    assert (code, "11111111" in err) == (Exit.FAILED, True), err


@pytest.mark.parametrize("command", ["usage", "flows pause 7", "agents drain x", "audit", "drain --end"])
def test_what_needs_the_store_says_so(run: Run, fleet: RunningFleet, command: str) -> None:
    code, _, err = run(command, FLEET_URL=fleet.state.base_url)
    assert code == Exit.USAGE
    assert err == (
        "fleet: this works on the store of a fleet, and only FLEET_URL says which fleet: give --redis-url, or "
        "--data-dir on its machine\n"
    )
    code, _, err = run(f"{command} --url {fleet.state.base_url}")
    assert code == Exit.USAGE
    assert err == (
        "fleet: unknown option '--url': this works on the store of a fleet; give --redis-url or --data-dir\n"
    )
    code, _, err = run(command, FLEET_URL=NOWHERE, FLEET_DATA_DIR=str(fleet.data_dir))
    assert "FLEET_URL" not in err, err


def test_a_message_names_what_was_given(run: Run, fleet: RunningFleet, tmp_path: Path) -> None:
    url = fleet.state.base_url
    for line, env, words in (
        ("items list", {"FLEET_URL": "ftp://x"}, "FLEET_URL must be an http"),
        ("items list --url ftp://x", {}, "--url must be an http"),
        ("items list --url ,", {}, "--url must be an http"),
        ("items list --url ''", {}, "--url must be an http"),
        ("events --url ''", {}, "--url must be an http"),
        ("items list", {"FLEET_URL": ","}, "FLEET_URL must be an http"),
        ("items list --url http://a,b", {}, "--url must be an http"),
        ("items list --url http://h/p/other,http://h", {}, "--url: 'http://h/p/other,http://h' names several projects"),
        ("items list --url http://h/p/other --url http://h", {}, "--url: 'http://h/p/other,http://h' names several"),
        ("top --once --url http://a,http://b", {}, "--url must be an http"),
        (f"items list --url {url}", {"FLEET_PROJECT": "a/b"}, "FLEET_PROJECT: must be "),
        (f"items list --url {url} --project a/b", {}, "--project: must be "),
        (f"usage --data-dir {fleet.data_dir}", {"FLEET_PROJECT": "A"}, "FLEET_PROJECT: must be "),
        (f"events --url {url} --project A", {}, "--project: must be "),
        (f"items add '' --url {url}", {}, "TITLE: is required"),
        (f"items add x --tags Ä --url {url}", {}, "--tags: 'Ä' must"),
        (f"items add x --recurs nonsense --url {url}", {}, "--recurs: "),
        (f"items add x --url {url}", {"FLEET_AGENT": "a" * 600}, "FLEET_AGENT: "),
        (f"items add x --url {url} --agent {'a' * 600}", {}, "--agent: "),
        ("export --format fleet --token-file x", {}, "--format fleet works on the store: give --data-dir or"),
        (f"export --format fleet --data-dir {tmp_path}", {"FLEET_URL": url}, "no Redis to work with"),
        (f"drain --process fe-9 --end --data-dir {fleet.data_dir}", {}, ""),
        (f"drain --process fe-9 --data-dir {fleet.data_dir}", {}, "--process: "),
    ):
        code, _, err = run(line, **env)
        assert err.startswith(f"fleet: {words}") or not words, err
        assert code != Exit.OK or not words, err
        flags = {word.strip("`:,;") for word in err.partition(": give")[0].split() if word.startswith("--")}
        assert [flag for flag in flags if flag not in line] == [], err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--url U items list --role work", "items list --url U --role work"),
        ("items --url=U list", "items list --url=U"),
        ("--data-dir D --project p agents drain x", "agents drain --data-dir D --project p x"),
        ("--url U run -- cmd --url V", "run --url U -- cmd --url V"),
        ("run -- cmd --url V", "run -- cmd --url V"),
        ("--url U nonsense", "nonsense --url U"),
        ("--config F --help", "--help --config F"),
        ("items list --url U", "items list --url U"),
    ],
)
def test_options_of_the_connection_may_come_first(typed: str, meant: str) -> None:
    assert behind_the_command(typed.split()) == meant.split()


def test_options_before_the_command_are_those_that_say_which_fleet(run: Run, fleet: RunningFleet) -> None:
    known: set[Any] = set().union(*(flags for _, flags in commands()))
    assert set(OPTIONS) <= known
    assert run(f"--url {fleet.state.base_url} --project first items add x")[0] == Exit.OK
    assert "\nfirst " in run(f"--data-dir {fleet.data_dir} project list")[1]
    assert run("--url U") == (Exit.USAGE, "", "fleet: --url goes with a command; `fleet --help` lists them\n")


def test_an_empty_list_tells_of_items_that_have_ended(run: Run, fleet: RunningFleet, project: str) -> None:
    def items(line: str) -> tuple[str, str]:
        code, out, err = run(f"items {line} --project {project} --url {fleet.state.base_url}")
        assert code == Exit.OK, err
        return out, err

    assert items("list") == ("", items("list --all")[1])
    for tags in ("a", "b", "a"):
        items(f"add x --tags {tags}")
    ids = [one["id"] for one in json.loads(items("list --json")[0])["items"]]
    items("done " + " ".join(ids))
    assert items("list") == ("", "fleet: no items are open; --all shows 3 that ended\n")
    assert items("list --tags a")[1] == "fleet: no items are open; --all shows 2 that ended\n"
    assert items("list --tags c")[1] == "fleet: no items\n"
