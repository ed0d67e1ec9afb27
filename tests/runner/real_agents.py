"""The real ``claude`` and ``codex``, from npm, with a stand-in of their models, and ``gemini`` and ``opencode``.

They are large (900 MB), so only ``make agents`` installs them, by running this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.runner.model import Model
from tests.transport import nodejs

SOURCE = Path(__file__).parent / "node"
PLACE = nodejs.place_of(SOURCE)
INSTALLED = (PLACE / ".installed").exists()
REASON = "needs the command lines that `make agents` installs"
NAMES = ("claude", "codex")
"""Those whose models have a stand-in."""
HOSTS = (*NAMES, "gemini", "opencode")
WORK = 'RUN: echo "work of $FLEET_ITEM_ID" > work.txt\n'
"""An item's text, for the stand-in."""
_CODEX = """
model = "made-up"
model_provider = "made-up"
[model_providers.made-up]
name = "made-up"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
"""


def program(name: str) -> str:
    """The path of a command line: one of ``HOSTS``."""
    packages = PLACE / "node_modules"
    if name == "claude":
        return str(next((packages / "@anthropic-ai").glob("claude-code-*/claude")))
    return str(packages / "opencode-linux-x64" / "bin" / name if name == "opencode" else packages / ".bin" / name)


def command(name: str, *more: str) -> list[str]:
    """A command line that may call its shell tool."""
    allowed = ["--allowedTools", "Bash", *more] if name == "claude" else list(more)
    return [program(name), *allowed]


def environment(home: Path, model: Model) -> dict[str, str]:
    """What makes them work with the stand-in, in a home of their own."""
    codex, claude = home / "codex", home / "claude"
    codex.mkdir(parents=True)
    (codex / "config.toml").write_text(_CODEX.format(url=model.url))
    return {
        **bare_environment(home),
        "CODEX_HOME": str(codex),
        "OPENAI_API_KEY": "sk-made-up-of-codex",
        "CLAUDE_CONFIG_DIR": str(claude),
        "ANTHROPIC_API_KEY": "sk-made-up-of-claude",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def bare_environment(home: Path) -> dict[str, str]:
    """A home of their own, and node, for which codex and gemini are scripts."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": f"{nodejs.NODE.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}


def install() -> int:
    """Installs them, and says which they are."""
    try:
        nodejs.installed(PLACE, SOURCE)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        print(f"the command lines of agents cannot be installed from npm: {str(error)[-1000:]}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as home:
        for name in (one for one in HOSTS if Path(program(one)).exists()):
            subprocess.run([program(name), "--version"], check=True, env={**os.environ, **bare_environment(Path(home))})
    return 0


if __name__ == "__main__":
    sys.exit(install())
