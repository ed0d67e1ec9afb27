"""Sections of settings: optional mappings, faults in parts of a struct, and what a reload changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct

from coordinator.settings import (
    Settings,
    SettingsError,
    config_version,
    example_yaml,
    load,
    load_settings,
    needing_restart,
    taken_over,
)
from coordinator.settings.fields import fields_of
from coordinator.settings.problems import Faults

ROOT = Path(__file__).resolve().parents[2]


class Part(Struct, frozen=True, kw_only=True):
    size: Annotated[int, Meta(ge=1)] = 1
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if "bad" in self.names:
            raise Faults([(("names", self.names.index("bad")), "bad is bad"), ((), "and so is all of it")])


class Login(Struct, frozen=True, kw_only=True):
    retries: Annotated[int, Meta(description="How often.", extra={"reload": True})] = 1
    realm: Annotated[str, Meta(description="Who asks.")] = "here"


class Sections(Struct, frozen=True, kw_only=True):
    parts: Annotated[dict[Annotated[str, Meta(max_length=3)], Part] | None, Meta(extra={"reload": True})] = None
    colours: dict[Literal["red", "green"], int | None] | None = None
    login: Login = Login()


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_section_may_be_there_empty_or_absent(tmp_path: Path) -> None:
    assert load(Sections, {}, {}, write(tmp_path, "parts:\ncolours: {}\nlogin:\n")).settings == Sections(colours={})
    loaded = load(Sections, {}, {}, write(tmp_path, "parts: {a: {size: 2}, b: {}}\ncolours: {red: null, green: 1}\n"))
    assert loaded.settings.parts == {"a": Part(size=2), "b": Part()}
    assert loaded.settings.colours == {"red": None, "green": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parts:\n  abcd: {}\n", ["2: a name in parts must be text, not 'abcd'"]),
        ("colours:\n  rad: 1\n", ["2: unknown key 'colours.rad'; did you mean 'colours.red'?"]),
        ("colours:\n  blue: 1\n", ["2: unknown key 'colours.blue'; known: green, red"]),
        ("parts: 3\n", ["1: parts must be a mapping, not 3"]),
        (
            "parts:\n  a:\n    names:\n    - x\n    - bad\n  b: {size: 0}\n",
            [
                "2: parts.a: and so is all of it",
                "5: parts.a.names.1: bad is bad",
                "6: parts.b.size must be an integer at least 1, not 0",
            ],
        ),
        (
            "parts:\n  b: {size: 0}\n  a: {size: 0}\nlogin: 1\nparst: 1\n",
            ["2: ", "3: ", "4: login", "5: unknown setting"],
        ),
    ],
)
def test_problems_have_lines_and_are_sorted_by_them(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(Sections, {}, {}, path)
    assert len(caught.value.problems) == len(expected), caught.value.problems
    for problem, words in zip(caught.value.problems, expected, strict=True):
        assert problem.startswith(f"{path}:{words}")


def test_a_contradiction_is_reported_at_the_line_of_the_setting(tmp_path: Path) -> None:
    def check(settings: Sections, broken: Any) -> list[tuple[tuple[str | int, ...], str]]:
        return [
            (("parts", "a", "size"), f"too big; broken: {sorted(broken)}"),
            (("login",), "no place"),
            ((), "nowhere"),
        ]

    path = write(tmp_path, "colours: 3\nparts:\n  a:\n    size: 5\n")
    with pytest.raises(SettingsError) as caught:
        load(Sections, {}, {}, path, check)
    assert caught.value.problems[1:] == (f"{path}:4: too big; broken: ['colours']", "no place", "nowhere")


def test_reading_again_uses_the_same_sources(tmp_path: Path) -> None:
    path = write(tmp_path, "workers: 3\nport: 1\n")
    env = {"FLEET_FRONTENDS": "5", "FLEET_CONFIG": str(path)}
    loaded = load_settings({"port": 9}, env)
    env.clear()
    write(tmp_path, "workers: 4\nport: 2\nlog_level: debug\n")
    again = loaded.reread()
    assert (again.settings.port, again.settings.frontends, again.settings.workers) == (9, 5, 4)
    assert again.sources["log_level"] == f"file {path}:3"
    assert again.reread().settings == again.settings
    assert loaded.settings.workers == 3
    write(tmp_path, "workers: many\n")
    with pytest.raises(SettingsError, match="workers must be"):
        loaded.reread()


# --- what a running process takes over --------------------------------------------------------


def test_only_reloadable_settings_are_taken_over() -> None:
    running = Sections(colours={"red": 1}, login=Login(realm="mine"))
    fresh = Sections(parts={"a": Part()}, colours={}, login=Login(retries=7, realm="other"))
    assert taken_over(running, fresh) == Sections(
        parts={"a": Part()}, colours={"red": 1}, login=Login(retries=7, realm="mine")
    )
    assert needing_restart(running, fresh) == ("colours", "login.realm")
    assert needing_restart(running, running) == ()


def test_the_sections_about_work_can_change_and_processes_cannot() -> None:
    fresh = msgspec.convert(
        {"port": 1, "traits": {"t": {"notes": []}}, "actor_authentication": {"enabled": True}}, Settings
    )
    taken = taken_over(Settings(), fresh)
    assert taken.port == 8420
    assert taken.traits == fresh.traits
    assert taken.actor_authentication.enabled
    assert needing_restart(Settings(), fresh) == ("port",)


def test_the_version_covers_what_a_reload_changes_and_nothing_else() -> None:
    def version(**settings: Any) -> str:
        return config_version(msgspec.convert(settings, Settings))

    a, b = {"notes": [{"key": "a", "role": "work"}]}, {"notes": [{"key": "b", "role": "work"}]}
    assert version(port=1, redis_url="redis://:pw@h") == version()
    assert version(work_item_schemas={"a": a, "b": b}) == version(work_item_schemas={"b": b, "a": a})
    changes: list[dict[str, Any]] = [
        {},
        {"work_item_schemas": {"a": a}},
        {"work_item_schemas": {"a": b}},
        {"work_item_schemas": {"a": {**a, "lifecycle": "manual"}}},
        {"work_item_schemas": {"a": a}, "default": "a"},
        {"note_schemas": {"a": []}},
        {"traits": {"a": a}},
        {"status_labels": {}},
        {"status_labels": {"start": "x"}},
        {"actor_authentication": {"enabled": True}},
    ]
    assert len({version(**change) for change in changes}) == len(changes)


# --- the example file -------------------------------------------------------------------------


def examples_in(text: str) -> str:
    """The sections that the file shows in comments, without the comment signs."""
    found: list[str] = []
    shown = False
    for line in text.splitlines():
        if line == "# For example:":
            shown = True
        elif not line.startswith("# "):
            shown = False
        elif shown:
            found.append(line.removeprefix("# "))
    return "\n".join(found) + "\n"


def test_the_examples_in_the_file_are_one_working_configuration(tmp_path: Path) -> None:
    text = (ROOT / "config" / "fleet.yaml").read_text(encoding="utf-8")
    path = write(tmp_path, examples_in(text))
    loaded = load_settings({}, {}, path)
    for field in fields_of(Settings):
        assert bool(field.example) is (loaded.sources[field.name] != "default"), field.name
    assert loaded.settings.default in (loaded.settings.work_item_schemas or {})


def test_settings_with_an_example_are_off_by_default() -> None:
    class Example(Struct, frozen=True, kw_only=True):
        plain: Annotated[int, Meta(description="A number.")] = 3
        shown: Annotated[
            dict[str, int] | None, Meta(description="Numbers.", extra={"example": "shown:\n  a: 1\n", "reload": True})
        ] = None

    assert example_yaml(Example).endswith(
        "\n# A number.\n# an integer; environment: FLEET_PLAIN\nplain: 3\n"
        "\n# Numbers.\n# a mapping or null; only in this file; takes effect on SIGHUP\n"
        "# For example:\n# shown:\n#   a: 1\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tracing: {{endpoint: 'http://user:{0}@h:x'}}", "URL without a password, not 'http://user:***@h:x'"),
        ("tracing: {{endpoint: 'http://{1}:{0}@h:x'}}", "URL without a password, not 'http://"),
        ("signing: {0}", "signing must be a mapping"),
        ("signing: [{0}]", "signing must be a mapping"),
        (
            "connections: {{x: {{kind: mcp, url: 'https://h', headers: {0}}}}}",
            "connections.x.headers must be a mapping",
        ),
        ("connections: {{x: [{0}]}}", "connections.x must be a mapping; its keys: kind"),
        ("gateway: {{version: '1.0.0', connections: [{0}]}}", "gateway.connections must be a mapping"),
    ],
)
def test_secrets_are_not_repeated_wherever_they_are(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, {}, write(tmp_path, text.format("hunter2", "u" * 60)))
    assert message in str(caught.value)
    assert "hunt" not in str(caught.value)
