"""The guard of a process: ``python -I -S guard_process.py``. It ends process groups when the process has ended.

It is started with signals such as SIGTERM blocked.

Each line on stdin says that a group is to be guarded (``+1234``), or no longer (``-1234``). At the end of stdin the
groups that are left end: they get a moment in which to end by themselves, then SIGTERM, then SIGKILL. It imports
little, because one runs beside each worker.
"""

import os
import signal
import time

OWN_SECONDS = 0.4
"""How long a group may take to end by itself. Servers see that nobody writes to them any more."""
TERM_SECONDS = 0.8
"""How long it may take after SIGTERM."""
_LOOK_SECONDS = 0.02


def started(pid: int) -> bytes:
    """When a process started, in the kernel's units; empty if there is none, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19]
    except OSError:
        return b""


def signalled(group: int, start: bytes, number: int) -> bool:
    """Signals a group, and returns whether it was there.

    Its id is not given to another process while one of its processes lives. If all had ended before this was told so,
    the id may be that of a later process, which started at another time.
    """
    if started(group) not in (b"", start):
        return False
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def end(groups: dict[int, bytes]) -> None:
    """Ends process groups. The values are when their leaders started."""
    for number, seconds in ((0, OWN_SECONDS), (signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, 0.0)):
        groups = {group: start for group, start in groups.items() if signalled(group, start, number)}
        until = time.monotonic() + seconds
        while groups and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            groups = {group: start for group, start in groups.items() if signalled(group, start, 0)}


def main() -> None:
    groups: dict[int, bytes] = {}
    rest = b""
    while data := os.read(0, 65_536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line[:1] == b"+":
                groups[group] = started(group)
            else:
                groups.pop(group, None)
    end(groups)


if __name__ == "__main__":
    main()
