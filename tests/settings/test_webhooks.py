"""The section ``webhooks``: what is refused, and that secrets are never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.cli import run
from coordinator.processes.sound import require_secrets, sound
from coordinator.settings import SettingsError, load_settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
FINE = f"url: 'https://h.example/x', secret: {SECRET}"


def problems(folder: Path, text: str) -> str:
    config = folder / "fleet.yaml"
    config.write_text(text)
    with pytest.raises(SettingsError) as caught:
        sound(load_settings({}, {}, config))
    return str(caught.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("secret_env: A", "webhooks.a lacks url, which must be an https:// URL"),
        ("url: 'https://h.example/x'", "webhooks.a: needs either secret or secret_env, and not both"),
        (f"{FINE}, secret_env: A", "webhooks.a: needs either secret or secret_env, and not both"),
        ("url: 'https://h.example', secret: hunter2", "webhooks.a.secret: must be whsec_ and the base64 of 24 to 64"),
        ("url: 'https://h.example', secret: 5", "webhooks.a.secret must be text"),
        ("url: 'https://h.example', secret_env: 'A B'", "webhooks.a.secret_env must be the name of an environment"),
        ("url: 'http://h.example', secret_env: A", "webhooks.a.url: must begin with https://; http:// is for"),
        ("url: 'ftp://h.example', secret_env: A", "webhooks.a.url must be an https:// URL without a user name"),
        ("url: 'https://u:hunter2@h.example', secret_env: A", "webhooks.a.url must be an https:// URL without a user"),
        ("url: 'https://h.example/#x', secret_env: A", "webhooks.a.url must be an https:// URL"),
        ("url: 'https://h.example:99999/', secret_env: A", "webhooks.a.url: must be an https:// URL with a host, and"),
        ("url: 'https://127.0.0.1/', secret_env: A", "webhooks.a.url: names an address that is not public"),
        ("url: 'https://[::ffff:10.0.0.1]/', secret_env: A", "webhooks.a.url: names an address that is not public"),
        ("url: 'https://localhost/', secret_env: A", "webhooks.a.url: names an address that is not public"),
        (f"{FINE}, kinds: item.moved", "webhooks.a.kinds: there is no kind 'item.moved'"),
        (f"{FINE}, kinds: [item.transition, 'items.*']", "did you mean 'item.*'?"),
        (f"{FINE}, root: 12", "webhooks.a.root must be a list of ids"),
        (f"{FINE}, root: x", "webhooks.a.root: 'x' is not the id of an item: a UUID"),
        (f"{FINE}, project: Team A", "webhooks.a.project must be the name of a project"),
        (f"{FINE}, allow_private: maybe", "webhooks.a.allow_private must be true or false"),
        (f"{FINE}, kind: item.create", "did you mean 'webhooks.a.kinds'?"),
    ],
)
def test_a_wrong_webhook_is_refused_with_its_line(tmp_path: Path, entry: str, problem: str) -> None:
    told = problems(tmp_path, f"# first\nwebhooks:\n  a: {{{entry}}}\n")
    assert problem in told
    assert "fleet.yaml:3: " in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"webhooks: {{A.b: {{{FINE}}}}}", "a name in webhooks must be a name of 1 to 50 lower-case letters"),
        ("webhooks: [a]", "webhooks must be a mapping"),
        (
            f"projects: [one]\nwebhooks: {{a: {{{FINE}, project: two}}}}",
            "webhooks.a.project: 'two' is not among the projects",
        ),
        (
            "webhooks:\n" + "".join(f"  a{n}: {{{FINE}}}\n" for n in range(51)),
            "webhooks may have at most 50 entries, not 51",
        ),
    ],
)
def test_other_faults_are_named(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems(tmp_path, text)


@pytest.mark.parametrize("more", ["", "kinds: item.transition", "root: 7a2d1a8c-5b1c-4a57-9d4e-0d5c5f1f0a11"])
def test_one_kind_or_root_needs_no_brackets(tmp_path: Path, more: str) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(f"webhooks: {{a: {{{FINE}{', ' if more else ''}{more}}}}}\n")
    found = sound(load_settings({}, {}, config)).settings.webhooks
    assert found is not None
    assert len(found["a"].kinds) == more.startswith("kinds")


@pytest.mark.parametrize("value", [None, "", "hunter2"])
def test_a_fleet_does_not_start_without_the_secret_that_a_variable_has(tmp_path: Path, value: str | None) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text("webhooks:\n  a:\n    url: https://h.example/x\n    secret_env: HOOK\n")
    loaded = sound(load_settings({}, {}, config))
    environment = {} if value is None else {"HOOK": value}
    with pytest.raises(
        SettingsError, match=r"fleet.yaml:4: webhooks.a.secret_env: the environment variable HOOK"
    ) as told:
        require_secrets(loaded, environment)
    assert "hunter2" not in str(told.value)
    require_secrets(loaded, {"HOOK": SECRET})


@pytest.mark.parametrize("format", ["plain", "json"])
def test_secrets_are_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    config = tmp_path / "fleet.yaml"
    config.write_text(f"webhooks: {{a: {{url: 'https://h.example/hunter2?key=hunter2', secret: {SECRET}}}}}\n")
    assert run(["config", "show", "--config", str(config), "--format", format]) == 0
    assert run(["config", "check", str(config)]) == 0
    shown = capsys.readouterr().out
    assert SECRET not in shown
    assert "hunter2" not in shown
    assert "https://h.example/***" in shown
    assert "a: to h.example, project default" in shown
