"""The sections ``connections`` and ``flows``: what is rejected, and what is never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from coordinator.cli import run
from coordinator.settings import SettingsError, load_settings
from coordinator.settings.redact import redacted, shown_value
from coordinator.settings.sections.connections import Connection, Interpolator, hidden, hidden_in, interpolated


def test_no_secret_of_a_connection_is_shown() -> None:
    given = Connection(
        kind="mcp",
        command="npx",
        args=(
            "-y",
            "@a/server",
            "--api-key=s3cret",
            "--token",
            "s3cret",
            "--port=${PORT}",
            "-ps3cret",
            "${REF} s3cret",
        ),
        url="https://ada:s3cret@mcp.example/x?api_key=s3cret&b=${REF}&s3cret",
        env={"A": "s3cret"},
        headers={"Authorization": "Bearer ${REF}"},
    )
    shown = shown_value(given, Connection)
    assert "s3cret" not in str(shown)
    assert shown["args"] == ["-y", "***", "--api-key=***", "--token", "***", "--port=${PORT}", "***", "${REF}"]
    assert shown["url"] == "https://ada:***@mcp.example/x?api_key=***&b=${REF}&***"
    rest = Connection(kind="rest", base_url="https://api.example/v1?subscription-key=s3cret")
    assert shown_value(rest, Connection)["baseUrl"] == "https://api.example/v1?subscription-key=***"


@pytest.mark.parametrize("name", ["api_key", "apikey", "access_token", "X-Amz-Signature", "auth", "sentinel_password"])
def test_queries_of_other_urls_show_no_secrets(name: str) -> None:
    assert redacted(f"see https://a.example/b?page=2&{name}=s3cret#c") == f"see https://a.example/b?page=2&{name}=***#c"
    assert redacted("https://a.example/?monkey=1&author=2") == "https://a.example/?monkey=1&author=2"


def test_secrets_are_hidden_in_data_of_any_depth() -> None:
    deep: Any = "s3cret"
    for _ in range(100_000):
        deep = [deep]
    assert hidden_in(deep, {"s3cret"}) == "***"
    assert hidden_in({"a": [1, None, "x s3cret"]}, {"s3cret", ""}) == {"a": [1, None, "x ***"]}
    assert hidden_in(deep, {"abc", ""}) is deep
    without = {"a": ["x"]}
    assert hidden_in(without, {"s3cret"}) is without
    for odd in ("\ud800", 2**70):  # which msgspec does not write
        assert hidden_in([odd, "s3cret"], {"s3cret"}) == [odd, "***"]


def problems(folder: Path, text: str) -> str:
    config = folder / "fleet.yaml"
    config.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{kind: mcp}", "kind mcp needs command (a server on stdin and stdout) or url (Streamable HTTP)"),
        ("{kind: cli}", "kind cli needs command"),
        ("{kind: rest}", "kind rest needs baseUrl"),
        ("{kind: ftp, command: x}", "connections.a.kind must be one of mcp, cli, rest"),
        ("{command: x}", "connections.a lacks kind"),
        (
            "{kind: cli, command: x, url: 'http://h'}",
            "connections.a.url: means nothing to kind cli, which takes command",
        ),
        ("{kind: mcp, url: 'ftp://h'}", "connections.a.url must be an http:// or https:// URL"),
        ("{kind: mcp, url: 'http://h', startSeconds: 0}", "connections.a.startSeconds must be"),
        (
            "{kind: cli, command: x, state: session}",
            "connections.a.state: means nothing to kind cli, which takes command",
        ),
        ("{kind: mcp, command: x, state: own}", "connections.a.state must be one of none, shared, session"),
        (
            "{kind: mcp, command: x, stateMost: 2}",
            "connections.a.stateMost: means nothing without state: shared or session",
        ),
        ("{kind: mcp, command: x, state: shared, stateMost: 0}", "connections.a.stateMost must be"),
        ("{kind: mcp, command: x, state: shared, stateIdleSeconds: 0}", "connections.a.stateIdleSeconds must be"),
        ("{kind: mcp, comand: x}", "did you mean 'connections.a.command'?"),
    ],
)
def test_a_wrong_connection_is_refused(tmp_path: Path, entry: str, problem: str) -> None:
    assert problem in problems(tmp_path, f"connections:\n  a: {entry}\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("connections: {1a: {kind: cli, command: x}}", "a name in connections must be a name of 1 to 50 letters"),
        ("connections: {a.b: {kind: cli, command: x}}", "a name in connections must be"),
        ("connections: {workflow: {kind: cli, command: x}}", "the coordinator's own tools begin with 'workflow'"),
        ("flows: {tools: {a: os.system}}", "flows.tools.a must be a Python callable as 'module:function'"),
        ("flows: {tools: {a.b: 'os:getcwd'}}", "a name in flows.tools must be"),
        ("flows: {demo_tool: true}", "did you mean 'flows.demo_tools'?"),
    ],
)
def test_other_faults_are_named(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems(tmp_path, text)


def test_a_relative_working_directory_starts_at_the_config_file(tmp_path: Path) -> None:
    config = tmp_path / "fleet.yaml"
    entries = "\n".join(
        f"  {name}: {{kind: mcp, command: ./server, workingDirectory: '{written}'}}"
        for name, written in {"a": "tools", "b": "/srv/b", "c": "${HOME}/c", "d": ""}.items()
    )
    config.write_text(f"connections:\n{entries}\n")
    found = load_settings({}, {}, config).settings.connections or {}
    directories = [one.working_directory for one in found.values()]
    assert directories == [str(tmp_path / "tools"), "/srv/b", "${HOME}/c", ""]


def test_secrets_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(
        """
connections:
  a: {kind: mcp, url: "https://me:hunter1@example.org/mcp?token=hunter2", headers: {Authorization: Bearer hunter3}}
  b: {kind: mcp, command: server, env: {KEY: hunter4, OTHER: "x ${OTHER}"}, args: [--port, "1"]}
"""
    )
    for shape in ("plain", "json"):
        assert run(["config", "show", "--config", str(config), "--format", shape]) == 0
        shown = capsys.readouterr().out
        assert "hunter" not in shown
        assert "${OTHER}" in shown
        assert "https://me:***@example.org/mcp?token=***" in shown


def test_variables_are_filled_in_where_they_are_used() -> None:
    assert interpolated("Bearer ${A}, ${B_1}, $C, ${}", {"A": "1", "B_1": "2"}) == "Bearer 1, 2, $C, ${}"
    with pytest.raises(KeyError, match="A"):
        interpolated("${A}", {})


def test_values_from_the_environment_can_be_hidden() -> None:
    filled = Interpolator(
        {"TOKEN": "s3cret", "LONGER": "s3cret-too", "KEY": "-----\nabcd\nefgh", "YES": "1", "OTHER": "well known"}
    )
    assert filled("${TOKEN} ${LONGER} ${YES}") == "s3cret s3cret-too 1"
    assert filled("${KEY}").endswith("efgh")
    said = "no 1 door opens with s3cret-too, s3cret\nor abcd; that is well known"
    assert hidden(said, filled.secrets) == "no 1 door opens with ***, ***\nor ***; that is well known"
    with pytest.raises(KeyError, match="NOT_SET"):
        filled("${NOT_SET}")


def test_secrets_are_hidden_however_json_and_urls_write_them() -> None:
    secret = 's3cr"et/K\\ey+\u00e9='
    said = [
        json.dumps({secret: secret}),
        json.dumps([secret], ensure_ascii=False),
        json.dumps(secret).replace("/", "\\/"),
        f"https://example.org/?key={quote(secret, safe='')}&x=1",
    ]
    hid = ['{"***": "***"}', '["***"]', '"***"', "https://example.org/?key=***&x=1"]
    assert hidden_in(said, {secret}) == hid
    assert [hidden(one, {secret}) for one in said] == hid


def test_a_secret_that_is_cut_off_is_hidden() -> None:
    for length in range(4, 9):
        assert hidden("a 123456789 b " + "123456789"[:length], {"123456789"}, cut=True) == "a *** b ***"
    assert hidden("a 123", {"123456789"}, cut=True) == "a 123", "too short to be known"
    assert hidden("a 123456", {"123456789"}) == "a 123456", "it is whole, so this is something else"
