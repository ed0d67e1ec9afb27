"""The key server of tests: it is started, configured, killed and restarted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

_SCRIPT = Path(__file__).with_name("key_server.py")


class KeyServer:
    """One key server process; ``kill`` and ``start`` keep its port.

    Args:
        certificate: a PEM file with certificate and key: it then speaks TLS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self._certificate = certificate
        self._process: subprocess.Popen[str] | None = None
        self._routes: dict[str, dict[str, Any]] = {}
        self.port = 0
        self.start()

    def start(self) -> None:
        """Starts the process; it answers as it did before it was killed."""
        command = [
            sys.executable,
            str(_SCRIPT),
            str(self.port),
            *([str(self._certificate)] if self._certificate else []),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = self._line()["port"]
        for path, route in self._routes.items():
            self._tell({"path": path, **route})

    def kill(self) -> None:
        """Ends the process with SIGKILL: connections are refused from now on."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def url(self, path: str = "/jwks") -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}{path}"

    def serve(self, document: object, path: str = "/jwks", **route: Any) -> None:
        """Answers with a document (as JSON, or text as it is) from now on."""
        body = document if isinstance(document, str) else json.dumps(document)
        self._set(path, {"body": body, **route})

    def misbehave(self, mode: str, path: str = "/jwks", **route: Any) -> None:
        """Keeps what it serves, and serves it badly from now on; see ``key_server``."""
        self._set(path, {**self._routes.get(path, {}), "mode": mode, **route})

    def count(self, path: str = "/jwks") -> int:
        """Requests for a path so far (since the process started)."""
        return int(self._tell({"count": path})["count"])

    def _set(self, path: str, route: dict[str, Any]) -> None:
        self._routes[path] = route
        if self._process is not None:
            self._tell({"path": path, **route})

    def _tell(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the key server ended with {self._process.wait(60)}"
        found: dict[str, Any] = json.loads(line)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
