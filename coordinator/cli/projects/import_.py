"""``fleet import``: makes items of what another tracker has, or restores a project."""

from __future__ import annotations

import asyncio
import re
import sys
from operator import ne
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.connection import HERE, Connection
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.items.arguments import AsJson, item
from coordinator.cli.items.completing import ids
from coordinator.cli.terminal import print_as, print_json
from coordinator.client import Fleet
from coordinator.interchange.files import read_regular
from coordinator.interchange.formats import backlog, beads, github, jira, linear, markdown, taskmaster
from coordinator.interchange.importing import Import, ImportReport
from coordinator.interchange.mapping import Mapping_, apply_mapping, read_mapping
from coordinator.interchange.model import ImportProblem, ImportSource, label_of
from coordinator.interchange.shaping import MAX_DEPTH, shape
from coordinator.wording import counted, printable

Format = Literal["beads", "github", "taskmaster", "backlog", "markdown", "linear", "jira", "fleet"]
_MODULES: dict[str, Any] = {
    "beads": beads,
    "github": github,
    "taskmaster": taskmaster,
    "backlog": backlog,
    "markdown": markdown,
    "linear": linear,
    "jira": jira,
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
_PATIENCE_SECONDS = 60.0
_NAMED, _LONGEST = 20, 300


def import_(
    file: Annotated[
        str, Parameter(help="What to import; '-': stdin. Of backlog, the folder.", allow_leading_hyphen=True)
    ],
    *,
    format: Annotated[Format, Parameter(help="What it is.")],
    map: Annotated[
        Path | None, Parameter(help="YAML with what statuses, priorities, types and tags mean here.", name="--map")
    ] = None,
    unknown: Annotated[
        Literal["queue"] | None, Parameter(help="Take unknown statuses for open; else they stop the import.")
    ] = None,
    source: Annotated[
        str | None, Parameter(help="Name of the source, where there are several of a format. Default: the format.")
    ] = None,
    parent: Annotated[str | None, Parameter(help="Put everything below this item.", completer=ids)] = None,
    close_missing: Annotated[bool, Parameter(help="Cancel items that the source does not have any more.")] = False,
    write_ids: Annotated[bool, Parameter(help="Of markdown: write an identity to each task of FILE first.")] = False,
    skip_unreadable: Annotated[
        bool, Parameter(help="Of backlog: leave out files that cannot be read; else they stop the import.")
    ] = False,
    redis_url: Annotated[
        str | None, Parameter(help="Of fleet: its Redis. Default: that of the fleet on the data directory.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Change nothing; say what would be done and lost.")] = False,
    reason: Annotated[
        str | None, Parameter(help="Of fleet: why, for the log of what operators do (`fleet audit-log tail`).")
    ] = None,
    json: AsJson = False,
    at: Connection = HERE,
) -> int:
    if format == "fleet":
        if map or unknown or source or parent or close_missing or write_ids or skip_unreadable or dry_run:
            raise CommandFailed("--format fleet: a project is restored as it was, without options", Exit.USAGE)
        _restore(file, redis_url, reason, json, at)
        return Exit.OK
    if reason is not None:
        raise CommandFailed("--reason: goes with --format fleet; others are calls of the tools", Exit.USAGE)
    name = source or format
    if not _NAME.fullmatch(name):
        raise CommandFailed("--source must be 1 to 80 of a-z, 0-9 and . _ -", Exit.USAGE)
    try:
        records = _read(format, file, write_ids, skip_unreadable, dry_run)
        apply_mapping(records, _MODULES[format].STATES, read_mapping(map) if map is not None else Mapping_(), unknown)
    except ImportProblem as problem:
        raise CommandFailed(f"{file}: {problem}" if map is None else str(problem), Exit.USAGE) from None

    if not records.records:
        if close_missing:
            raise CommandFailed(
                f"{file}: there are no items in it; --close-missing would cancel all of the source {name}", Exit.USAGE
            )
        _say(f"{file}: there are no items in it" + (", such as '- [ ] text'" if format == "markdown" else ""))

    async def act(fleet: Fleet) -> ImportReport:
        below, depth = None, -1
        if parent is not None:
            top = await fleet.call("query_items", {"operation": "get", "id": item(parent)})
            if top["depth"] == MAX_DEPTH:
                raise CommandFailed(f"--parent: nothing can be below an item at depth {MAX_DEPTH}", Exit.USAGE)
            below, depth = top["id"], top["depth"]
        try:
            shape(records, depth)
        except ImportProblem as problem:
            raise CommandFailed(f"{file}: {problem}", Exit.USAGE) from None
        work = Import(fleet, name, parent=below, close_missing=close_missing, dry_run=dry_run, say=_say)
        try:
            return await work.run(records.records)
        except ImportProblem as problem:
            raise CommandFailed(str(problem)) from None

    report = at.run(act, patience=_PATIENCE_SECONDS)
    if json:
        print_json({**msgspec.to_builtins(report), "lost": records.losses(), "remarks": records.remarks})
    else:
        _print(report, records, name, source is None, dry_run, close_missing)
    return Exit.FAILED if report.refused else Exit.OK


def _restore(file: str, redis_url: str | None, reason: str | None, json: bool, at: Connection) -> None:
    # Here, because it imports the store and the toolset, which other formats do not need.
    from coordinator.cli.projects.operating import restore_project

    done, said = asyncio.run(restore_project(at, redis_url, file, reason, _say))
    print_as(done, [said], json)


def _read(format: str, file: str, write_ids: bool, skip_unreadable: bool, dry_run: bool) -> ImportSource:
    """Reads the source, or raises CommandFailed; it may be malformed (ImportProblem)."""
    if format == "backlog":
        if file == "-":
            raise CommandFailed("--format backlog: give the folder, not stdin", Exit.USAGE)
        return backlog.read_folder(Path(file), skip_unreadable)
    if skip_unreadable:
        raise CommandFailed("--skip-unreadable: goes with --format backlog", Exit.USAGE)
    try:
        data = sys.stdin.buffer.read() if file == "-" else read_regular(Path(file))
        if write_ids:
            if format != "markdown" or file == "-":
                raise CommandFailed("--write-ids: goes with --format markdown and a file", Exit.USAGE)
            before, data = data, markdown.with_ids(data)
            changed = sum(map(ne, before.split(b"\n"), data.split(b"\n")))
            _say(f"{counted(changed, 'task')} of {file} {'would get' if dry_run else 'got'} an identity there")
            if changed and not dry_run:
                fresh = Path(f"{file}.new")
                fresh.write_bytes(data)
                fresh.replace(file)
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}", Exit.USAGE) from None
    source: ImportSource = _MODULES[format].read(data)
    return source


def _say(text: str) -> None:
    print(f"fleet: {text}", file=sys.stderr)


def _print(report: ImportReport, source: ImportSource, name: str, unnamed: bool, dry_run: bool, closing: bool) -> None:
    for remark in source.remarks:
        _say(printable(remark))
    if lost := source.losses():
        _say(printable(f"not imported: {'; '.join(lost)}"))
    verb = "would be " if dry_run else ""
    vanished = f"not in the source {name} any more"
    if closing:
        vanished += f", so they {verb or 'are '}cancelled unless an agent holds them"
    if unnamed:
        vanished += " (if this is another source than the last time, name it with --source)"
    for words, named in (
        ("left as they are, because agents hold them", [label_of(report.titles[id_], id_) for id_ in report.claimed]),
        (vanished, [label_of(report.titles[id_], id_) for id_ in report.vanished]),
        ("refused", report.refused),
    ):
        if named:
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            sample = "; ".join(name if len(name) <= _LONGEST else name[:_LONGEST] + "…" for name in named[:_NAMED])
            _say(printable(f"{words}: {sample}{more}"))
    said = f"{counted(report.created, 'item')} {verb}created, {report.updated} updated, {report.unchanged} unchanged"
    said += f", {report.closed} {verb}cancelled" if report.closed else ""
    print(said + (f"; {counted(report.dependencies, 'dependency', 'dependencies')}" if report.dependencies else ""))
