"""Runs the benchmarks: ``python -m benchmarks [NAME [ARGUMENTS...]] [--smallest]``.

Without a name all of them run, in sizes that take a few minutes. The docstring of each says what it measures, how, and
which arguments give the full sizes. ``--smallest`` makes the smallest rounds instead: they take seconds, say nothing of
speed, and show that a benchmark still works. If one fails, because of an answer that is an error or not as expected,
the others still run; the exit code is then 1. What needs something that is not installed is listed as not run.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Sequence

from benchmarks.support import Failed, Missed, Missing, console, left_out

ALL = {
    "frontend": ("1", "0.1"),
    "client": ("1", "10"),
    "runner": ("1", "2", "2", "1"),
    "loop": ("1", "20", "4"),
    "scaling": ("1", "0.1", "everysec"),
    "cluster": ("1", "8", "0.05", "1"),
    "move": ("200", "1"),
    "link": ("1", "640"),
    "way": (),
    "instructions": ("2",),
    "loader": ("200", "2", "20"),
    "memory": ("200", "1", "20"),
    "store": ("200,400", "1", "20"),
    "resources": ("200", "1", "20"),
    "allocator": ("400", "1", "50"),
    "postgres": ("1000", "1", "100", "10"),
    "held": ("50",),
    "tools_at_scale": ("200,400", "1", "2"),
    "largest": ("100", "1"),
    "search": ("200,400", "3"),
    "navigation": ("", "5"),
    "equality": ("60", "1"),
    "steps": ("20", "1", "5", "0.1"),
    "sessions": ("10", "5"),
    "identity": ("1", "0.1", "20", "5"),
    "gateway": ("16", "50", "200"),
    "overload": ("0.2", "everysec", "20", "600", "0.4"),
    "feed": ("10", "0.5", "1", "2"),
    "console": ("200", "1", "0.5", "10", "5"),
}
"""Name -> the arguments of its smallest round."""


def _run(name: str, arguments: Sequence[str], smallest: bool) -> str:
    """Runs one; returns how it has failed, '' if it has not."""
    module = importlib.import_module(f"benchmarks.{name}")
    console.print(f"[bold]{name}[/bold]: {str(module.__doc__).splitlines()[0]}")
    try:
        module.main(*arguments)
    except Missing as missing:
        left_out.append(f"{name}: not run, {missing}")
        console.print(f"{left_out[-1]}\n", markup=False)
    except Missed as missed:
        console.print(f"a goal was missed: {missed}\n", markup=False)
        return "" if smallest else str(missed)
    except Exception as error:
        if not isinstance(error, Failed):
            traceback.print_exc()
        return str(error) if isinstance(error, Failed) else repr(error)
    return ""


def main() -> int:
    """Runs one by name with its arguments, or all of them."""
    given = sys.argv[1:]
    if smallest := "--smallest" in given:
        given.remove("--smallest")
    names, arguments = given[:1] or [*ALL], given[1:]
    if names[0] not in ALL:
        print(f"no benchmark '{names[0]}'; there are: {', '.join(ALL)}", file=sys.stderr)
        return 2
    if arguments:
        module = importlib.import_module(f"benchmarks.{names[0]}")
        try:
            inspect.signature(module.main).bind(*arguments)
        except TypeError as error:
            print(f"{names[0]}: {error}\n\n{module.__doc__}", file=sys.stderr)
            return 2
    failed = []
    left_out.clear()
    for name in names:
        if why := _run(name, arguments or (ALL[name] if smallest else ()), smallest):
            failed.append(f"{name}: failed, {why}")
            console.print(f"{failed[-1]}\n", markup=False)
    if len(names) > 1:  # repeated at the end, where they are not overlooked
        console.print("\n".join((*left_out, *failed)), markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
