"""Runs a command below a supervisor process of its own, and sees to it that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.runner.protocols import Stream
from coordinator.runner.supervision import strays
from coordinator.runner.supervision.supervisor import ALARM_SECONDS
from coordinator.runner.supervision.template import template

Sink = Callable[[Stream, bytes], None]
Grace = tuple[float, float]
"""Seconds from SIGINT to SIGTERM, and from SIGTERM to SIGKILL."""

_CHUNK = 1 << 18
LATE_SECONDS = 15.0
"""How long after the last signal a supervisor may be silent before it counts as hung."""
_CLOSE_SECONDS = 1.0
"""How long output may stay open when every process is dead: something else may hold it."""


@dataclass(slots=True)
class Ended:
    """How a command ended, when nothing of it is left."""

    code: int = -9
    """Its exit code; negative: the signal that ended it."""
    failed: str = ""
    """Why it could not be started."""
    errno: int = 0
    unsupervised: bool = False
    """Its supervisor was killed, or this process was frozen, so how it would have ended is not known."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(slots=True)
class Supervised:
    """A command that runs; made by ``start``."""

    run_id: str
    pid: int = 0
    """The command's; 0 until it has started."""
    supervisor: int = 0
    """Its supervisor's; 0 until that has begun."""
    alive: tuple[int, ...] = ()
    """What has outlived SIGKILL."""
    signalled: bool = False
    """Whether ``stop`` or ``kill`` came before the command had ended."""
    leader_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the command itself has ended; what it has started may run on for the grace."""
    changed: Callable[[], None] = lambda: None
    """Called when ``alive`` has changed."""
    _control: int = -1
    _ended: Ended = field(default_factory=Ended)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _done: bool = False
    """The supervisor has said that nothing is left."""
    _said: bytes = b""
    _cpu: asyncio.Future[float] | None = None
    _open: set[int] = field(default_factory=set)
    _closed: asyncio.Event = field(default_factory=asyncio.Event)
    _began: float = field(default_factory=time.monotonic)
    _patience: float = 0.0
    _silence: float = 0.0
    _hung: asyncio.TimerHandle | None = None

    async def begin(self, brief: bytes, sink: Sink) -> None:
        """Starts the supervisor, with the command that the brief describes."""
        pipes = [os.pipe() for _ in range(4)]
        (control, self._control), (status, says), (out, writes_out), (err, writes_err) = pipes
        theirs = (control, says, writes_out, writes_err)
        try:
            template.fork(theirs)
        except BaseException:
            for descriptor in (self._control, status, out, err):
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        loop = asyncio.get_running_loop()
        self._open = {out, err}
        streams: tuple[tuple[int, Stream], ...] = ((out, "stdout"), (err, "stderr"))
        for read, stream in streams:
            os.set_blocking(read, False)
            loop.add_reader(read, self._read, read, stream, sink)
        loop.add_reader(status, self._report, status)
        # It may take a moment for more than a pipe holds. A broken pipe is noticed by its other end, too.
        with contextlib.suppress(BrokenPipeError):
            await asyncio.to_thread(_write_all, self._control, brief)

    async def wait(self) -> Ended:
        """Returns when nothing of the command is left and its output is read; a cancelled wait stops nothing."""
        await self._gone.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._closed.wait()
        for descriptor in list(self._open):
            self._close(descriptor)
        return self._ended

    def stop(self) -> None:
        """Interrupts the command, then terminates, then kills it and all that it has started, with grace between."""
        self._say(b"stop", self._patience)

    def kill(self) -> None:
        """Kills the command and all that it has started, at once."""
        self._say(b"kill", 0.0)

    async def cpu(self) -> float:
        """Seconds of CPU time used so far, by everything that the command has started; 0: not known."""
        if self._gone.is_set():
            return self._ended.cpu_seconds
        if self._cpu is None or self._cpu.done():
            self._cpu = asyncio.get_running_loop().create_future()
            self._write(b"cpu\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                return await asyncio.shield(self._cpu)
        return 0.0

    def _say(self, word: bytes, patience: float) -> None:
        if self._gone.is_set():
            return
        self.signalled = self.signalled or not self.leader_ended.is_set()
        self._write(word + b"\n")
        self._expect(patience + LATE_SECONDS)

    def _expect(self, seconds: float) -> None:
        """Ends the supervisor unless it says something within the time."""
        if self._hung is not None:
            self._hung.cancel()
        self._hung = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _beat(self) -> None:
        if self._silence and self._control >= 0:
            self._write(b"beat\n")
            asyncio.get_running_loop().call_later(self._silence / 4, self._beat)

    def _give_up(self) -> None:
        if self.supervisor:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.supervisor, signal.SIGKILL)

    def _write(self, words: bytes) -> None:
        with contextlib.suppress(OSError):  # the supervisor has ended, as ``wait`` says
            os.write(self._control, words)

    def _report(self, descriptor: int) -> None:
        part = os.read(descriptor, 65_536)
        if not part:
            self._supervisor_ended(descriptor)
            return
        *lines, self._said = (self._said + part).split(b"\n")
        for line in lines:
            kind, _, rest = line.decode(errors="replace").partition(" ")
            self._take(kind, rest)

    def _take(self, kind: str, rest: str) -> None:
        if kind == "supervisor":
            self.supervisor = int(rest)
        elif kind == "started":
            self.pid = int(rest)
            self._beat()
        elif kind == "silent":
            self._ended.unsupervised = True
        elif kind == "failed":
            number, _, self._ended.failed = rest.partition(" ")
            self._ended.errno, self._ended.code = int(number), 127
            self.leader_ended.set()
        elif kind == "ended":
            self._ended.code, self._ended.seconds = int(rest), time.monotonic() - self._began
            self.leader_ended.set()
            self._expect(self._patience + LATE_SECONDS)
        elif kind == "cpu" and self._cpu is not None and not self._cpu.done():
            self._cpu.set_result(float(rest))
        elif kind == "alive":
            self.alive = tuple(map(int, rest.split()))
            if self._hung is not None:  # it is not hung: it waits for what it cannot end
                self._hung.cancel()
            self.changed()
        elif kind == "gone":
            seconds, _, memory = rest.partition(" ")
            self._ended.cpu_seconds, self._ended.memory_bytes = float(seconds), int(memory)
            self._done = True

    def _supervisor_ended(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(descriptor)
        if self._hung is not None:
            self._hung.cancel()
        os.close(descriptor)
        os.close(self._control)
        self._control = -1
        # It is a child of this process if that adopts orphans. Its end is why there is no more of its output.
        with contextlib.suppress(ChildProcessError):
            if self.supervisor:
                os.waitpid(self.supervisor, 0)
        if self._done or self._ended.failed:
            self._gone.set()
            return
        self._ended.unsupervised = self._ended.unsupervised or not self.leader_ended.is_set()
        self._ended.seconds = self._ended.seconds or time.monotonic() - self._began
        self.leader_ended.set()
        task = loop.create_task(self._sweep(), name="sweep")
        task.add_done_callback(lambda _: self._gone.set())

    async def _sweep(self) -> None:
        began = time.monotonic()
        while left := await asyncio.to_thread(strays.kill, {self.run_id}):
            # What a round has killed may be seen in the next one, too.
            if tuple(left) != self.alive and time.monotonic() - began > ALARM_SECONDS:
                self.alive = tuple(left)
                self.changed()
            await asyncio.sleep(strays.ROUND_SECONDS)
        self.alive = ()

    def _read(self, descriptor: int, stream: Stream, sink: Sink) -> None:
        try:
            part = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if part:
            sink(stream, part)
        else:
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._open.discard(descriptor)
        if not self._open:
            self._closed.set()


async def start(
    command: Sequence[str],
    *,
    run_id: str,
    environment: Mapping[str, str],
    directory: Path,
    sink: Sink,
    source: Path | None = None,
    grace: Grace = (10.0, 5.0),
    orphaned: Grace = (0.0, 2.0),
    silence: float = 0.0,
) -> Supervised:
    """Starts a command. Whether that has succeeded is told by ``Supervised.wait``.

    Args:
        command: program and arguments; no shell sees them.
        run_id: 32 hex digits, also in ``environment`` as FLEET_RUN, by which what is left of it can be found.
        environment: all that the command gets.
        sink: is called with output as it comes, in pieces of any length, in this event loop.
        source: a file that becomes its standard input; None: it has none.
        orphaned: the grace if this process dies.
        silence: everything is ended when this event loop has not run for so many seconds; 0: never.

    Raises:
        OSError: no process can be started.
    """
    brief = marshal.dumps(
        {
            "command": list(command),
            "environment": dict(environment),
            "directory": str(directory),
            "input": None if source is None else str(source),
            "grace": grace,
            "orphaned": orphaned,
            "silence": silence,
        }
    )
    run = Supervised(run_id, _patience=sum(grace), _silence=silence)
    await run.begin(len(brief).to_bytes(8, "big") + brief, sink)
    return run


def _write_all(descriptor: int, text: bytes) -> None:
    while text:
        text = text[os.write(descriptor, text) :]
