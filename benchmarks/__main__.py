"""Runs the benchmarks: ``python -m benchmarks [NAME [ARGUMENTS...]]``.

Without a name all of them run, in sizes that take a few minutes. The docstring of each says what it measures, how, and
which arguments give the full sizes. If one fails, the others still run; the exit code is then 1.
"""

from __future__ import annotations

import importlib
import inspect
import sys

from benchmarks.support import Failed, Missing, console

ALL = (
    "frontend",
    "client",
    "runner",
    "loop",
    "scaling",
    "cluster",
    "move",
    "link",
    "way",
    "loader",
    "memory",
    "store",
    "resources",
    "allocator",
    "postgres",
    "held",
    "tools_at_scale",
    "largest",
    "search",
    "navigation",
    "equality",
    "steps",
    "sessions",
    "identity",
    "gateway",
    "overload",
    "feed",
    "console",
)


def main() -> int:
    """Runs one by name with its arguments, or all of them."""
    names, arguments = ((sys.argv[1],), sys.argv[2:]) if len(sys.argv) > 1 else (ALL, [])
    if unknown := [name for name in names if name not in ALL]:
        print(f"no benchmark '{unknown[0]}'; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        try:
            inspect.signature(module.main).bind(*arguments)
        except TypeError as error:
            print(f"{name}: {error}\n\n{module.__doc__}", file=sys.stderr)
            return 2
        console.print(f"[bold]{name}[/bold]: {str(module.__doc__).splitlines()[0]}")
        try:
            module.main(*arguments)
        except Missing as missing:
            console.print(f"{name}: skipped, {missing}\n")
        except Failed as failure:
            failed.append(f"{name}: failed, {failure}")
            console.print(failed[-1] + "\n")
    # Repeated at the end, where they are not overlooked.
    if len(names) > 1:
        console.print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
