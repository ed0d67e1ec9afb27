"""A store that refuses user or password: every command says so at once, and where to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.cli.exits import Exit
from tests.support.fleets import fleet_command

WRONG, MISSING = "access refused: wrong user or password", "access refused: a password is needed, and the URL has none"
SECRET = "tops3cret"


def with_login(url: str, login: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{login}{rest.rpartition('@')[2]}"


def run(tmp_path: Path, *words: str, **env: Any) -> str:
    """What a command says that cannot use its store."""
    done = fleet_command(*words, FLEET_DATA_DIR=str(tmp_path), **env)
    assert done.returncode == Exit.STORE_UNREACHABLE, (done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    assert "waiting for the store" not in done.stderr
    assert "trying again" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("login", "problem"), [(f":{SECRET}@", WRONG), (f"nobody:{SECRET}@", WRONG), ("", MISSING)],
    ids=["password", "user", "none"],
)  # fmt: skip
def test_what_the_store_refuses_is_said_at_once(redis_url: str, tmp_path: Path, login: str, problem: str) -> None:
    url = with_login(redis_url, login)
    for command in (("serve", "--port", "0"), ("worker",), ("audit",), ("project", "list")):
        said = run(tmp_path, *command, FLEET_REDIS_URL=url)
        assert said.endswith(f"{problem}; see redis_url and FLEET_REDIS_PASSWORD"), command


def test_the_setting_of_another_store_is_named(redis_url: str, tmp_path: Path) -> None:
    wrong = with_login(redis_url, f":{SECRET}@")
    said = run(tmp_path, "worker", FLEET_REDIS_URL=redis_url, FLEET_STEPS_QUEUE_URL=wrong)
    assert said.endswith(f"{WRONG}; see steps.queue_url")
    bare = with_login(redis_url, "")
    said = run(tmp_path, "project", "copy", "p", "--to", bare, FLEET_REDIS_URL=redis_url, FLEET_TO_PASSWORD=SECRET)
    assert said.endswith(f"{WRONG}; see --to and FLEET_TO_PASSWORD")
