"""An MCP server that remembers words for its session: ``python stateful_server.py [NAME]``.

Tools: ``add`` adds a word and returns all words of the session, ``die`` ends the process, and ``hold`` is ``add`` once
a file exists. Over stdio, requests are answered as soon as they can be, in any order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.raw_server import said

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"word": TEXT, "path": TEXT}}}
    for name in ("add", "hold", "die")
]


def answer(asked: Json, words: list[str], name: str) -> Json:
    """The answer to a request of a session with these words."""
    if asked["method"] == "tools/list":
        return {"result": {"tools": TOOLS}}
    if asked["method"] != "tools/call":
        return said(asked, "plain")
    tool, given = asked["params"]["name"], asked["params"].get("arguments", {})
    if tool == "die":
        os._exit(1)
    if tool == "hold":
        Path(given["path"] + ".begun").touch()
        while not Path(given["path"]).exists():
            time.sleep(0.01)
    words.append(given["word"])
    found = {"words": [*words], "pid": os.getpid(), "name": name}
    return {"result": {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}}


def main() -> None:
    words: list[str] = []
    writing = threading.Lock()

    def handle(asked: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(asked, words, sys.argv[-1])})
        with writing:
            print(body, flush=True)

    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("id") is not None:
            threading.Thread(target=handle, args=(asked,), daemon=True).start()


if __name__ == "__main__":
    main()
