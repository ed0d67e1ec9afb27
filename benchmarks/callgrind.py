"""A server that runs under valgrind's callgrind, so that the instructions of its functions can be counted."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from benchmarks.support import Missing
from coordinator.store.embedded import binary as server_binary
from coordinator.store.embedded.binary import Binary

PROGRAM = "valgrind"
_COUNTED = ("fcallCommand", "feedAppendOnlyFile")
"""The server's functions that run functions and append to the log; what is around depends on timers and sockets."""
_WHOLE = "processCommand"
"""What both are within."""


class Callgrind:
    """Counts the instructions of functions that a server runs, and of what they append to its log.

    Args:
        folder: where the counts are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def binary(self) -> Binary:
        """The server under callgrind, with the C library's allocator.

        Raises:
            Missing: valgrind is not installed.
        """
        if shutil.which(PROGRAM) is None:
            raise Missing("valgrind is not installed (Debian: apt-get install valgrind)")
        found = server_binary.find()
        options = [f"--toggle-collect={name}" for name in _COUNTED]
        options += [f"--dump-after={_WHOLE}", f"--callgrind-out-file={self._folder / 'out'}"]
        command = (PROGRAM, "-q", "--tool=callgrind", "--collect-atstart=no", *options, str(found.path))
        program = self._folder / "server"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        program.chmod(0o755)
        return found._replace(path=program, allocator=None)

    def instructions(self) -> int:
        """Those of the functions that have run since it was called last."""
        counted = 0
        for file in self._folder.glob("out.*"):
            if (total := re.search(r"^totals: (\d+)", file.read_text(), re.MULTILINE)) is not None:
                counted += int(total[1])
            file.unlink()
        return counted
