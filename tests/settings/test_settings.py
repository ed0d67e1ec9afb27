"""Settings: their sources, invalid values, and the messages about them."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated, Any

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from coordinator.settings import (
    INTERNAL_ENVIRONMENT,
    LoadedSettings,
    Settings,
    SettingsError,
    example_yaml,
    load,
    load_settings,
    redacted,
    yaml_file,
)
from coordinator.settings.contradictions import toolset_problems
from coordinator.settings.fields import allowed, fields_of
from coordinator.settings.model import TOOLSETS
from coordinator.transport.endpoints import EndpointError, Endpoints, NameStyle
from tests.support.contracts import toolsets

ROOT = Path(__file__).resolve().parents[2]


def write(folder: Path, text: str) -> Path:
    path = folder / "fleet.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(
    flags: dict[str, object] | None = None, env: dict[str, str] | None = None, config: Path | None = None
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags or {}, env or {}, config)
    return caught.value.problems


# --- sources and precedence -----------------------------------------------------------------


def test_nothing_given_is_all_defaults() -> None:
    loaded = load_settings({}, {})
    expected = Settings(data_dir=loaded.settings.data_dir)
    assert loaded.settings == expected
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.config is None


def test_each_source_overrides_the_next_weaker_one(tmp_path: Path) -> None:
    path = write(tmp_path, "port: 1\nfrontends: 3\nworkers: 4\n")
    loaded = load_settings(
        {"port": 9, "frontends": None}, {"FLEET_PORT": "5", "FLEET_FRONTENDS": "6", "OTHER": "x"}, path
    )
    assert (loaded.settings.port, loaded.settings.frontends, loaded.settings.workers) == (9, 6, 4)
    assert loaded.sources["port"] == "flag --port"
    assert loaded.sources["frontends"] == "environment FLEET_FRONTENDS"
    assert loaded.sources["workers"] == f"file {path}:3"
    assert loaded.sources["host"] == "default"


SAMPLES: dict[str, st.SearchStrategy[Any]] = {
    "port": st.integers(0, 65535),
    "frontends": st.integers(1, 64),
    "log_level": st.sampled_from(["debug", "info", "warning", "error"]),
    "toolsets": st.lists(st.sampled_from(TOOLSETS[:3]), min_size=1, unique=True).map(tuple),
    "redis_url": st.sampled_from(["", "redis://h:1/0", "unix:///s", "rediss://u:p@h"]),
}


@hypothesis.settings(max_examples=60)
@given(data=st.data())
def test_the_strongest_source_that_is_set_wins(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    given_by: dict[str, dict[str, Any]] = {
        source: data.draw(st.fixed_dictionaries({}, optional=SAMPLES), label=source)
        for source in ("file", "environment", "flag")
    }
    path = write(tmp_path_factory.getbasetemp(), msgspec.json.encode(given_by["file"]).decode())
    env = {f"FLEET_{name.upper()}": as_text(value) for name, value in given_by["environment"].items()}
    flags = {name: as_text(value) for name, value in given_by["flag"].items()}
    loaded = load_settings(flags, env, path)
    defaults = Settings()
    for name in SAMPLES:
        source = next((one for one in ("flag", "environment", "file") if name in given_by[one]), "default")
        expected = getattr(defaults, name) if source == "default" else given_by[source][name]
        assert getattr(loaded.settings, name) == expected
        assert loaded.sources[name].split()[0] == source


def as_text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_config_path_comes_from_flag_then_environment(tmp_path: Path) -> None:
    by_environment = write(tmp_path, "port: 1\n")
    by_flag = tmp_path / "other.yaml"
    by_flag.write_text("port: 2\n")
    env = {"FLEET_CONFIG": str(by_environment)}
    assert load_settings({}, env).settings.port == 1
    assert load_settings({}, env).config == by_environment
    assert load_settings({}, env, by_flag).settings.port == 2
    assert load_settings({}, {"FLEET_CONFIG": ""}).config is None


def test_lists_are_comma_separated_outside_files(tmp_path: Path) -> None:
    assert load_settings({}, {"FLEET_TOOLSETS": " items, flows,"}).settings.toolsets == ("items", "flows")
    assert load_settings({"toolsets": ["items", "flows"]}, {}).settings.toolsets == ("items", "flows")
    assert load_settings({}, {"FLEET_ALLOWED_HOSTS": ""}).settings.allowed_hosts == ()
    path = write(tmp_path, "toolsets: [items,\n  flows]\n")
    assert load_settings({}, {}, path).settings.toolsets == ("items", "flows")


def test_internal_variables_are_not_settings() -> None:
    env = dict.fromkeys(INTERNAL_ENVIRONMENT, "x") | {"FLEET_CONFIG": ""}
    assert set(load_settings({}, env).sources.values()) == {"default"}


def test_settings_cannot_be_changed() -> None:
    settings = load_settings({}, {}).settings
    with pytest.raises(AttributeError):
        settings.port = 1  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "{}\n"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    loaded = load_settings({}, {}, path)
    assert set(loaded.sources.values()) == {"default"}
    assert loaded.config == path


# --- invalid values and their messages ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("port", "x", "port must be an integer from 0 to 65535, not 'x'"),
        ("port", "65536", "port must be an integer from 0 to 65535, not '65536'"),
        ("port", "", "port must be an integer from 0 to 65535, not ''"),
        ("frontends", "0", "frontends must be an integer from 1 to 64, not '0'"),
        ("workers", "1.5", "workers must be an integer from 0 to 64, not '1.5'"),
        ("log_level", "loud", "log_level must be one of debug, info, warning, error, not 'loud'"),
        ("embedded_fsync", "no", "embedded_fsync must be one of always, everysec, not 'no'"),
        ("host", "a b", "host must be a host name or an IP address, not 'a b'"),
        ("host", "h\n", "host must be a host name or an IP address, not 'h\\n'"),
        ("allowed_hosts", "h:x", "not 'h:x'"),
        ("allowed_origins", "example.org", "not 'example.org'"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(name: str, value: str, words: str) -> None:
    variable, flag = f"FLEET_{name.upper()}", f"--{name.replace('_', '-')}"
    (by_environment,) = problems_of(env={variable: value})
    assert by_environment.startswith(f"environment {variable}: {name} must be ")
    assert by_environment.endswith(words)
    (by_flag,) = problems_of(flags={name: value})
    assert by_flag.startswith(f"flag {flag}: {name} must be ")
    assert by_flag.endswith(words)


def test_toolsets_must_name_one() -> None:
    assert problems_of(env={"FLEET_TOOLSETS": " , "})[0].startswith(
        "environment FLEET_TOOLSETS: toolsets must be a list with at least 1 of a name of lower-case letters"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port: '1'\n", ":1: port must be an integer from 0 to 65535, not '1'"),
        ("\n\nport: true\n", ":3: port must be an integer from 0 to 65535, not True"),
        ("host: 7\n", ":1: host must be a host name or an IP address, not 7"),
        ("host:\n", ":1: host must be a host name or an IP address, not None"),
        ("log_level: yes\n", ":1: log_level must be one of debug, info, warning, error, not 'yes'"),
        ("toolsets: items\n", ":1: toolsets must be a list with at least 1 of a name"),
        ("toolsets:\n  - items\n  - 3\n", ":3: toolsets.1 must be a name of lower-case letters"),
        ("prot: 1\n", ":1: unknown setting 'prot'; did you mean 'port'?"),
        ("zzzzzz: 1\n", ":1: unknown setting 'zzzzzz'; known: actor_authentication, admin_host, "),
        ("1: 1\n", ":1: keys must be text, not '1'"),
        ("? [a, b]\n: 1\n", ":1: keys must be text, not a list or mapping"),
        ("port: 1\nhost: h\nport: 2\n", ':3: the key is there twice: "port"'),
        ("- port\n", ":1: the file must be a mapping of settings (name: value)"),
        ("port\n", ":1: the file must be a mapping of settings (name: value)"),
        ("port: [1\n", ": not valid YAML: "),
        ("port: 1\n\tx: 2\n", ": not valid YAML: "),
        ("port: !!python/object:os.system x\n", ":1: not valid YAML: could not determine a constructor"),
        ("port: 1\n---\nport: 2\n", ": not valid YAML: "),
        ("toolsets: &a [*a]\n", ":1: an alias refers to a value that contains it"),
        ("port: *nowhere\n", ":1: not valid YAML: found undefined alias"),
        ("port: \x07\n", ": not valid YAML: "),
        ('host: "\\uD800"\n', ":1: half of a surrogate pair is not text"),
        ("host: 2026-13-45\n", ": not valid YAML: month must be in 1..12"),
        ("port: !!int x\n", ": not valid YAML: invalid literal for int()"),
        ("port: " + "[" * 1000 + "\n", ": not valid YAML: "),
    ],
)
def test_a_wrong_file_is_named_with_line_and_reason(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    (problem,) = problems_of(config=path)
    assert problem.startswith(str(path))
    assert words in problem


def test_aliases_cannot_expand_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_file, "MAX_ENTRIES", 10_000)
    bomb = "a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n" + "".join(
        f"{name}: &{name} [{', '.join(['*' + inner] * 10)}]\n" for inner, name in pairwise("abcdefghijkl")
    )
    (problem,) = problems_of(config=write(tmp_path, bomb))
    assert "more than 10000 entries; the content of an alias counts wherever it is used" in problem


def test_the_size_of_a_file_is_bounded() -> None:
    assert problems_of(config=Path("/dev/zero")) == (
        "cannot read the config file /dev/zero: it is larger than 16777216 bytes",
    )


def test_unreadable_files(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert problems_of(config=missing) == (f"cannot read the config file {missing}: No such file or directory",)
    assert problems_of(config=tmp_path) == (f"cannot read the config file {tmp_path}: Is a directory",)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes("host: é\n".encode("latin-1"))
    assert problems_of(config=latin) == (f"cannot read the config file {latin}: it is not UTF-8 text",)


def test_unknown_variables_and_flags() -> None:
    assert problems_of(env={"FLEET_PROT": "1"}) == (
        "unknown environment variable 'FLEET_PROT'; did you mean 'FLEET_PORT'?",
    )
    assert problems_of(flags={"prot": 1}) == ("unknown flag '--prot'; did you mean '--port'?",)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "port: x\nworkers: -1\nnope_nope: 1\n")
    problems = problems_of({"host": "a b"}, {"FLEET_FRONTENDS": "many", "FLEET_WHAT": "1"}, path)
    assert len(problems) == 6
    with pytest.raises(SettingsError, match="6 settings are wrong:\n  ") as caught:
        load_settings({"host": "a b"}, {"FLEET_FRONTENDS": "many", "FLEET_WHAT": "1"}, path)
    assert all(f"\n  {problem}" in str(caught.value) for problem in problems)


def test_a_wrong_value_is_an_error_even_if_overridden(tmp_path: Path) -> None:
    path = write(tmp_path, "port: x\n")
    assert len(problems_of({"port": 1}, {}, path)) == 1


def test_secrets_are_not_repeated(tmp_path: Path) -> None:
    wrong = "http://user:hunter2@h"
    path = write(tmp_path, f"redis_url: {wrong}\n")
    problems = problems_of({"redis_url": wrong}, {"FLEET_REDIS_URL": wrong}, path)
    assert len(problems) == 3
    for problem in problems:
        assert problem.endswith(
            "redis_url must be empty or a redis[s]://, redis[s]+sentinel://, redis[s]+cluster:// or unix:// URL"
        )
        assert "hunter2" not in problem


def test_long_wrong_values_are_cut() -> None:
    (problem,) = problems_of({"log_level": "x" * 10_000})
    assert len(problem) < 200


@pytest.mark.parametrize("begins", ["", "9", "/", "https://"])
def test_long_values_of_the_environment_are_cut(begins: str) -> None:
    longest: dict[str, int] = {}
    for field in fields_of(Settings):
        if field.environment is not None:
            try:
                load_settings({}, {field.environment: begins + "x" * 10_000})
            except SettingsError as error:
                longest[field.environment] = max(map(len, error.problems))
    assert longest
    assert {name: length for name, length in longest.items() if length > 600} == {}


@pytest.mark.parametrize("text", ["default: {0}", "steps: {{? {0} : 1}}", "port: !{0} 1", "port: *{0}"])
def test_long_names_in_a_file_are_cut(tmp_path: Path, text: str) -> None:
    (problem,) = problems_of({}, {}, write(tmp_path, text.format("x" * 10_000)))
    assert len(problem.removeprefix(str(tmp_path))) < 300


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"redis_timeout_ms": 2000}, "redis_timeout_ms (2000) must be below request_deadline_ms (2000)"),
        ({"drain_seconds": 2}, "request_deadline_ms (2000) must be below drain_seconds (2 s)"),
    ],
)
def test_times_must_fit_inside_each_other(changes: dict[str, object], words: str) -> None:
    (problem,) = problems_of(changes)
    assert problem.startswith(words)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            "items,nope",
            "toolsets: there is no toolset 'nope'; allowed: items, worker, flows, sessions, navigator, gateway",
        ),
        ("items,flows,items", "toolsets: 'items' is named twice"),
        (
            "navigator,items,sessions",
            "toolsets: sessions and navigator cannot be served together because they share tool names; use one "
            "endpoint for each: /mcp/sessions, /mcp/navigator",
        ),
    ],
)
def test_toolsets_must_exist_and_differ(names: str, words: str) -> None:
    (problem,) = problems_of({"toolsets": names})
    assert problem.startswith(words)


def test_all_toolsets_can_be_named() -> None:
    assert tuple(toolsets()) == TOOLSETS


@pytest.mark.parametrize("style", ["dotted", "underscore"])
def test_toolsets_that_share_tool_names_are_known_beforehand(style: NameStyle) -> None:
    served = toolsets()
    for count in range(1, len(TOOLSETS) + 1):
        for names in combinations(TOOLSETS, count):
            try:
                Endpoints(served, names, style)
            except EndpointError:
                assert list(toolset_problems(names)), names
            else:
                assert not list(toolset_problems(names)), names


def test_both_contradictions_of_the_times_are_reported() -> None:
    assert len(problems_of({"redis_timeout_ms": 3000, "drain_seconds": 1})) == 2


@pytest.mark.parametrize(
    ("wrong", "beside"),
    [
        ("drain_seconds", {"request_deadline_ms": 50_000}),
        ("port", {"admin_port": 8420}),
        ("insecure_no_auth", {"host": "0.0.0.0"}),
    ],
)
def test_invalid_settings_are_left_out_of_contradictions(wrong: str, beside: dict[str, object]) -> None:
    (problem,) = problems_of({wrong: "abc", **beside})
    assert problem.startswith(f"flag --{wrong.replace('_', '-')}: {wrong} must be ")


@pytest.mark.parametrize("host", ["example.org", "example.org:8420", "127.0.0.1", "[::1]:8420", "localhost:*", "*"])
def test_allowed_hosts_forms(host: str) -> None:
    assert load_settings({"allowed_hosts": host}, {}).settings.allowed_hosts == (host,)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "localhost", "fleet.example.org"])
def test_hosts_to_listen_on(host: str) -> None:
    assert load_settings({"host": host, "insecure_no_auth": True}, {}).settings.host == host


# --- sections: nested structs, mappings, lists ------------------------------------------------


class Limit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    per: Annotated[int, Meta(ge=1, le=10)]
    note: str = ""

    def __post_init__(self) -> None:
        if self.note == "bad":
            raise ValueError("note may not be 'bad'")


class Login(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    realm: Annotated[str, Meta(description="Who asks.")]
    retries: Annotated[int, Meta(ge=0, le=5, extra={"unit": "tries"})] = 1


class Outer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    speed: Annotated[int, Meta(ge=1)] = 3
    login: Login = Login(realm="here")
    limits: dict[str, Limit] = {}
    steps: list[Limit] = []
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    on: bool = True
    extra: int | None = None


def test_sections_are_read_from_file_and_environment(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "login:\n  realm: there\n  retries: 2\nlimits:\n  a: {per: 2}\n  b:\n    per: 3\n    note: hi\n"
        "steps:\n  - per: 1\non: false\nextra: null\n",
    )
    loaded = load(Outer, {"speed": "8"}, {"FLEET_LOGIN_RETRIES": "4", "FLEET_RATIO": "0.25"}, path)
    assert loaded.settings == Outer(
        speed=8,
        login=Login(realm="there", retries=4),
        limits={"a": Limit(per=2), "b": Limit(per=3, note="hi")},
        steps=[Limit(per=1)],
        ratio=0.25,
        on=False,
    )
    assert loaded.sources["login.realm"] == f"file {path}:2"
    assert loaded.sources["login.retries"] == "environment FLEET_LOGIN_RETRIES"
    assert loaded.sources["limits"] == f"file {path}:4"


def test_an_absent_section_keeps_its_default() -> None:
    assert load(Outer, {}, {}).settings == Outer()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("login:\n  realm: 1\n  retries: 9\n", ["2: login.realm must be text", "3: login.retries must be an integer"]),
        ("login:\n  relm: x\n", ["2: unknown setting 'login.relm'; did you mean 'login.realm'?"]),
        ("login: 3\n", ["1: login must be a mapping, not 3"]),
        (
            "limits:\n  a: {per: 0}\n  b: {note: x}\n  c: {per: 1, pre: 2}\n  d: 4\n",
            [
                "2: limits.a.per must be an integer from 1 to 10, not 0",
                "3: limits.b lacks per, which must be an integer from 1 to 10",
                "4: unknown key 'limits.c.pre'; did you mean 'limits.c.per'?",
                "5: limits.d must be a mapping, not 4",
            ],
        ),
        ("limits: [1]\n", ["1: limits must be a mapping, not [1]"]),
        ("limits:\n  a: {per: 1, note: bad}\n", ["2: limits.a: note may not be 'bad'"]),
        ("steps:\n  - per: 1\n  - per: 99\n", ["3: steps.1.per must be an integer from 1 to 10, not 99"]),
        ("ratio: 1\n", ["1: ratio must be a number above 0 and below 1, not 1"]),
        ("on: maybe\n", ["1: on must be true or false, not 'maybe'"]),
        ("extra: x\n", ["1: extra must be an integer or null, not 'x'"]),
        ("speed: 0\n", ["1: speed must be an integer at least 1, not 0"]),
        ("base: &b {per: 99}\nlimits:\n  a:\n    <<: *b\n", ["1: unknown setting 'base'", "3: limits.a.per must be"]),
    ],
)
def test_problems_in_sections_have_their_line(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(Outer, {}, {}, path)
    assert len(caught.value.problems) == len(expected)
    for problem, words in zip(caught.value.problems, expected, strict=True):
        assert problem.startswith(f"{path}:{words}")


def test_a_section_without_a_required_field(tmp_path: Path) -> None:
    path = write(tmp_path, "login:\n  retries: 2\n")
    with pytest.raises(SettingsError, match=r"^login\.realm is missing; it must be text$"):
        load(Outer, {}, {}, path)


def test_the_example_of_a_struct_with_sections_is_accepted(tmp_path: Path) -> None:
    class Flat(Struct, frozen=True, kw_only=True):
        login: Login = Login(realm="here")
        limits: dict[str, Limit] = msgspec.field(default_factory=lambda: {"a": Limit(per=2)})
        word: str = "null"

    text = example_yaml(Flat)
    assert "\nlogin:\n" in text
    assert "\n  # an integer from 0 to 5; unit: tries; environment: FLEET_LOGIN_RETRIES\n  retries: 1\n" in text
    path = write(tmp_path, text.replace("  # realm:", "  realm: here"))
    assert load(Flat, {}, {}, path).settings == Flat()


# --- the declaration itself -------------------------------------------------------------------


def test_every_setting_is_described_and_can_be_set_from_everywhere() -> None:
    fields = fields_of(Settings)
    variables = [field.environment for field in fields if field.environment is not None]
    assert len(set(variables)) == len(variables)
    for field in fields:
        assert field.environment or field.example, f"only a file can set {field.name}, and nothing shows how"
        assert field.description.endswith("."), field.name
        assert field.environment not in INTERNAL_ENVIRONMENT
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            assert field.unit or field.name in ("port", "admin_port", "worker_port"), f"{field.name} has no unit"


def test_every_default_is_allowed() -> None:
    for field in fields_of(Settings):
        assert msgspec.convert(msgspec.to_builtins(field.default), field.type) == field.default


def test_limits_in_words() -> None:
    assert allowed(Annotated[int, Meta(le=3)]) == "an integer at most 3"
    assert allowed(float) == "a number"
    assert allowed(list[int]) == "a list, each entry an integer"
    assert allowed(dict[str, int]) == "a mapping"


def test_config_file_states_every_setting_as_it_is_declared(tmp_path: Path) -> None:
    path = ROOT / "config" / "fleet.yaml"
    assert path.read_text(encoding="utf-8") == example_yaml(), "run: fleet config example > config/fleet.yaml"
    loaded: LoadedSettings = load_settings({}, {}, path)
    assert loaded.settings == load_settings({}, {}).settings
    shown = {field.name for field in fields_of(Settings) if not field.example}
    assert {name for name, source in loaded.sources.items() if source.startswith(f"file {path}:")} == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:pw@h", "redis://:***@h"),
        ("rediss://me:p@w:x/y@h:1/0", "rediss://me:***@h:1/0"),
        ("unix:///run/s.sock?password=pw&db=2", "unix:///run/s.sock?password=***&db=2"),
        ("unix://me:pw@/run/s.sock", "unix://me:***@/run/s.sock"),
    ],
)
def test_passwords_in_urls_are_masked(url: str, shown: str) -> None:
    assert redacted(url) == shown
