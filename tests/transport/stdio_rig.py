"""The rig on stdin and stdout, in a process that prints at every opportunity.

python -m tests.transport.stdio_rig [request_deadline_ms]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from coordinator.settings import Settings
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.tool import Call
from coordinator.transport.stdio.server import claim_standard_streams, serve_stdio
from tests.transport.rig import Nothing, Pong, Rig


class LoudRig(Rig):
    """Prints in the middle of a call."""

    async def nothing(self, call: Call, given: Nothing) -> Pong:
        print("stray print", sys.stdin.read())
        os.write(1, b"stray write\n")
        await asyncio.to_thread(subprocess.run, ["echo", "stray child"], check=True)
        return await super().nothing(call, given)


async def nobody(begun: Caller | None = None) -> None:
    """Its client is not identified."""


def main() -> None:
    """Serves until the client disconnects."""
    streams = claim_standard_streams()
    toolset = LoudRig().toolset()
    deadline_ms = int(sys.argv[1]) if sys.argv[1:] else 60_000
    settings = Settings(request_deadline_ms=deadline_ms, redis_timeout_ms=deadline_ms // 2)
    served = serve_stdio(settings, {toolset.name: toolset}, [toolset.name], "default", streams, nobody)
    asyncio.run(served)
    print("stray end")


if __name__ == "__main__":
    main()
