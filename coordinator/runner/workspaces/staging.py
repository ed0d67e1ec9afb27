"""Puts the files of a worktree into its index, without what was different before the command began.

Git itself (``add``, ``status``, ``diff``) also looks for changes within submodules, by a git that uses their
configuration, so nothing but commands that do not is used here.
"""

from __future__ import annotations

import contextlib
import filecmp
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordinator.runner.workspaces.git import Git, GitFailed

_DIFF = ("--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=dirty")
_NOTHING = "000000"
"""The mode of what is not there."""


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs between a commit and an index, or another commit."""

    path: str
    before: str
    """Mode and object: ``100644 1f0c...``."""
    after: str

    @property
    def is_content(self) -> bool:
        """Whether it is a file on both sides, and differs in nothing but content."""
        return self.before[:6] == self.after[:6] and self.before.startswith("100")


def stage(git: Git, known: Mapping[str, str], more: Mapping[str, str] = {}) -> list[Change]:
    """Makes the index agree with the files, and returns how it differs from HEAD.

    What is as it was before the command began is put back to HEAD's: what ``known`` has, and files that are as a
    checkout of HEAD makes them, however git sees them (line endings, filters). Files that are ignored stay out.

    Args:
        known: paths that were different before the command began, with mode and object.
        more: variables: the index, if it is another one.

    Raises:
        GitFailed: it cannot be done: there is a repository within that is no submodule.
    """
    new = others(git, more)
    if within := next((file for file in new if file.endswith("/")), None):
        raise GitFailed(f"{within} is a git repository of its own")
    changes, back = _compared(git, known, _changed(git, more), new, more)
    if back:
        lines = "".join(f"{_entry(change.before)}\t{change.path}\0" for change in back)
        git("update-index", "-z", "--index-info", stdin=lines, more=more)
    return changes


def unsaved(git: Git, known: Mapping[str, str]) -> list[str]:
    """Paths of what neither HEAD has nor ``known``, in files or in the index; both stay as they are.

    Args:
        known: see ``stage``.
    """
    new, changed, in_index = others(git), _changed(git, {}), staged(git)
    if any(file.endswith("/") for file in new):
        return sorted({*new, *(change.path for change in in_index), *(path for path, _ in changed)})
    if not (new or changed or in_index):
        return []
    with _copied_index(git) as index:
        changes, back = _compared(git, known, changed, new, index)
    in_files = {change.path: change.after for change in (*changes, *back)}
    only_staged = [change.path for change in in_index if change.after != in_files.get(change.path)]
    return sorted({*(change.path for change in changes), *only_staged})


def differences(git: Git) -> dict[str, str]:
    """What of the files ``stage`` would take, with mode and object; the index stays as it is."""
    with _copied_index(git) as index:
        return {change.path: change.after for change in stage(git, {}, index)}


def add(git: Git, paths: list[str], more: Mapping[str, str] = {}) -> None:
    """Puts files into the index, be they ignored or not."""
    _update(git, "--add", paths, more)


def others(git: Git, more: Mapping[str, str] = {}) -> list[str]:
    """Files that are neither in the index nor ignored; a repository within ends with a slash."""
    return git.listed("ls-files", "--others", "--exclude-standard", "-z", more=more)


def staged(git: Git, more: Mapping[str, str] = {}) -> list[Change]:
    try:
        listed = git.listed("diff-index", "--cached", *_DIFF, "HEAD", "--", more=more)
    except GitFailed:  # it has no commit yet
        listed = git.listed("diff-index", "--cached", *_DIFF, _head(git), "--", more=more)
    return list(_changes(listed))


def between(git: Git, before: str, after: str) -> list[Change]:
    return list(_changes(git.listed("diff-tree", "-r", *_DIFF, before, after, "--")))


def unmerged(git: Git) -> list[str]:
    """Files with conflicts that are not resolved."""
    return sorted({line.partition("\t")[2] for line in git.listed("ls-files", "--unmerged", "-z")})


def submodules(git: Git) -> list[str]:
    listed = git.listed("ls-files", "--stage", "-z")
    return [line.partition("\t")[2] for line in listed if line.startswith("160000 ")]


def _compared(
    git: Git, known: Mapping[str, str], changed: list[tuple[str, str]], new: list[str], more: Mapping[str, str]
) -> tuple[list[Change], list[Change]]:
    """Makes the index agree with the files; returns what is new of what differs from HEAD, and what was so before."""
    if gone := [path for path, what in changed if what == "D"]:
        _update(git, "--force-remove", gone, more)
        new = others(git, more)  # there may be some in their place
    _update(git, "--add", [*(path for path, what in changed if what != "D"), *new], more)
    changes = staged(git, more)
    back = [change for change in changes if known.get(change.path) == change.after]
    left = [change for change in changes if known.get(change.path) != change.after]
    # Where attributes are others than at the checkout, it says nothing.
    if not any(change.path.rpartition("/")[2] == ".gitattributes" for change in left):
        back += _as_checked_out(git, [change for change in left if change.is_content])
    paths = {change.path for change in back}
    return [change for change in changes if change.path not in paths], back


def _changed(git: Git, more: Mapping[str, str]) -> list[tuple[str, str]]:
    """Paths whose files differ from the index, with a letter that says how."""
    listed = git.listed("diff-files", "--name-status", "-z", "--ignore-submodules=dirty", more=more)
    return list(zip(listed[1::2], listed[::2], strict=True))


@contextlib.contextmanager
def _copied_index(git: Git) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="index-") as place:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(git.git_dir / "index", f"{place}/index")
        yield {"GIT_INDEX_FILE": f"{place}/index"}


def _changes(listed: list[str]) -> Iterator[Change]:
    for words, path in zip(listed[::2], listed[1::2], strict=True):
        old, new, before, after, _ = words.removeprefix(":").split(" ")
        yield Change(path, f"{old} {before}", f"{new} {after}")


def _head(git: Git) -> str:
    """HEAD, or the empty tree where it has no commit yet."""
    return git.says("rev-parse", "--verify", "--quiet", "HEAD") or git("hash-object", "-t", "tree", "--stdin")


def _update(git: Git, how: str, paths: list[str], more: Mapping[str, str]) -> None:
    if paths:
        git("update-index", how, "--replace", "-z", "--stdin", stdin="".join(f"{path}\0" for path in paths), more=more)


def _entry(said: str) -> str:
    """A line of ``update-index --index-info``."""
    return f"0 {said.partition(' ')[2]}" if said.startswith(_NOTHING) else said


def _as_checked_out(git: Git, changes: list[Change]) -> list[Change]:
    """Those whose files are byte for byte what a checkout of HEAD makes."""
    if not changes:
        return []
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="checkout-") as place:
        index = {"GIT_INDEX_FILE": f"{place}/index"}
        git("read-tree", _head(git), more=index)
        paths = "".join(f"{change.path}\0" for change in changes)
        try:
            git("checkout-index", f"--prefix={place}/files/", "-z", "--stdin", stdin=paths, more=index)
        except GitFailed:  # a filter that needs the network, say: nothing is known of these
            return []
        return [change for change in changes if _same(git.directory / change.path, Path(place, "files", change.path))]


def _same(file: Path, copy: Path) -> bool:
    try:
        return not file.is_symlink() and filecmp.cmp(file, copy, shallow=False)
    except OSError:
        return False
