"""The token file: its content, its permissions, and how it is changed."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.identity.callers import token_edit, token_file
from coordinator.identity.callers.token_file import (
    PREFIX,
    TokenEntry,
    TokenFileError,
    digest_of,
    new_token,
    read_tokens,
    stamp_of,
)
from tests.authentication.support import Tokens

A, B = "a" * 64, "b" * 64
KEY = "0a1b2c3d4e5f"
NOTHING = digest_of(b"").hex()
SECRET = "fct_" + "k" * 43

times = st.integers(946_684_800, 7_258_118_400).map(lambda second: dt.datetime.fromtimestamp(second, dt.UTC))
words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
entries = st.builds(
    TokenEntry,
    id=st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=500),
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
    kind=st.sampled_from(("orchestrator", "subagent", "user", "external")),
    roles=st.lists(words, max_size=3).map(tuple),
    permissions=st.none() | st.lists(st.sampled_from(("items", "items.read", "*", "*.read")), max_size=3).map(tuple),
    projects=st.none() | st.lists(st.sampled_from(("alpha", "b-2", "*")), max_size=3).map(tuple),
    expires=st.none() | times,
    created=st.none() | times,
    note=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=20),
)


@pytest.mark.parametrize("name", ["tokens.yaml", "tokens.json"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(entries, max_size=4, unique_by=lambda entry: entry.sha256))
def test_every_field_is_read(tmp_path: Path, name: str, wanted: list[TokenEntry]) -> None:
    path = tmp_path / name
    path.unlink(missing_ok=True)
    for entry in wanted:
        token_edit.add(path, entry)
    if wanted:
        assert read_tokens(path)[0].tokens == tuple(wanted)
        last = wanted[-1].sha256
        assert token_edit.remove(path, lambda entry: entry.sha256 == last) == (wanted[-1],)
        assert read_tokens(path)[0].tokens == tuple(wanted[:-1])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tokens:\n- id: a\n", ":2: tokens[0]: object missing required field `sha256`"),
        (f"tokens:\n- id: a\n  sha256: {SECRET}\n", ":3: tokens[0].sha256: must be 64 lower-case hex digits"),
        ("tokens:\n- {id: a, sha256: 12}\n", ":2: tokens[0].sha256: must be 64 lower-case hex digits as text"),
        ('"\\uDFFF": 1\n', ":1: half of a surrogate pair is not text"),
        (f"tokens:\n- {{id: '', sha256: '{A}'}}\n", ":2: tokens[0].id: must be 1 to 500 printable characters"),
        (f'tokens:\n- {{id: "a\\e[1m", sha256: {A}}}\n', ":2: tokens[0].id: must be 1 to 500 printable characters"),
        (f"tokens:\n- {{id: a, sha256: {A}, kind: dog}}\n", ":2: tokens[0].kind: must be one of orchestrator, "),
        (f"tokens:\n- {{id: a, sha256: {A}, permissions: items}}\n", ":2: tokens[0].permissions: must be a list of "),
        (f"tokens:\n- {{id: a, sha256: {A}, permissions: [' ']}}\n", ":2: tokens[0].permissions[0]: must be a list "),
        (f"tokens:\n- {{id: a, sha256: {A}, projects: [A]}}\n", ":2: tokens[0].projects[0]: must be a list of proj"),
        (f"tokens:\n- {{id: a, sha256: {A}, expires: soon}}\n", ":2: tokens[0].expires: must be a time such as "),
        (f"tokens:\n- {{id: a, sha256: {A}, token: x}}\n", ":2: tokens[0]: object contains unknown field `token`"),
        (f"tokens:\n- {{id: a, sha256: {A}}}\n- {{id: b, sha256: {A}}}\n", ":3: tokens[1]: the digest of entry 0 is "),
        (f"tokens:\n- {{id: a, sha256: {A}, replaces: [x]}}\n", ":2: tokens[0].replaces[0]: must be a list of keys "),
        (f"tokens:\n- {{id: a, sha256: {A}, replaces: '{KEY}'}}\n", ":2: tokens[0].replaces: must be a list of keys "),
        (
            f"tokens:\n- {{id: a, sha256: {A}, replaces: ['{KEY}']}}\n- {{id: a, sha256: {B}, replaces: ['{KEY}']}}\n",
            ":3: tokens[1]: entry 0 replaces one of the same keys",
        ),
        (f"tokens:\n- {{id: a, sha256: {NOTHING}}}\n", ":2: tokens[0]: the digest is that of an empty text"),
        ("tokens: 3\n", ":1: tokens: must be a list of entries"),
        ("tokens:\n- 3\n", ":2: tokens[0]: must be a mapping with at least id and sha256"),
        ("token: []\n", ": object contains unknown field `token`"),
        ("[]\n", ":1: the file must be a mapping"),
        ("tokens: [\n", ":2: not valid YAML: "),
        ("é: x: y\n", ":1: not valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_without_its_values(tokens: Tokens, text: str, problem: str) -> None:
    tokens.write(text)
    with pytest.raises(TokenFileError) as caught:
        read_tokens(tokens.path)
    message = str(caught.value)
    assert message.startswith(str(tokens.path))
    assert message.removeprefix(str(tokens.path)).startswith(problem)
    assert SECRET not in message
    # It is not changed either.
    with pytest.raises(TokenFileError):
        tokens.add()
    assert tokens.path.read_text() == text


def test_wrong_json_is_refused(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    for text in ("", "{", '{"tokens": [{"id": "a"}]}', '{"tokens": null}', "[" * 5_000):
        tokens.write(text)
        with pytest.raises(TokenFileError, match=r"tokens\.json: "):
            read_tokens(tokens.path)


@pytest.mark.parametrize(("name", "data"), [("yaml", b"tokens: [] # \xff\n"), ("json", b'{"tokens":[{"id":"\xff"}]}')])
def test_a_file_that_is_not_text_is_rejected(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / f"tokens.{name}"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(TokenFileError, match=rf"tokens\.{name}: it is not UTF-8 text"):
        read_tokens(path)


@pytest.mark.parametrize(
    ("bound", "most", "problem"),
    [("_MOST_BYTES", 10, "is larger than 10 bytes"), ("_MOST_ENTRIES", 1, "has more than 1 tokens")],
)
def test_a_file_has_its_bounds(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, problem: str
) -> None:
    tokens.write(f"tokens:\n- {{id: a, sha256: {A}}}\n- {{id: b, sha256: {B}}}\n")
    monkeypatch.setattr(token_file, bound, most)
    with pytest.raises(TokenFileError, match=problem):
        read_tokens(tokens.path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_non_file_is_rejected_at_once(tokens: Tokens, make: Callable[[Path], None]) -> None:
    make(tokens.path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(TokenFileError, match=r"not a regular file|Is a directory"):
            read_tokens(tokens.path)
        with pytest.raises(TokenFileError, match=r"not a regular file|Is a directory"):
            tokens.add()
    assert len(os.listdir("/proc/self/fd")) <= before  # other threads of this process may close theirs meanwhile


@pytest.mark.parametrize("text", ["", "# nothing\n", "tokens:\n", "tokens: []\n"])
def test_a_file_may_be_empty(tokens: Tokens, text: str) -> None:
    tokens.write(text)
    assert read_tokens(tokens.path)[0].tokens == ()
    tokens.add("a")
    assert [entry.id for entry in read_tokens(tokens.path)[0].tokens] == ["a"]
    assert "nothing" in tokens.path.read_text() or "nothing" not in text, "comments stay"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2027-01-31", dt.datetime(2027, 1, 31, tzinfo=dt.UTC)),
        ("2027-01-31T12:00:00Z", dt.datetime(2027, 1, 31, 12, tzinfo=dt.UTC)),
        ("'2027-01-31T12:00:00+02:00'", dt.datetime(2027, 1, 31, 10, tzinfo=dt.UTC)),
        ("2027-01-31 12:00:00", dt.datetime(2027, 1, 31, 12, tzinfo=dt.UTC)),
    ],
)
def test_accepted_forms_of_times(tokens: Tokens, written: str, read: dt.datetime) -> None:
    tokens.write(f"tokens:\n- {{id: a, sha256: {A}, expires: {written}, created: {written}}}\n")
    (entry,) = read_tokens(tokens.path)[0].tokens
    assert (entry.expires, entry.created) == (read, read)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_writable_by_others_is_rejected(tokens: Tokens, mode: int) -> None:
    tokens.add()
    tokens.path.chmod(mode)
    with pytest.raises(TokenFileError, match=rf"may write the token file .* \(mode {mode:04o}\): chmod 600"):
        read_tokens(tokens.path)
    tokens.path.chmod(0o644)
    assert read_tokens(tokens.path)[0].tokens


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_rejected(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.add()
    os.chown(tokens.path, 12345, -1)
    assert read_tokens(tokens.path)[0].tokens  # root can read and change whatever there is
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(TokenFileError, match="belongs to another user"):
        read_tokens(tokens.path)
    os.chown(tokens.path, 0, -1)
    assert read_tokens(tokens.path)[0].tokens
    os.chown(tokens.path, 54321, -1)
    assert read_tokens(tokens.path)[0].tokens


def test_a_non_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        TokenFileError, match=r"cannot read the token file .*: No such file.*; `fleet token create` makes it"
    ):
        read_tokens(tmp_path / "none.yaml")
    with pytest.raises(TokenFileError, match=r"cannot read the token file .*: Is a directory"):
        read_tokens(tmp_path)
    assert stamp_of(tmp_path / "none.yaml") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_keeps_its_owner_and_mode(tokens: Tokens) -> None:
    tokens.add("a")
    os.chown(tokens.path, 12345, 54321)
    tokens.path.chmod(0o640)
    tokens.add("b")
    tokens.revoke("a")
    status = tokens.path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 54321, 0o640)


def test_a_new_file_is_private_to_its_owner(tokens: Tokens) -> None:
    before = os.umask(0)
    try:
        tokens.add()
    finally:
        os.umask(before)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    left = {path.name for path in tokens.path.parent.iterdir()}
    assert left == {"tokens.yaml", "tokens.yaml.lock"}


def test_a_link_stays_a_link(tokens: Tokens, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real = tmp_path / "elsewhere" / "real.yaml"
    tokens.path.symlink_to(real)
    tokens.add("a")
    assert tokens.path.is_symlink()
    assert [entry.id for entry in read_tokens(real)[0].tokens] == ["a"]


def test_comments_stay(tokens: Tokens) -> None:
    tokens.write(
        f"# ours\ntokens:  # all of them\n  - id: a  # the first\n    sha256: '{A}'\n    permissions: [items]\n"
    )
    tokens.add("b", permissions=("items.read",))
    tokens.revoke("b")
    text = tokens.path.read_text()
    for part in ("# ours", "# all of them", "# the first", "permissions: [items]"):
        assert part in text
    assert [entry.id for entry in read_tokens(tokens.path)[0].tokens] == ["a"]


def test_editors_take_turns(tokens: Tokens) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: tokens.add(f"agent-{number}"), range(12)))
        list(pool.map(lambda number: tokens.revoke(f"agent-{number}"), range(0, 12, 2)))
    found = {entry.sha256: entry.id for entry in read_tokens(tokens.path)[0].tokens}
    assert found == {digest_of(made[number].encode()).hex(): f"agent-{number}" for number in range(1, 12, 2)}


def test_a_concurrent_change_is_not_overwritten(tokens: Tokens) -> None:
    tokens.add("a")
    tokens.add("b")
    saved = tokens.path.read_text().replace("id: a", "id: c")

    def doomed(entry: TokenEntry) -> bool:
        tokens.write(saved)
        return entry.id == "b"

    with pytest.raises(TokenFileError, match=r"changed by somebody else meanwhile: nothing was written, try again"):
        token_edit.remove(tokens.path, doomed)
    assert tokens.path.read_text() == saved
    assert {path.name for path in tokens.path.parent.iterdir()} == {"tokens.yaml", "tokens.yaml.lock"}


def test_a_change_that_fails_leaves_the_file(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.add("a")
    before = tokens.path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(TokenFileError, match=r"cannot change the token file .*: No space left"):
        tokens.add("b")
    assert tokens.path.read_bytes() == before
    assert {path.name for path in tokens.path.parent.iterdir()} == {"tokens.yaml", "tokens.yaml.lock"}


def test_tokens_are_long_and_recognizable() -> None:
    made = {new_token() for _ in range(100)}
    assert len(made) == 100
    assert all(token.startswith(PREFIX) and len(token) >= 47 for token in made)


def test_the_file_holds_no_token(tokens: Tokens) -> None:
    token = tokens.add()
    assert token not in tokens.path.read_text()
    assert json.dumps(digest_of(token.encode()).hex())[1:-1] in tokens.path.read_text()
