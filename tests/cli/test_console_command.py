"""``fleet console``, and the link that ``fleet up`` prints on a terminal."""

from __future__ import annotations

import contextlib
import getpass
import os
import pty
import re
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import run as fleet_main
from coordinator.cli.exits import Exit
from tests.support.fleets import RunningFleet, environment, once, started
from tests.support.wait import wait_until_sync

_LINK = re.compile(r"(http://127\.0\.0\.1:(\d+))(/console/signin\?ticket=[\w.-]+)")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    data = tmp_path_factory.mktemp("console") / "fleet"
    with RunningFleet(data, "--port", "0", "--frontends", "1", "--workers", "1") as running:
        running.wait_ready()
        yield running


@pytest.fixture(autouse=True)
def opened(fleet: RunningFleet, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened in the browser of this machine."""
    found: list[str] = []

    def open_(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    monkeypatch.setenv("FLEET_DATA_DIR", str(fleet.data_dir))
    return found


def test_it_prints_a_link_alone_on_stdout(
    fleet: RunningFleet, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fleet_main(["console"]) == Exit.OK
    said = capsys.readouterr()
    match = _LINK.fullmatch(said.out.strip())
    assert match is not None
    assert match[1] == fleet.state.base_url
    assert f"as {getpass.getuser()}" in said.err
    assert once(fleet.port, match[3])[0] == 303
    assert opened == []


def test_it_opens_the_browser(opened: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet_main(["console", "--open"]) == Exit.OK
    assert opened == [capsys.readouterr().out.strip()]


def test_without_a_browser_the_link_is_still_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert fleet_main(["console", "--open"]) == Exit.FAILED
    said = capsys.readouterr()
    assert _LINK.match(said.out)
    assert "no browser" in said.err


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        ({"FLEET_CONSOLE_PUBLIC_URL": "https://console.example"}, "https://console.example"),
        ({"FLEET_AUTH_RESOURCE": "https://fleet.example/mcp"}, "https://fleet.example"),
    ],
)
def test_the_link_leads_where_people_reach_the_console(
    settings: dict[str, str], base: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert fleet_main(["console"]) == Exit.OK
    assert capsys.readouterr().out.startswith(f"{base}/console/signin?ticket=")


def test_a_console_that_is_off_has_no_link(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FLEET_CONSOLE_ENABLED", "false")
    assert fleet_main(["console"]) == Exit.USAGE
    assert "console.enabled" in capsys.readouterr().err


def test_without_a_fleet_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEET_DATA_DIR", str(tmp_path))
    assert fleet_main(["console"]) == Exit.STORE_UNREACHABLE
    assert "fleet up" in capsys.readouterr().err


def test_up_prints_a_link_on_a_terminal_only(fleet: RunningFleet, tmp_path: Path) -> None:
    assert "ticket=" not in fleet.stdout + fleet.stderr
    arguments = ("up", "--port", "0", "--frontends", "1", "--workers", "1", "--data-dir", str(tmp_path / "data"))
    terminal, its_end = pty.openpty()
    with (
        open(os.devnull, "rb") as nothing,
        open(its_end, "wb", buffering=0) as out,
        open(tmp_path / "log", "wb") as log,
    ):
        process = started(arguments, environment(), nothing, out, log)
    os.set_blocking(terminal, False)
    said = ""

    def link() -> re.Match[str] | None:
        nonlocal said
        with contextlib.suppress(BlockingIOError):
            said += os.read(terminal, 65_536).decode()
        return _LINK.search(said)

    try:
        match = wait_until_sync(link, 60, "the link")
        assert match is not None
        assert said.index("fleet ready at") < match.start()
        assert once(int(match[2]), match[3])[0] == 303
    finally:
        process.terminate()
        process.wait(60)
        os.close(terminal)
