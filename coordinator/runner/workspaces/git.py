"""Runs git, so that nothing of the runner's environment, and little of a user's settings, changes what it does."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from coordinator.backoff import Backoff
from coordinator.runner.environment import absolute

OLDEST = (2, 36)
"""Of git: earlier ones cannot list worktrees in a form that is safe to read."""
SECONDS = 600.0
"""How long one git command may take."""
_KEPT = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_SSL_CAINFO")
"""Variables of git that do not direct it elsewhere."""
_SEARCHED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables with directories in which programs and libraries are found."""
SETTINGS = (
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),  # neither leaves a process behind
    *("-c", "core.fsmonitor=false"),  # it may name a program, which would stay
    *("-c", "core.quotePath=false"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "submodule.recurse=false"),
    *("-c", "worktree.useRelativePaths=false"),
)

NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""Only commits run hooks."""

_RACE = re.compile(rb"worktrees/[^ ]+/(?:commondir|HEAD|gitdir|locked)")
"""Errors about a worktree that another process is just making, unlocking or removing: git reads those of all."""
_TRIES = 4


class GitFailed(Exception):
    """A git command failed; the message is its own, on one line."""


class Git:
    """Git in one directory.

    Args:
        directory: of the repository or of a worktree.
        environment: what it gets; the runner's credentials are not in it.
        pins: variables of git that say where repository and configuration are. Without them it uses what it finds, as
            in a directory that no command has written to.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str], pins: Mapping[str, str] = {}) -> None:
        self.directory, self.pins = directory, dict(pins)
        kept = {name: value for name, value in environment.items() if not name.startswith("GIT_") or name in _KEPT}
        searched = {name: absolute(kept.pop(name)) for name in _SEARCHED if name in kept}
        kept |= {name: places for name, places in searched.items() if places}
        fixed = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
        self.environment = kept | fixed | self.pins

    @property
    def git_dir(self) -> Path:
        """Where git keeps what belongs to the worktree; only with pins."""
        return Path(self.pins["GIT_DIR"])

    def __call__(self, *words: str, more: Mapping[str, str] = {}, stdin: str = "", fails: Sequence[int] = ()) -> str:
        """Runs a command and returns what it printed, without the last line's end.

        Args:
            more: variables.
            given: its standard input.
            fails: exit codes besides 0 that are an answer.

        Raises:
            GitFailed: it failed, took too long, or cannot be started.
        """
        ended = self._run(words, more, stdin)
        for attempt in range(1, _TRIES):
            if not ended.returncode or ended.returncode in fails or not _RACE.search(ended.stderr):
                break
            time.sleep(Backoff(0.06, 1.0).after(attempt - 1))
            ended = self._run(words, more, stdin)
        if ended.returncode and ended.returncode not in fails:
            raise GitFailed(f"git {words[0]}: {words_of(ended.stderr or ended.stdout) or f'exit {ended.returncode}'}")
        return ended.stdout.decode(errors="surrogateescape").removesuffix("\n")

    def _run(self, words: Sequence[str], more: Mapping[str, str], stdin: str) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                ["git", *SETTINGS, *NO_HOOKS, *words],
                cwd=self.directory,
                env={**self.environment, **more},
                input=stdin.encode(errors="surrogateescape"),
                capture_output=True,
                timeout=SECONDS,
                check=False,
                process_group=0,  # Ctrl-C is for the runner, which decides what ends
            )
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {words[0]} took longer than {SECONDS:.0f} seconds") from None
        except OSError as error:
            raise GitFailed(f"git cannot be run in {self.directory}: {error.strerror}") from None

    def listed(self, *words: str, more: Mapping[str, str] = {}) -> list[str]:
        return [text for text in self(*words, more=more).split("\0") if text]

    def says(self, *words: str) -> str:
        """What a command prints; an empty text if it fails."""
        try:
            return self(*words)
        except GitFailed:
            return ""


def words_of(text: bytes, most: int = 300) -> str:
    """The last lines of an error on one line."""
    lines = [" ".join(line.split()) for line in text[-4_000:].decode(errors="replace").splitlines()]
    line = "; ".join([line.removeprefix("fatal: ").removeprefix("error: ") for line in lines if line][-4:])
    line = "".join(letter for letter in line if letter.isprintable())
    return line if len(line) <= most else line[: most - 3] + "..."


def disk_is_full(message: str) -> bool:
    """Whether an error says that there is no room."""
    return any(words in message for words in ("No space left", "Disk quota exceeded", "disk full"))
