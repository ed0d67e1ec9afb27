"""Checks the types of the console's modules, which are written in comments (JSDoc), by TypeScript's compiler.

It comes from npm, pinned by ``node/package-lock.json``, and is installed once into ``.node``. Where npm does not
answer, this check is left out, and says so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.transport import nodejs

SOURCE = Path(__file__).parent / "node"


def compiler() -> nodejs.Node:
    """Node with the compiler.

    Raises:
        AssertionError, OSError, subprocess.TimeoutExpired: npm cannot install it.
    """
    return nodejs.installed(Path.home(), SOURCE)


def check(node: nodejs.Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the compiler."""
    return node.run("typescript/bin/tsc", arguments)


def main() -> int:
    """Checks all modules."""
    try:
        node = compiler()
    except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
        print(f"the console's modules are not checked: npm cannot install TypeScript: {str(error)[-500:]}")
        return 0
    found = check(node, "--project", str(SOURCE / "tsconfig.json"), "--pretty", "false")
    print(found.stdout or "the console's modules have the types that they say", end="" if found.stdout else "\n")
    return found.returncode


if __name__ == "__main__":
    sys.exit(main())
