"""Runs the benchmarks: ``python -m benchmarks [NAME [ARGUMENTS...]]``."""

from __future__ import annotations

import importlib
import sys

ALL = ("frontend", "link")


def main() -> int:
    """Runs one by name with its arguments, or all of them."""
    names, arguments = ((sys.argv[1],), sys.argv[2:]) if len(sys.argv) > 1 else (ALL, [])
    if unknown := [name for name in names if name not in ALL]:
        print(f"no benchmark '{unknown[0]}'; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    for name in names:
        importlib.import_module(f"benchmarks.{name}").main(*arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
