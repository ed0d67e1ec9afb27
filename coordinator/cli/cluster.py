"""``fleet cluster status``: shards and nodes of the cluster that is the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS
from coordinator.cli.terminal import print_as
from coordinator.doctor.cluster import NODE_SECONDS, check_cluster
from coordinator.doctor.findings import lines_of
from coordinator.errors import ToolFailure
from coordinator.processes.stores import running_url, store_failed
from coordinator.settings import LoadedSettings
from coordinator.store import Store, StoreError, keys
from coordinator.store.cluster.facts import ClusterFacts, NodeFacts, read_cluster
from coordinator.store.cluster.places import listed
from coordinator.store.link.address import Address, parse
from coordinator.store.projects.lists import noted
from coordinator.wording import counted

_MIB = 2**20


@with_settings(only=STORE_SETTINGS)
def status(
    loaded: LoadedSettings,
    *,
    format: Annotated[Literal["text", "json"], Parameter(help="How to print it.")] = "text",
) -> int:
    url = running_url(loaded.settings)
    try:
        address = parse(url)
    except StoreError as error:
        raise CommandFailed(str(error), Exit.USAGE) from None
    if not address.nodes:
        raise CommandFailed(
            f"the store at {address} is no cluster: its URL does not begin with redis+cluster://", Exit.USAGE
        )
    try:
        facts, names = asyncio.run(_read(address, loaded.settings.redis_timeout_ms))
    except StoreError as error:
        raise store_failed(error) from None
    checked = check_cluster(facts, loaded.settings.redis_timeout_ms / 1000, names or ())
    findings = [finding for finding in checked if finding.verdict != "ok"]
    projects = None if names is None else Counter(map(facts.shard_of, names))
    problems = [f"{finding.what}: {finding.said}" for finding in findings]
    report = {"url": address.without_password, **_as_json(facts, projects), "problems": problems}
    print_as(report, [address.without_password, *_lines(facts, projects), *lines_of(findings)], format == "json")
    wrong = any(finding.verdict in ("warns", "fails") for finding in findings)
    return Exit.FAILED if wrong or projects is None else Exit.OK


async def _read(address: Address, timeout_ms: int) -> tuple[ClusterFacts, set[str] | None]:
    """The cluster, and its projects; None: the list cannot be read. Raises as ``read_cluster``."""
    facts = await read_cluster(address, NODE_SECONDS)
    store = Store(address.url(), timeout_ms)
    try:
        await store.open(partly=True)
        return facts, await noted(store) | await listed(store.command_of)
    except (StoreError, ToolFailure):
        return facts, None
    finally:
        await store.close()


def _lines(facts: ClusterFacts, projects: Counter[int] | None) -> list[str]:
    fleet, queue = facts.shard_of(keys.FLEET), facts.shard_of(keys.QUEUE)
    lines = [
        f"{counted(len(facts.primaries), 'shard')}, {counted(len(facts.nodes), 'node')}; "
        f"keys of the fleet on shard {fleet}, queues of steps on shard {queue}"
    ]
    for shard in sorted({node.shard for node in facts.nodes}):
        nodes = [node for node in facts.nodes if node.shard == shard]
        if shard < 0:
            lines.append("without slots")
        else:
            has = "projects unknown" if projects is None else counted(projects[shard], "project")
            lines.append(f"shard {shard}: {counted(sum(node.slots for node in nodes), 'slot')}, {has}")
        lines += [f"  {_line(node)}" for node in nodes]
    if projects is None:
        lines.append("projects: cannot be listed, because the shard with the keys of the fleet does not answer")
    elif projects[-1]:
        lines.append(f"{counted(projects[-1], 'project')} in slots that no node has")
    return lines


def _line(node: NodeFacts) -> str:
    said = f"{node.role:<8} {node.place}"
    if node.away:
        return f"{said}  does not answer: {node.away}"
    limit = f" of {node.memory_limit_bytes / _MIB:.0f}" if node.memory_limit_bytes else ""
    said += f"  {node.version}, {node.memory_bytes / _MIB:.0f}{limit} MiB, {node.latency_ms:.0f} ms"
    if node.role == "replica":
        said += f", {node.lag_bytes} bytes behind" if node.linked else ", not connected to its primary"
    return said + "".join(f", slot {slot} on its way {way}" for slot, way in node.moving.items())


def _as_json(facts: ClusterFacts, projects: Counter[int] | None) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [msgspec.to_builtins(node) for node in facts.nodes]
    for node in nodes:
        node.pop("info", None)
    shards = [
        {"shard": shard.shard, "slots": shard.slots, "projects": None if projects is None else projects[shard.shard]}
        for shard in facts.primaries
    ]
    where = {"fleetShard": facts.shard_of(keys.FLEET), "queueShard": facts.shard_of(keys.QUEUE)}
    return {"shards": shards, "nodes": nodes, "uncovered": facts.uncovered, **where}
