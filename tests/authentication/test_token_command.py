"""``fleet token``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.cli import run
from coordinator.cli.exits import Exit
from coordinator.identity.callers.token_file import PREFIX, digest_of, read_tokens
from tests.support.fleets import fleet_command

Fleet = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for name in ("FLEET_CONFIG", "FLEET_AUTH_TOKENS"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments: str, file: bool = True) -> tuple[int, str, str]:
        more = ["--file", str(tmp_path / "tokens.yaml")] if file else []
        code = run(["token", *arguments, *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_a_token_is_printed_once(fleet: Fleet, tmp_path: Path) -> None:
    code, out, err = fleet(
        "create", "agent-1", "--kind", "orchestrator", "--permission", "items.read", "--permission", "flows",
        "--project", "alpha", "--role", "lead", "--expires", "12h", "--note", "the first",
    )  # fmt: skip
    token = out.removesuffix("\n")
    assert (code, token.startswith(PREFIX), "\n" in token) == (Exit.OK, True, False)
    (entry,) = read_tokens(tmp_path / "tokens.yaml")[0].tokens
    assert entry.sha256 == digest_of(token.encode()).hex()
    assert (entry.id, entry.kind, entry.permissions) == ("agent-1", "orchestrator", ("items.read", "flows"))
    assert (entry.projects, entry.roles, entry.note) == (("alpha",), ("lead",), "the first")
    assert entry.expires is not None
    assert entry.created is not None
    assert (entry.expires - entry.created).total_seconds() == 12 * 3600
    assert f"token {entry.key} of agent-1, until " in err
    listed = fleet("list")
    as_json = fleet("list", "--format", "json")
    for said in (err, *listed[1:], *as_json[1:], (tmp_path / "tokens.yaml").read_text()):
        assert token not in said
    assert entry.key in listed[1]
    assert json.loads(as_json[1])[0]["key"] == entry.key


@pytest.mark.parametrize("permission", ["items", "flows.read", "workflow.admin", "*", "*.read", "operate"])
def test_a_permission_for_toolsets_causes_no_note(fleet: Fleet, permission: str) -> None:
    assert "note" not in fleet("create", "a", "--permission", permission)[2]


def test_a_permission_that_opens_no_toolset_causes_a_note(fleet: Fleet) -> None:
    code, out, err = fleet("create", "a", "--permission", "item")
    assert (code, out.startswith(PREFIX)) == (Exit.OK, True)
    assert "fleet: note: 'item' opens no toolset; it lets steps use a tool or a connection of that name" in err


def test_a_token_ends_after_90_days_unless_told_otherwise(fleet: Fleet, tmp_path: Path) -> None:
    fleet("create", "a")
    fleet("create", "b", "--expires", "never")
    fleet("create", "c", "--expires", "2199-01-31")
    fleet("create", "d", "--expires", "1w0.5d30s")
    first, second, third, last = read_tokens(tmp_path / "tokens.yaml")[0].tokens
    assert last.expires is not None
    assert last.created is not None
    assert (last.expires - last.created).total_seconds() == 7.5 * 86_400 + 30
    assert first.expires is not None
    assert first.created is not None
    assert (first.expires - first.created).days == 90
    assert (second.expires, second.permissions, second.projects) == (None, None, None)
    assert str(third.expires) == "2199-01-31 00:00:00+00:00"
    table = fleet("list")[1].splitlines()
    assert table[0].split() == ["KEY", "ID", "KIND", "PERMISSIONS", "PROJECTS", "ROLES", "EXPIRES"]
    assert table[2].split() == [second.key, "b", "subagent", "(default)", "*", "-", "never"]


def test_a_time_is_listed_in_its_written_zone(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(f"tokens: [{{id: a, sha256: '{'a' * 64}', expires: '2199-01-31T12:00:00+02:00'}}]\n")
    path.chmod(0o600)  # a file that the group may write is rejected
    assert fleet("list")[1].splitlines()[1].endswith("  2199-01-31 12:00+0200")


def test_revoking_by_key_or_by_id(fleet: Fleet, tmp_path: Path) -> None:
    for name in ("a", "a", "b"):
        fleet("create", name)
    first, second, third = read_tokens(tmp_path / "tokens.yaml")[0].tokens
    assert fleet("revoke", first.key)[:2] == (Exit.OK, f"revoked {first.key} of a\n")
    assert read_tokens(tmp_path / "tokens.yaml")[0].tokens == (second, third)
    fleet("create", "a")
    assert fleet("revoke", "a")[1].count("of a\n") == 2
    assert read_tokens(tmp_path / "tokens.yaml")[0].tokens == (third,)
    for unknown in ("a", first.key, third.key[:11], "%"):
        code, out, err = fleet("revoke", unknown)
        assert (code, out) == (Exit.FAILED, "")
        assert "no token in " in err
    assert read_tokens(tmp_path / "tokens.yaml")[0].tokens == (third,)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", ""], "the id must be 1 to 500 printable characters"),
        (["create", "no text: \udcff"], "the id must be 1 to 500 printable characters"),
        (["create", "a", "--note", "no text: \udcff"], "must be at most 500 characters of text"),
        (["create", "a", "--permission", "a b"], "--permission must be a list of permissions"),
        (["create", "a", "--project", "No"], "--project must be a list of project names"),
        (["create", "a", "--role", "a b"], "--role must be a list of words"),
        (["create", "a", "--note", "x" * 501], "--note must be at most 500 characters"),
        (["create", "a", "--expires", "soon"], "--expires must be a time from now such as 12h"),
        (["create", "a", "--expires", "0d"], "--expires: 0d expires at once"),
        (["create", "a", "--expires", "0x"], "--expires must be a time from now such as 12h"),
        (["create", "a", "--expires", "2001-01-01"], "--expires: 2001-01-01 has passed"),
        (["create", "a", "--expires", "999999w"], "--expires: 999999w is too far away"),
        (
            ["create", "a", "--expires", "9999-12-31T23:59-12:00"],
            "--expires: 9999-12-31T23:59-12:00 is too far away",
        ),
        (["create", "a", "--kind", "dog"], "--kind"),
        (["create"], "ID is required"),
    ],
)
def test_wrong_arguments_change_nothing(fleet: Fleet, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, out, err = fleet(*arguments)
    assert (code, out) == (Exit.USAGE, "")
    assert words in err
    assert not (tmp_path / "tokens.yaml").exists()


def test_a_file_that_cannot_be_used(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    for arguments in (["list"], ["revoke", "a"]):
        code, _, err = fleet(*arguments)
        assert (code, "No such file" in err) == (Exit.FAILED, True)
    path.write_text("tokens: 7\n")
    path.chmod(0o600)
    for arguments in (["list"], ["revoke", "a"], ["create", "a"]):
        code, out, err = fleet(*arguments)
        assert (code, out, "must be a list of entries" in err) == (Exit.FAILED, "", True)
    assert path.read_text() == "tokens: 7\n"


def test_the_file_of_the_settings(fleet: Fleet, tmp_path: Path) -> None:
    code, _, err = fleet("list", file=False)
    assert (code, "which token file?" in err) == (Exit.USAGE, True)
    config = tmp_path / "fleet.yaml"
    config.write_text("auth: {tokens: own.yaml}\n")
    code, out, _ = fleet("create", "a", "--config", str(config), file=False)
    assert code == Exit.OK
    assert read_tokens(tmp_path / "own.yaml")[0].tokens[0].sha256 == digest_of(out.strip().encode()).hex()


def test_as_a_command(tmp_path: Path) -> None:
    path = str(tmp_path / "tokens.json")
    done = fleet_command("token", "create", "agent-1", FLEET_AUTH_TOKENS=path)
    assert done.returncode == Exit.OK, done.stderr
    assert read_tokens(Path(path))[0].tokens[0].sha256 == digest_of(done.stdout.strip().encode()).hex()


def test_replacing_a_token(fleet: Fleet, tmp_path: Path) -> None:
    """The new one has the id, the rights and the place of the other one, which is good until it is revoked."""
    path = tmp_path / "tokens.yaml"
    fleet(
        "create", "a", "--kind", "user", "--permission", "items", "--project", "p", "--role", "lead", "--note", "n",
        "--expires", "1h",
    )  # fmt: skip
    fleet("create", "a", "--permission", "*")
    first, other = read_tokens(path)[0].tokens
    code, out, err = fleet("replace", first.key, "--expires", "30d")
    token = out.removesuffix("\n")
    assert (code, token.startswith(PREFIX)) == (Exit.OK, True)
    assert f"fleet token revoke {first.key}" in err
    assert token not in err + path.read_text() + fleet("list")[1]
    *kept, second = read_tokens(path)[0].tokens
    assert kept == [first, other]
    assert second.sha256 == digest_of(token.encode()).hex()
    assert (second.id, second.kind, second.permissions) == ("a", "user", ("items",))
    assert (second.projects, second.roles, second.note) == (("p",), ("lead",), "n")
    assert second.replaces == (first.key,)
    assert second.expires is not None
    assert second.created is not None
    assert (second.expires - second.created).days == 30
    assert fleet("list")[1].splitlines()[3].endswith(f" (replaces {first.key})")
    assert json.loads(fleet("list", "--format", "json")[1])[2]["replaces"] == [first.key]

    code, out, err = fleet("replace", first.sha256)
    assert (code, out) == (Exit.FAILED, "")
    assert f"{first.sha256} was replaced already: replace {second.key}, which has its place" in err
    assert read_tokens(path)[0].tokens == (first, other, second)
    assert fleet("revoke", first.key)[0] == Exit.OK
    assert f"replace {second.key}" in fleet("replace", first.key)[2]
    # What was begun with the first goes on with the third.
    assert fleet("replace", second.key)[0] == Exit.OK
    found = {entry.key: entry.replaces for entry in read_tokens(path)[0].tokens}
    assert sorted(found.values()) == sorted([(), (), (first.key, second.key)])
    assert found[second.key] == ()


@pytest.mark.parametrize("name", ["a", "0" * 12, "0" * 11, "*", "", "A" * 12])
def test_only_a_token_that_is_there_can_be_replaced(fleet: Fleet, tmp_path: Path, name: str) -> None:
    fleet("create", "a")
    before = (tmp_path / "tokens.yaml").read_text()
    code, out, err = fleet("replace", name)
    assert (code, out) == (Exit.FAILED, "")
    assert f"no token in {tmp_path / 'tokens.yaml'} has the key {name!r}; `fleet token list` shows them" in err
    assert (tmp_path / "tokens.yaml").read_text() == before


@pytest.mark.parametrize("suffix", ["yaml", "json"])
@pytest.mark.parametrize("key", ["123456789012", "012345678901", "1234567890e1", "00000000e000", "abcdefabcdef"])
def test_a_key_that_looks_like_a_number_stays_text(fleet: Fleet, tmp_path: Path, key: str, suffix: str) -> None:
    path = tmp_path / f"more.{suffix}"
    path.write_text(json.dumps({"tokens": [{"id": "a", "sha256": key + "a" * 52}]}))
    path.chmod(0o600)
    assert fleet("replace", key, "--file", str(path), file=False)[0] == Exit.OK
    assert read_tokens(path)[0].tokens[1].replaces == (key,)
    assert fleet("create", "b", "--file", str(path), file=False)[0] == Exit.OK
    assert read_tokens(path)[0].tokens[1].replaces == (key,)
