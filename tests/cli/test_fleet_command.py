"""The frame of the ``fleet`` command: help, exit codes, errors without stack traces."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from cyclopts import App, Parameter

from coordinator import __version__, cli
from coordinator.cli.commands import COMMANDS, GROUPS
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.terminal import print_json
from coordinator.settings import LoadedSettings, Settings
from coordinator.settings.fields import Field, fields_of
from tests.support.fleets import fleet_command


def fleet(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user does, without FLEET_* of the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEET_")}
    return subprocess.run(
        [sys.executable, "-m", "coordinator", *arguments],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_lists_every_command_with_its_first_line() -> None:
    done = fleet_command("--help", COLUMNS="200")
    assert done.returncode == Exit.OK
    told = done.stdout
    for name, command in (COMMANDS | GROUPS).items():
        if name and " " not in name:
            assert f"{name} " in told
            assert command.text.split("\n")[0] in told


def test_the_page_of_commands_has_each() -> None:
    page = Path(cli.__file__).with_name("README.md").read_text()
    rows = " ".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `fleet "))
    assert [name for name in COMMANDS | GROUPS if name and " " not in name and f"`fleet {name}" not in rows] == []


def test_version() -> None:
    assert fleet("--version").stdout.strip() == __version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["nonsense"],
            "unknown command 'nonsense'; known: agents, agents-md, audit, audit-log, cluster, completion, config, ",
        ),
        (["work"], "unknown command 'work'; did you mean 'worker'?"),
        (["config", "shw"], "unknown command 'shw'; did you mean 'show'?"),
        (["config", "show", "--prot", "1"], "unknown option '--prot'; did you mean '--port'?"),
        (["config", "show", "--zzz=1"], "unknown option '--zzz'; known: --"),
        (["config", "show", "--port"], "--port needs a value"),
        (["config", "show", "--format", "xml"], "--format must be one of auto, table, plain, json, not 'xml'"),
        (["config", "show", "surplus"], "'surplus' is too much: `fleet config show` takes no arguments"),
        (["token", "create", "ann", "surplus"], "'surplus' is too much: `fleet token create` takes only ID"),
        (["agents", "lits"], "unknown command 'lits'; known: drain, undrain"),
        (["--zzz", "agents"], "unknown option '--zzz'; known: --help, --version"),
        (["items", "--zzz"], "unknown option '--zzz'; known: --help"),
        (["items", "add", "--json"], "TITLE is required: Up to 500 characters"),
        (["items", "add", "--title"], "--title needs a value: Up to 500 characters"),
        (["items", "block", "--zzz"], "unknown option '--zzz'; known: --agent, --data-dir, --fence, "),
        (["items", "list", "--json=5"], "--json takes no value"),
        (["items", "list", "--limit", "x"], "--limit must be a whole number from 1 to 100000, not 'x'"),
        (["usage", "--limit", "0"], "--limit must be from 1 to 1000, not 0"),
        (["top", "--interval", ""], "--interval must be a number from 0.2 to 60, not ''"),
        (["export"], "--format is required; allowed: fleet, beads, markdown"),
        (["export", "--formt", "beads"], "unknown option '--formt'; did you mean '--format'?"),
        (["run", "--slts", "2", "--", "true"], "unknown option '--slts'; did you mean '--slots'?"),
        (["run", "--zzz", "--", "true"], "unknown option '--zzz'; known: --agent, "),
        (["config", "show", "--port", "x"], "flag --port: port must be an integer from 0 to 65535, not 'x'"),
        (["config", "show", "--config", "/nowhere/fleet.yaml"], "cannot read the config file /nowhere/fleet.yaml"),
    ],
)
@pytest.mark.usefixtures("no_settings_around")
def test_wrong_usage_is_one_message_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == Exit.USAGE
    told = capsys.readouterr()
    assert told.err.startswith("fleet: ")
    assert told.err.count("\n") == 1
    assert words in told.err
    assert told.out == ""


def test_the_process_exits_with_the_code_and_shows_no_stack_trace() -> None:
    done = fleet("config", "show", FLEET_PORT="x")
    assert done.returncode == Exit.USAGE
    assert done.stderr == "fleet: environment FLEET_PORT: port must be an integer from 0 to 65535, not 'x'\n"
    assert done.stdout == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_not_a_failure(unbuffered: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "coordinator", "config", "example"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    finally:
        os.close(write)
    assert done.returncode == Exit.OK
    assert done.stderr == b""


@pytest.mark.parametrize(
    "closed", [*(pytest.param(one, marks=pytest.mark.chaos) for one in ("<&-", ">&-", "2>&-")), "<&- >&- 2>&-"]
)
def test_it_runs_without_standard_streams(closed: str, tmp_path: Path) -> None:
    """As some supervisors start daemons. Other files must not get these descriptors."""
    output, failure = tmp_path / "out", tmp_path / "err"
    command = [sys.executable, "-m", "coordinator", "config", "example"]
    line = f'exec "$@" <{os.devnull} >{output} 2>{failure} {closed}'
    done = subprocess.run(["sh", "-c", line, "sh", *command], timeout=120, check=False)
    assert done.returncode == Exit.OK
    assert failure.read_text() == ""
    assert ("port: 8420" in output.read_text()) is (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_not_a_defect() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "coordinator", "config", "check", "/dev/null"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert done.returncode == Exit.FAILED
    assert done.stderr == b"fleet: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_loads_and_leaves_its_help_to_the_table(command: str) -> None:
    module, _, attribute = COMMANDS[command].target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    function = found.default_command if isinstance(found, App) else found
    assert callable(function)
    assert inspect.unwrap(function).__doc__ is None, "COMMANDS says what it does"


# --- how a command ends -----------------------------------------------------------------------


def failing(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], int]:
    """Runs a test's command through the real ``run``."""

    def run(command: Callable[..., Any]) -> int:
        app = App(name="fleet", result_action="return_value", exit_on_error=False, print_error=False)
        app.default(command)
        monkeypatch.setattr(cli, "app", app)
        return cli.run([])

    return run


def test_a_failed_command_prints_its_message_and_exits_with_its_code(
    run_with: Callable[[Callable[..., Any]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(failing(CommandFailed("Port 1 is taken.", Exit.PORT_BUSY))) == 3
    assert capsys.readouterr().err == "fleet: Port 1 is taken.\n"
    assert run_with(failing(CommandFailed("It did not work."))) == Exit.FAILED


def test_control_characters_in_messages_are_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> int:
        raise CommandFailed("the command ended with code 4: \x1b[31mevil\x07\x9b\u202e\nand more")

    monkeypatch.setattr(cli, "app", lambda arguments: fails())
    assert cli.run(["x"]) == Exit.FAILED
    assert capsys.readouterr().err == "fleet: the command ended with code 4: ?[31mevil???\nand more\n"


@pytest.mark.parametrize("indent", [2, -1])
def test_control_characters_in_printed_json_are_escaped(indent: int, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"\x9b2J": ["\x1b[31m", "\u202e\x7f\n", "\U000e0041 \u2028", "plain \u00e9\u4e2d"]}
    print_json(said, indent)
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert "plain \u00e9\u4e2d" in printed
    assert json.loads(printed) == said


def test_a_defect_shows_no_stack_trace_unless_asked(
    run_with: Callable[[Callable[..., Any]], int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_with(failing(KeyError("lost"))) == Exit.FAILED
    told = capsys.readouterr().err
    assert "a defect of fleet: KeyError: 'lost'" in told
    assert "Traceback" not in told
    monkeypatch.setenv("FLEET_LOG_LEVEL", "debug")
    assert run_with(failing(KeyError("lost"))) == Exit.FAILED
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("returned", "code"), [(0, 0), (3, 3), (None, 0), (Exit.DATA_DIR, 4)])
def test_the_result_of_a_command_is_the_exit_code(
    run_with: Callable[[Callable[..., Any]], int], returned: object, code: int
) -> None:
    assert run_with(lambda: returned) == code


# --- flags of settings ------------------------------------------------------------------------


@pytest.fixture
def no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("FLEET_")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_settings_around")
def test_a_command_gets_settings_besides_its_own_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[LoadedSettings, str, bool]] = []

    @with_settings(without=["port"])
    def command(loaded: LoadedSettings, name: str, *, burst: Annotated[bool, Parameter(negative="")] = False) -> int:
        """Does it."""
        seen.append((loaded, name, burst))
        return 5

    app = App(name="x", result_action="return_value", exit_on_error=False, print_error=False)
    app.default(command)
    monkeypatch.setenv("FLEET_FRONTENDS", "4")
    assert app(["ann", "--burst", "--workers", "3", "--toolsets", "items,flows"]) == 5
    ((loaded, name, burst),) = seen
    assert (name, burst) == ("ann", True)
    assert (loaded.settings.workers, loaded.settings.frontends) == (3, 4)
    assert loaded.settings.toolsets == ("items", "flows")
    assert loaded.sources["workers"] == "flag --workers"
    with pytest.raises(Exception, match="Unknown option: --port"):
        app(["ann", "--port", "1"])


@pytest.mark.usefixtures("no_settings_around")
@pytest.mark.parametrize(
    "field", [field for field in fields_of(Settings) if field.flag is not None], ids=lambda one: one.name
)
def test_every_setting_outside_of_sections_has_a_flag(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether the help lists it or not."""
    default = () if field.default is None else field.default
    value = ",".join(default) if isinstance(default, tuple) else str(default)
    given = [field.flag] if field.default is False else [f"{field.flag}={value}"]
    assert cli.run(["config", "show", "--format", "json", *given]) == Exit.OK, capsys.readouterr().err
    source = json.loads(capsys.readouterr().out)["settings"][field.name]["source"]
    assert source == f"flag {field.flag}"


def test_an_interrupted_start_is_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == Exit.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_commands_without_mcp_start_without_its_sdk() -> None:
    """It takes a second of CPU time to import."""
    modules = {
        one.target.partition(":")[0] for name, one in COMMANDS.items() if name not in ("console", "demo", "stdio")
    }
    code = f"import sys, {', '.join(sorted(modules))}; print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "start",
    [
        "from coordinator.__main__ import main; main()",
        "import runpy; runpy.run_module('coordinator.__main__', None, '__main__')",
    ],
    ids=["script", "module"],
)
@pytest.mark.parametrize("module", ["cyclopts", "coordinator.cli.commands", "coordinator.cli.items.reading"])
def test_an_interrupt_while_it_imports_ends_it_quietly(start: str, module: str) -> None:
    script = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(name, path, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder); sys.argv[1:] = ['items', 'list', '--url', 'http://127.0.0.1:1']\n"
        f"signal.signal(signal.SIGINT, signal.default_int_handler); {start}"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (Exit.INTERRUPTED, "", "")
