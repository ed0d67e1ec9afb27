"""Runs one command and ends everything that it has started: a fork of ``python -I -S`` this file SOCKET.

It imports nothing but small modules of the standard library: there is one such process for each command that runs.
The process that they are forked from gets the files of each on its socket: input, output, and what becomes the output
of the command. All descendants of the command stay its descendants, because orphans are given to it (a subreaper), in
whatever session they are. It ends them when the command has ended, when the runner says so, and when the runner has
died, which it sees at the end of its input. If it is killed itself, the kernel kills the command, and the runner
finds the rest by FLEET_RUN in their environment.

Input: the *brief* (its length in 8 bytes, then a dictionary as ``marshal`` has it), then a line for each of the words
``stop`` (interrupt, terminate, kill), ``kill``, ``cpu`` and ``beat`` (I live). Output, a line each: ``supervisor
PID``, its own; ``started PID``; ``failed ERRNO TEXT``, it could not be started; ``ended CODE``, the command has, by
that signal if the code is negative; ``cpu SECONDS``; ``silent``, the runner was for too long; ``alive PID...``, what
outlives SIGKILL; ``gone CPU-SECONDS BYTES``, nothing is left, and the most memory that one process had.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import marshal
import os
import resource
import select
import signal
import socket
import sys
import time

LINUX = sys.platform == "linux"
_LOOK_SECONDS = 0.2
_TICK = os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
ALARM_SECONDS = 10.0
"""How long after SIGKILL a process that is still there is reported."""


def serve(requests: socket.socket) -> None:
    """Forks a supervisor for each request, until the runner has died."""
    while True:
        word, files, _, _ = socket.recv_fds(requests, 1, 4)
        if not word:
            return
        between = os.fork()
        if not between:
            # The runner adopts the orphan, so that it does not depend on this process.
            if os.fork():
                os._exit(0)
            requests.close()
            code = 1
            try:
                os.setsid()
                code = supervise(*files)
            finally:
                os._exit(code)
        for file in files:
            os.close(file)
        os.waitpid(between, 0)


def supervise(control: int, status: int, out: int, err: int) -> int:
    """Runs the command of the brief until nothing of it is left."""
    os.dup2(control, 0)
    os.dup2(status, 1)
    os.close(control)
    os.close(status)
    for descriptor in (out, err):
        os.set_inheritable(descriptor, False)
    if LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _tell("supervisor", os.getpid())
    text = _read(int.from_bytes(_read(8), "big"))
    return Run(marshal.loads(text), woken, (out, err)).until_gone() if text else 1  # noqa: S302 (from our parent)


class Run:
    """The command, and what it has started.

    Args:
        brief: ``command``, ``environment``, ``directory``, ``input`` (a file's path, or None), ``grace`` (the
            seconds from SIGINT to SIGTERM, and from that to SIGKILL), ``orphaned`` (the same for when the runner
            has died), ``silence`` (the seconds that it may say nothing; 0: for ever).
        woken: can be read when a signal has come.
        output: become the output of the command.
    """

    def __init__(self, brief: dict, woken: int, output: tuple[int, int]) -> None:  # type: ignore[type-arg]
        self._output = output
        self._brief = brief
        self._woken = woken
        self._input: list[int] = [0]
        self._leader = 0
        self._running = False
        self._steps: list[tuple[float, int]] = []
        """What is still to be sent, and when."""
        self._heard = time.monotonic()
        self._killing = 0.0
        self._alarmed: list[int] = []
        self._cpu_seconds = 0.0
        self._memory = 0

    def until_gone(self) -> int:
        self._leader = self._start()
        if not self._leader:
            return 0
        # The ends of the command's output are its own now, so that they close when it has ended.
        for descriptor in self._output:
            os.close(descriptor)
        _tell("started", self._leader)
        while self._reap():
            now = time.monotonic()
            while self._steps and self._steps[0][0] <= now:
                self._send(self._steps.pop(0)[1])
            wait = self._patience(now) if not self._steps else max(self._steps[0][0] - now, 0)
            if self._killing:
                self._kill_rest(now)
                wait = _LOOK_SECONDS
            ready = select.select([self._woken, *self._input], [], [], wait)[0]
            if self._woken in ready:
                os.read(self._woken, 512)
            if 0 in ready:
                self._hear()
        _tell("gone", round(self._cpu_seconds, 3), self._memory)
        return 0

    def _patience(self, now: float) -> float | None:
        """How long the runner may be silent yet; None: for ever. A frozen one cannot renew its claim, either."""
        if not self._brief["silence"] or not self._input:
            return None
        left: float = self._heard + self._brief["silence"] - now
        if left > 0:
            return left
        self._input = []
        _tell("silent")
        self._end(self._brief["orphaned"])
        return 0.0

    def _start(self) -> int:
        """Starts the command; 0: it could not be started, which is reported."""
        brief = self._brief
        said, says = os.pipe()  # not inherited by what is executed
        above = os.getpid()
        child = os.fork()
        if child == 0:
            self._become(above, says)
        os.close(says)
        why = os.read(said, 512)
        os.close(said)
        if why:
            os.waitpid(child, 0)
            number, _, what = why.decode().partition(" ")
            _tell("failed", number, f"{what}: {os.strerror(int(number))}")
            return 0
        self._running = True
        brief["environment"] = None  # not needed here any more, and it has secrets
        return child

    def _become(self, above: int, says: int) -> None:
        """Becomes the command, in a process of its own."""
        brief, doing = self._brief, "cannot start"
        try:
            os.setsid()
            if LINUX:
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != above:
                    os._exit(1)
                # If memory runs out, the command is to be killed rather than the runner.
                with open("/proc/self/oom_score_adj", "r+") as score:
                    least = max(int(score.read() or 0), 300)
                    score.seek(0)
                    score.write(str(least))
            doing = str(brief["input"])
            source = os.open(brief["input"] or os.devnull, os.O_RDONLY)
            doing = brief["directory"]
            os.chdir(brief["directory"])
            for number in (
                signal.SIGCHLD,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
                signal.SIGPIPE,
                signal.SIGQUIT,
            ):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            os.dup2(source, 0)
            os.dup2(self._output[0], 1)
            os.dup2(self._output[1], 2)
            doing = brief["command"][0]
            os.execvpe(doing, brief["command"], brief["environment"])  # noqa: S606 (the point: no shell)
        except OSError as error:
            os.write(says, b"%d %s" % (error.errno or errno.EIO, doing.encode(errors="replace")[:400]))
        finally:
            os._exit(127)

    def _hear(self) -> None:
        words = os.read(0, 4096).split(b"\n")
        self._heard = time.monotonic()
        if words == [b""]:  # the runner is dead
            self._input = []
            self._end(self._brief["orphaned"])
            return
        for word in words:
            if word == b"stop":
                self._end(self._brief["grace"])
            elif word == b"kill":
                self._end(None)
            elif word == b"cpu":
                _tell("cpu", self._cpu())

    def _end(self, grace: tuple[float, float] | None) -> None:
        """Begins to end everything: SIGINT to the command, SIGTERM and SIGKILL to all; None: SIGKILL at once."""
        now = time.monotonic()
        if grace is None:
            self._steps = [(now, signal.SIGKILL)]
        elif not self._steps and not self._killing:
            first, second = grace
            self._steps = [
                (now, signal.SIGINT), (now + first, signal.SIGTERM), (now + first + second, signal.SIGKILL)
            ]  # fmt: skip

    def _send(self, number: int) -> None:
        if number == signal.SIGINT:
            if self._running:
                os.kill(self._leader, number)
        elif number == signal.SIGKILL:
            self._killing = self._killing or time.monotonic()
        else:
            for pid, began in self._below().items():
                send(pid, began, number)

    def _kill_rest(self, now: float) -> None:
        """One round: processes that were started since the last one are found in the next."""
        below = self._below()
        for pid, began in below.items():
            send(pid, began, signal.SIGKILL)
        alive = sorted(below)
        if alive and now - self._killing > ALARM_SECONDS and alive != self._alarmed:
            self._alarmed = alive
            _tell("alive", *alive)

    def _reap(self) -> bool:
        """Takes what has ended; False: nothing is left."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._cpu_seconds += used.ru_utime + used.ru_stime
            self._memory = max(self._memory, used.ru_maxrss * (1024 if LINUX else 1))
            if pid == self._leader and self._running:
                self._running = False
                _tell("ended", os.waitstatus_to_exitcode(status))
                # What it has left behind gets SIGTERM, and SIGKILL a little later.
                if not self._killing:
                    now, rest = time.monotonic(), self._brief["grace"][1]
                    self._steps = [(now, signal.SIGTERM), (now + rest, signal.SIGKILL)]

    def _below(self) -> dict[int, int]:
        """Living descendants, with when each was started, by the system's clock."""
        if not LINUX:
            return {self._leader: 0} if self._running else {}
        parents: dict[int, tuple[int, int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (stat := stat_of(int(name))) and stat[0] != "Z":
                parents[int(name)] = (stat[1], stat[2])
        pids: dict[int, int] = {}
        above = {os.getpid()}
        while above:
            below = {pid: began for pid, (parent, began) in parents.items() if parent in above and pid not in pids}
            pids |= below
            above = set(below)
        return pids

    def _cpu(self) -> float:
        """Seconds of CPU time that everything below has used, ended processes included."""
        ticks = sum(stat[3] for pid in self._below() if (stat := stat_of(pid)))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return round(ended.ru_utime + ended.ru_stime + ticks / _TICK, 2)


def stat_of(pid: int) -> tuple[str, int, int, int] | None:
    """State, parent, start time and ticks of a process; None: there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            rest = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    # Times of its ended children are counted with it, because nobody else has them.
    return rest[0].decode(), int(rest[1]), int(rest[19]), sum(map(int, rest[11:15]))


def send(pid: int, began: int, number: int) -> None:
    """Signals a process, but no later one with the same id."""
    try:
        if not LINUX:
            os.killpg(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            stat = stat_of(pid)
            if stat is not None and stat[2] == began:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except (ProcessLookupError, PermissionError):
        pass


def _read(size: int) -> bytes:
    """So many bytes of the input; fewer: it has ended."""
    text = b""
    while len(text) < size and (part := os.read(0, size - len(text))):
        text += part
    return text


def _tell(*words: object) -> None:
    try:
        os.write(1, " ".join(map(str, words)).encode().replace(b"\n", b" ") + b"\n")
    except OSError:
        pass  # the runner is dead


if __name__ == "__main__":
    gc.freeze()  # so that forks share it
    serve(socket.socket(fileno=int(sys.argv[1])))
