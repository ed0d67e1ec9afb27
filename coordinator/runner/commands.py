"""Checks before the first item is claimed that commands can be started, as far as that is known then."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coordinator.runner.options import Options
from coordinator.runner.protocols import Program, Workspaces

SHELL = "/bin/sh"
HEAD_BYTES = 256
"""As much of a file as the kernel looks at."""
_WORKSPACE = "{workspace}/"
_OF_SHELLS = frozenset("|&;<>(){}$`\\\n")
"""A shell command with one of them may be more than a program with arguments."""
_NOT_IN_NAMES = frozenset("=~*?[!")
"""With one of them, the first word of a shell command is no name of a program."""
_SYNTAX_SECONDS = 10.0

Option = Literal["command", "setup", "before", "after", "teardown", "verify"]


class CannotStart(Exception):
    """A command of the operator cannot be started: ``option`` names it as in the setting ``runners``."""

    def __init__(self, option: Option, problem: str) -> None:
        super().__init__(f"the command {problem}" if option == "command" else f"--{option}: {problem}")
        self.option = option


def program_at(path: Path) -> Program:
    try:
        seen = path.stat()
        if not stat.S_ISREG(seen.st_mode) or not os.access(path, os.X_OK):
            return Program("directory" if stat.S_ISDIR(seen.st_mode) else "not executable")
        with path.open("rb") as file:
            return Program("program", file.read(HEAD_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return Program("missing")
    except PermissionError:  # it may be executed even so
        return Program("program", b"\0")
    except OSError as error:
        return Program("missing", why=error.strerror or "")


def check(options: Options, workspaces: Workspaces) -> None:
    """Checks the command, ``--verify`` and the hooks.

    What a hook or the command may still make in the workspace is not known yet.
    """
    hooks, environment = workspaces.hooks, options.environment
    looks = _Looks(workspaces, environment)
    looks.shell("setup", hooks.setup, made=False)
    looks.shell("before", hooks.before, made=bool(hooks.setup))
    looks.words("command", options.command[0], made=bool(hooks.setup or hooks.before))
    if options.verify:
        looks.words("verify", options.verify[0], made=True)
    looks.shell("after", hooks.after, made=True)
    looks.shell("teardown", hooks.teardown, made=True)


@dataclass(frozen=True, slots=True)
class _Looks:
    """``made``: whether something before the command can make files in the workspace."""

    workspaces: Workspaces
    environment: Mapping[str, str]

    def words(self, option: Option, program: str, *, made: bool) -> None:
        """Looks at the program of a command that is executed without a shell."""
        path = program.removeprefix(_WORKSPACE)
        if "{" in path:
            return
        if "/" in program:
            program_words = self.workspaces.program(path, made=made)
            if program_words is not None and (problem := self._problem(program_words)):
                raise CannotStart(option, f"{program} {problem}")
        elif self._lacks(program):
            raise CannotStart(option, f"{program} was not found in the directories of PATH")

    def shell(self, option: Option, command: str, *, made: bool) -> None:
        if not command:
            return
        if problem := _shell(self.environment, "-n", "-c", command):
            raise CannotStart(option, f"the shell cannot read it: {problem}")
        program = "" if _OF_SHELLS & set(command) else command.split()[0].strip("'\"")
        if not program or _NOT_IN_NAMES & set(program):
            return
        # Programs that PATH lacks may be words of the shell itself.
        if "/" in program or _shell(self.environment, "-c", 'command -v "$1"', "sh", program):
            self.words(option, program, made=made)

    def _problem(self, program: Program) -> str:
        """Why a program cannot be started; empty: nothing is known that is against it."""
        if program.kind == "missing":
            return program.why or "does not exist"
        if program.kind != "program":
            return "is a directory" if program.kind == "directory" else "is not executable"
        first = program.head.partition(b"\n")[0]
        if not first.startswith(b"#!"):
            return "" if b"\0" in program.head else "is neither a program nor a script: it does not begin with #!"
        interpreter, _, rest = first[2:].decode(errors="replace").strip(" \t").replace("\t", " ").partition(" ")
        if os.path.isabs(interpreter) and program_at(Path(interpreter)).kind != "program":
            return f"names the interpreter {interpreter!r}, which does not exist or is not executable"
        if os.path.basename(interpreter) == "env":
            word = rest.strip()
            if word.startswith("-S "):
                word = word[3:].split()[0]
            if word and word[0] != "-" and "=" not in word and "/" not in word and self._lacks(word):
                return f"names the interpreter {word!r}, which was not found in the directories of PATH"
        return ""

    def _lacks(self, name: str) -> bool:
        """Whether PATH certainly has no such program: relative directories in it are in the workspace."""
        path = self.environment.get("PATH", os.defpath)
        return all(map(os.path.isabs, path.split(os.pathsep))) and shutil.which(name, path=path) is None


def _shell(environment: Mapping[str, str], *words: str) -> str:
    """What the shell says against a command that it only reads; empty: nothing."""
    try:
        ended = subprocess.run(
            [SHELL, *words],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SYNTAX_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # the hook will say it
    if not ended.returncode:
        return ""
    return " ".join(ended.stderr.decode(errors="replace").split()) or "it is not there"
