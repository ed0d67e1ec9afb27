"""Real MCP servers, which know nothing of this project.

Those from PyPI need another version of the library than the product, so ``make test`` makes an environment for them.
Those from npm are large (60 MB), so only ``make servers`` installs them, by running this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.transport import nodejs

Json = dict[str, Any]
SOURCE = Path(__file__).parents[1] / "gateway" / "node"
PLACE = nodejs.place_of(SOURCE)
INSTALLED = (PLACE / ".installed").exists()
REASON = "needs the servers that `make servers` installs"
_PYTHON = Path(os.environ.get("SERVERS_VENV", f"{sys.prefix}-servers")) / "bin"


def stdio(name: str, *arguments: str, **more: object) -> Json:
    """A connection to a server from PyPI: mcp-server-git, mcp-server-time, mcp-server-sqlite or terminal-mcp."""
    program = _PYTHON / name
    if not program.exists():
        pytest.skip("needs the environment that `make test` makes")
    return {"kind": "mcp", "command": str(program), "args": list(arguments), **more}


def npm(name: str, *arguments: str, **more: object) -> Json:
    """A connection to a server from npm, by the name of its program."""
    program = PLACE / "node_modules" / ".bin" / name
    return {"kind": "mcp", "command": str(nodejs.NODE), "args": [str(program), *arguments], **more}


def install() -> int:
    """Installs those from npm."""
    try:
        nodejs.installed(PLACE, SOURCE)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        print(f"the servers cannot be installed from npm: {str(error)[-1000:]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(install())
