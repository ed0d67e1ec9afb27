"""``killed.py <url> <project> <flow> <script>`` pauses a workflow as an operator, and dies before the script."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from coordinator.cli.acting import operator
from coordinator.operations.flows import pause_flow
from coordinator.settings import Settings
from coordinator.store import Script, Store


async def run(url: str, project: str, flow: str, last: str) -> None:
    """Pauses it."""
    store = Store(url, 60_000)
    await store.open()
    go_on, noted = store.run, list[str]()

    async def dying(script: Script[Any], *words: Any, **more: Any) -> Any:
        if noted and script.name == last:
            os.kill(os.getpid(), signal.SIGKILL)
        noted.append(script.name)
        return await go_on(script, *words, **more)

    store.run = dying  # type: ignore[method-assign]
    await pause_flow(operator(store, Settings(), "it loops"), project, int(flow))


def main() -> int:
    """Runs it with the arguments of this process."""
    asyncio.run(run(*sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
