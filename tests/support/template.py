"""Starts ``fleet`` commands as forks of a process that has imported them, which saves each half a second of CPU time.

What runs is the same as in a new interpreter: ``coordinator.cli.main`` with arguments, environment, directory and
standard streams of its own, and all that the end of an interpreter does but freeing its memory: that would copy what it
shares with the template, which takes three times as long as most commands. Only the command line that the system shows
differs.
The template that a fleet's own processes are forked from is a fork, too, which saves each fleet two more seconds.

``python -m`` this module ``<descriptor> <descriptor>`` is the template: for each request on the first socket, or on
connections to the second, it forks a keeper, which forks the command and tells its process id, and later its exit
code. The first request starts the template. Instead of a ``fleet`` command it may be a program of the tests (``-m``).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

_ROOT = str(Path(__file__).parents[2])
_LONGEST_REQUEST = 200_000
_SUPERVISORS = ("up", "serve", "worker")
"""Commands that start processes as forks of a template of their own."""
_NUMBER = 8
"""Bytes of a process id or exit code."""


class Forked:
    """A command that runs. What it offers is that of ``subprocess.Popen``."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self.returncode: int | None = None
        pid = self._number()
        assert pid, "the template of fleet commands has ended"
        self.pid = pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("fleet", timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = self._number()
        os.close(self._answers)

    def _number(self) -> int:
        answer = os.read(self._answers, _NUMBER)
        assert answer, "the keeper of a fleet command was killed"
        return int.from_bytes(answer, "little", signed=True)


class Template:
    """The template of this process, which ``close`` stops."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._fixed: dict[str, str] = {}
        self._name = f"fleet-template-{uuid.uuid4().hex}"

    def command(self) -> list[str]:
        """The command line, before arguments, by which other programs start a command as a fork of it."""
        self._open()
        return [sys.executable, "-IS", str(Path(__file__).with_name("forked.py")), self._name]

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether it can start a command with this environment; what the interpreter reads at its start is fixed."""
        if sys.platform != "linux":
            return False
        self._open()
        return _fixed(environment) == self._fixed

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], *standard: Any) -> Forked:
        """Starts a command.

        Args:
            standard: files for its standard input, output and error output.
        """
        answers, told = os.pipe()
        request = {"arguments": list(arguments), "environment": dict(environment), "directory": os.getcwd()}
        files = [*(file.fileno() for file in standard), told]
        socket.send_fds(self._open(), [json.dumps(request).encode()], files)
        os.close(told)
        return Forked(answers)

    def close(self) -> None:
        """Stops it. Commands that still run go on."""
        if self._process is not None and self._requests is not None:
            self._requests.close()
            self._process.wait()
        self._process = self._requests = None

    def _open(self) -> socket.socket:
        if self._requests is None:
            self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            environment = {**os.environ, "PYTHONPATH": _ROOT}
            self._fixed = _fixed(environment)
            with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as named:
                named.bind("\0" + self._name)
                named.listen()
                sockets = theirs.fileno(), named.fileno()
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, *map(str, sockets)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=sockets,
                    env=environment,
                )
        return self._requests


template = Template()


def _fixed(environment: Mapping[str, str]) -> dict[str, str]:
    begins = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
    return {name: value for name, value in environment.items() if name.startswith(begins)}


def main() -> None:
    """Serves requests until the socket is closed."""
    requests, named = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, where its end is not the template's
    before = dict(os.environ)
    _import()
    imported = {name: value for name, value in os.environ.items() if before.get(name) != value}
    while True:
        if requests in select.select([requests, named], [], [])[0]:
            request, files, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 4)
            if not request:
                return
        else:
            with named.accept()[0] as connection:
                request, files, _, _ = socket.recv_fds(connection, _LONGEST_REQUEST, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                """A keeper has ended."""
        if os.fork() == 0:
            requests.close()
            named.close()
            *standard, told = files
            _keep(told)
            for number, file in enumerate(standard):
                os.dup2(file, number)
                os.close(file)
            _end(_run(imported, **json.loads(request)))
        for file in files:
            os.close(file)


def _import() -> None:
    from coordinator.cli.commands import COMMANDS
    from coordinator.processes.supervision.template import MODULES

    gc.disable()
    for command in COMMANDS.values():
        importlib.import_module(command.target.partition(":")[0])
    for module in sorted({module for modules in MODULES.values() for module in modules}):
        prepare = getattr(importlib.import_module(module), "prepare", None)
        if prepare is not None:
            prepare()
    gc.enable()
    gc.collect()
    gc.freeze()


def _keep(told: int) -> None:
    """Returns in the command. The keeper ends with it."""
    pid = os.fork()
    if pid == 0:
        os.close(told)
        return
    os.write(told, pid.to_bytes(_NUMBER, "little"))
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, os.waitstatus_to_exitcode(status).to_bytes(_NUMBER, "little", signed=True))
    os._exit(0)


def _run(imported: Mapping[str, str], arguments: list[str], environment: Mapping[str, str], directory: str) -> int:
    """Runs a command, and returns its exit code."""
    import coordinator
    from coordinator import cli

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update({**environment, **imported})
    sys.argv = [str(Path(coordinator.__file__).with_name("__main__.py")), *arguments]
    program = cli.main
    if arguments[:1] == ["-m"]:
        del sys.argv[1:3]
        program = importlib.import_module(arguments[1]).main
    elif arguments and arguments[0] in _SUPERVISORS:
        from coordinator.processes.supervision import spawner

        spawner.start_template = _Spare(spawner.start_template).start
    try:
        program()
    except SystemExit as left:
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """Waits for threads, runs what was registered for the end, and writes what is still to be written."""
    threading._shutdown()  # type: ignore[attr-defined]  # private: as an interpreter ends
    atexit._run_exitfuncs()  # private: as an interpreter ends
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        code = 120  # as that of an interpreter
    os._exit(code)


class _Spare:
    """A fork of this command at its beginning, which becomes the first template of the processes that it supervises."""

    def __init__(self, usual: Callable[[int, Sequence[str]], Any]) -> None:
        self._usual = usual
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if not self._pid:
            self._orders.close()
            try:
                _become_template(orders)
            finally:
                os._exit(1)
        orders.close()

    def start(self, requests: int, roles: Sequence[str]) -> Any:
        """What ``start_template`` does; later ones are new interpreters."""
        if self._orders.fileno() < 0:
            return self._usual(requests, roles)
        order = {"environment": dict(os.environ), "roles": list(roles)}
        with self._orders:
            socket.send_fds(self._orders, [json.dumps(order).encode()], [requests])
        return self

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        return 0


def _become_template(orders: socket.socket) -> None:
    """Waits for the order, and ends at once if the command ends without one."""
    os.setsid()
    with orders:
        order, files, _, _ = socket.recv_fds(orders, _LONGEST_REQUEST, 1)
    if not order:
        return
    given = json.loads(order)
    os.environ.clear()
    os.environ.update(given["environment"])
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.argv = [sys.argv[0], str(files[0]), *given["roles"]]
    importlib.import_module("coordinator.processes.supervision.template").main()


if __name__ == "__main__":
    main()
