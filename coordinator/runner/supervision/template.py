"""The process that supervisors are forked from: starting an interpreter takes longer than all else that they do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from coordinator.runner.supervision import supervisor

_OF_PYTHON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Template:
    """Started when the first supervisor is needed, and again if it was killed. It ends with this process."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0: it does not run."""
        return 0 if self._process is None else self._process.pid

    def fork(self, files: Sequence[int]) -> None:
        """Starts a supervisor, which takes over these files: its input and output, and the command's two outputs."""
        try:
            self._ask(files)
        except (BrokenPipeError, ConnectionResetError):  # it was killed
            self.close()
            self._ask(files)

    def close(self) -> None:
        """Ends it; the supervisors go on."""
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._requests = self._process = None

    def _ask(self, files: Sequence[int]) -> None:
        if self._requests is None:
            self._requests, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={name: os.environ[name] for name in _OF_PYTHON if name in os.environ},
                    start_new_session=True,
                )
        socket.send_fds(self._requests, [b"+"], list(files))


template = Template()
"""That of this process."""
