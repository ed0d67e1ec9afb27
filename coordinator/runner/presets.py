"""What is special about each agent's command line, as tables.

A preset adds arguments to the command that the user gave, unless the user gave them already, and knows what exit codes
and output mean. It never adds a flag that widens what the agent may do; ``--yolo`` does, and is announced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePath

import msgspec

from coordinator.runner.outcomes import EXIT_CODES, Kind
from coordinator.runner.protocols import Reader
from coordinator.runner.readers import ClaudeReader, CodexReader, GeminiReader, OpencodeReader, PlainReader
from coordinator.runner.records import write_private

Words = tuple[str, ...]
Added = tuple[Words, Words]
"""Words that are added, unless the command has one of the names before them."""
Headers = Mapping[str, str]
_CODEX_TOKEN = "MCP_FLEET_TOKEN"  # noqa: S105 (a variable: codex takes a token from nowhere else, but its arguments)
Entry = tuple[Words, dict[str, str]]
"""Arguments and variables by which an agent finds the server entry for MCP."""


def _options(*words: Words) -> tuple[Added, ...]:
    """Options, each known by its first word."""
    return tuple((word[:1], word) for word in words)


def _no_mcp(file: Path, url: str, headers: Headers) -> Entry:
    _write(file, {"mcpServers": {"fleet": {"type": "http", "url": url, "headers": headers}}})
    return (), {}


def _claude_mcp(file: Path, url: str, headers: Headers) -> Entry:
    _no_mcp(file, url, headers)
    # Its tools need a permission, too. The file comes last, because every word that follows is taken for a further one.
    return ("--allowedTools", "mcp__fleet", "--mcp-config", str(file)), {}


def _codex_mcp(file: Path, url: str, headers: Headers) -> Entry:
    _no_mcp(file, url, headers)
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    others = ", ".join(f"{_toml(name)}={_toml(value)}" for name, value in headers.items() if name != "Authorization")
    settings = [f"url={_toml(url)}", "required=true"]
    settings += [f'bearer_token_env_var="{_CODEX_TOKEN}"'] if token else [f"http_headers={{{others}}}"]
    words = tuple(word for setting in settings for word in ("-c", f"mcp_servers.fleet.{setting}"))
    return words, {_CODEX_TOKEN: token} if token else {}


def _gemini_mcp(file: Path, url: str, headers: Headers) -> Entry:
    _write(file, {"mcpServers": {"fleet": {"httpUrl": url, "headers": headers, "trust": True}}})
    return (), {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(file)}


def _opencode_mcp(file: Path, url: str, headers: Headers) -> Entry:
    _write(file, {"mcp": {"fleet": {"type": "remote", "url": url, "headers": headers, "enabled": True}}})
    return (), {"OPENCODE_CONFIG": str(file)}


def _toml(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _write(file: Path, value: object) -> None:
    write_private(file, msgspec.json.encode(value).decode())


@dataclass(frozen=True, slots=True)
class Preset:
    """One agent's command line; the default is a script that knows nothing of us but the exit codes."""

    name: str = "script"
    program: str = ""
    """The command if the user gives none."""
    subcommand: str = ""
    """Follows the program, unless it is there."""
    added: tuple[Added, ...] = ()
    last: Words = ()
    """Words at the end."""
    prompt_on_stdin: bool = True
    yolo: Words = ()
    """Lets the agent do everything without asking."""
    variables: Mapping[str, str] = field(default_factory=dict)
    passed: Words = ()
    """Variables of the runner's environment that it gets, its credentials above all."""
    reader: Callable[[], Reader] = PlainReader
    plain: Words = ()
    """Options that choose the form of its output, and the word for plain text."""
    speaks: bool = False
    """Its output ends with an event that says whether it has succeeded, and its last message is the result if it leaves
    no result file."""
    exit_codes: Mapping[int, Kind] = field(default_factory=lambda: dict(EXIT_CODES))
    requires_changes: bool = False
    """It exits with 0 whatever happens, so only changed files show that something was done."""
    mcp: Callable[[Path, str, Headers], Entry] = _no_mcp

    def printing(self, words: Sequence[str]) -> Preset:
        """The preset as the user's command line prints: plain text has no events, and its exit code is its word."""
        *options, word = self.plain or ("",)
        for option in options:
            if f"{option}={word}" in words or (option, word) in pairwise(words):
                return replace(self, reader=PlainReader, speaks=False)
        return self

    def command(self, typed: Sequence[str], *, yolo: bool = False) -> list[str]:
        """The command line of the user with what the preset adds."""
        program, *rest = typed or [self.program]
        if self.subcommand and self.subcommand not in rest:
            rest.insert(0, self.subcommand)
        if yolo:
            rest += self.yolo
        names = {word.partition("=")[0] for word in rest}
        for known, words in self.added:
            if not names & set(known):
                rest += words
        return [program, *rest, *(word for word in self.last if word not in rest)]


_CLAUDE = Preset(
    "claude",
    "claude",
    added=(
        (("-p", "--print"), ("-p",)),
        *_options(("--output-format", "stream-json"), ("--verbose",), ("--strict-mcp-config",)),
    ),
    yolo=("--permission-mode", "bypassPermissions"),
    passed=("ANTHROPIC_*", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_MAX_RETRIES", "IS_SANDBOX"),
    reader=ClaudeReader,
    plain=("--output-format", "text"),
    speaks=True,
    mcp=_claude_mcp,
)
_CODEX = Preset(
    "codex",
    "codex",
    "exec",
    added=(
        *_options(("--json",), ("--skip-git-repo-check",)),
        (
            ("-s", "--sandbox", "--full-auto", "--dangerously-bypass-approvals-and-sandbox", "--yolo"),
            ("-s", "workspace-write"),
        ),
    ),
    last=("-",),
    yolo=("--dangerously-bypass-approvals-and-sandbox",),
    passed=("OPENAI_*", "CODEX_HOME", "CODEX_API_KEY"),
    reader=CodexReader,
    speaks=True,
    exit_codes={**EXIT_CODES, 2: "broken"},
    mcp=_codex_mcp,
)
_GEMINI = Preset(
    "gemini",
    "gemini",
    added=(*_options(("--skip-trust",)), (("-o", "--output-format"), ("-o", "stream-json"))),
    yolo=("--approval-mode", "yolo"),
    variables={"GEMINI_CLI_NO_RELAUNCH": "1"},  # else it ignores signals, in a parent of the real agent
    passed=("GEMINI_*", "GOOGLE_*"),
    reader=GeminiReader,
    plain=("-o", "--output-format", "text"),
    speaks=True,
    exit_codes={
        **EXIT_CODES,
        # Login, input, sandbox, configuration, trust.
        **dict.fromkeys((41, 42, 44, 52, 55), "broken"),
        # Otherwise the status of HTTP, modulo 256: 401 and 403, 429, 500 to 504 and 529.
        **dict.fromkeys((145, 147), "broken"),
        **dict.fromkeys((173, 244, 246, 247, 248, 17), "later"),
    },
    mcp=_gemini_mcp,
)
_OPENCODE = Preset(
    "opencode",
    "opencode",
    "run",
    added=_options(("--format", "json")),
    yolo=("--auto",),
    passed=("OPENCODE_*", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    reader=OpencodeReader,
    plain=("--format", "default"),
    speaks=True,
    mcp=_opencode_mcp,
)
_AIDER = Preset(
    "aider",
    "aider",
    added=_options(("--yes-always",), ("--no-auto-commits",)),
    last=("--message-file", "{prompt_file}"),
    prompt_on_stdin=False,
    passed=("AIDER_*", "ANTHROPIC_API_KEY", "OPENAI_API_*", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
    requires_changes=True,
)
SCRIPT = Preset()
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (_CLAUDE, _CODEX, _GEMINI, _OPENCODE, _AIDER)}


def preset_of(command: Sequence[str], name: str | None) -> Preset:
    """The preset of that name; else that of the program that the command begins with; else a plain script."""
    if name is not None:
        return PRESETS[name].printing(command)
    return PRESETS.get(PurePath(command[0]).name, SCRIPT).printing(command) if command else SCRIPT
