"""The real ``claude`` and ``codex``, from npm, with a stand-in of their models.

They are large (700 MB), so only ``make agents`` installs them, by running this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.runner.model import Model
from tests.transport import nodejs

SOURCE = Path(__file__).parent / "node"
PLACE = nodejs.place_of(SOURCE)
INSTALLED = (PLACE / ".installed").exists()
REASON = "needs the command lines that `make agents` installs"
NAMES = ("claude", "codex")
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
    """The path of a command line: ``claude``, ``codex``."""
    packages = PLACE / "node_modules"
    if name == "codex":
        return str(packages / ".bin" / "codex")
    return str(next((packages / "@anthropic-ai").glob("claude-code-*/claude")))


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
        # codex is a script for node.
        "PATH": f"{nodejs.NODE.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "CODEX_HOME": str(codex),
        "OPENAI_API_KEY": "sk-made-up-of-codex",
        "CLAUDE_CONFIG_DIR": str(claude),
        "ANTHROPIC_API_KEY": "sk-made-up-of-claude",
        "ANTHROPIC_BASE_URL": model.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
    }


def install() -> int:
    """Installs them, and says which they are."""
    try:
        nodejs.installed(PLACE, SOURCE)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        print(f"the command lines of agents cannot be installed from npm: {str(error)[-1000:]}", file=sys.stderr)
        return 1
    path = f"{nodejs.NODE.parent}{os.pathsep}{os.environ['PATH']}"
    for name in NAMES:
        subprocess.run([program(name), "--version"], check=True, env={**os.environ, "PATH": path})
    return 0


if __name__ == "__main__":
    sys.exit(install())
