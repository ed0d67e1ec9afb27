"""``fleet run gc``: removes worktrees and branches of attempts, and says why others are kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.runners.flags import state_of
from coordinator.cli.terminal import print_json
from coordinator.runner.environment import environment_of
from coordinator.runner.workspaces import Finding, GitFailed, Repository, collect
from coordinator.wording import counted, printable


def gc(
    *,
    worktree: Annotated[Path, Parameter(help="The git repository.")] = Path(),
    base: Annotated[
        str | None, Parameter(help="What work goes into, for branches whose worktree is gone. Default: its branch.")
    ] = None,
    salvage: Annotated[
        bool, Parameter(help="Put what is not committed on a ref below refs/fleet/salvage, and remove it.")
    ] = False,
    disposable: Annotated[
        tuple[str, ...], Parameter(help="Ignored files not worth keeping, as in 'dist/'; repeatable.")
    ] = (),
    dry_run: Annotated[bool, Parameter(help="Only say what would be done.")] = False,
    state_dir: Annotated[str | None, Parameter(help="The directory that the runners were given.")] = None,
    json: Annotated[bool, Parameter(help="Print a list of objects.")] = False,
) -> None:
    try:
        repository = Repository(worktree.absolute(), state_of(state_dir), environment_of(os.environ, "fleet", ()))
        chosen = base or repository.default_base()
        repository.commit_of(chosen)
        findings = []
        for finding in collect(repository, chosen, salvage=salvage, dry_run=dry_run, disposable=disposable):
            findings.append(finding)
            if not json:
                print(printable(_line(finding, dry_run)), flush=True)
    except GitFailed as error:
        raise CommandFailed(f"--worktree {worktree}: {error}", Exit.USAGE) from None
    if json:
        print_json(
            [{"name": one.name, "path": _path(one), "removed": one.removed, "reason": one.reason} for one in findings]
        )
    elif findings:
        removed = sum(finding.removed for finding in findings)
        would = "would be removed" if dry_run else "removed"
        print(f"{removed} {would}, {counted(len(findings) - removed, 'kept', 'kept')}")
    else:
        print(f"no worktree or branch of fleet run in {repository.path}")


def _path(finding: Finding) -> str | None:
    return None if finding.path is None else str(finding.path)


def _line(finding: Finding, dry_run: bool) -> str:
    became = ("would remove" if dry_run else "removed") if finding.removed else "kept"
    where = f"branch {finding.name}" if finding.path is None else str(finding.path)
    return f"{became:{12 if dry_run else 7}}  {where}" + (f"  {finding.reason}" if finding.reason else "")
