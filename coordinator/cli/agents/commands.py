"""``fleet agents``: lists the agents of a project and what they do, and drains them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App, Parameter
from msgspec import UNSET, UnsetType, convert

from coordinator.cli.acting import Reason, acting
from coordinator.cli.commands import COMMANDS
from coordinator.cli.connection import AT_STORE, ByUrl
from coordinator.cli.exits import CommandFailed, Exit
from coordinator.cli.flags import with_settings
from coordinator.cli.stores import STORE_SETTINGS, unwritten, with_store
from coordinator.cli.terminal import print_as, print_json
from coordinator.client import Fleet
from coordinator.operations import ActResult, Operator
from coordinator.operations.drains import drain_agents
from coordinator.settings import LoadedSettings
from coordinator.store import Store
from coordinator.store.keys import DEFAULT_PROJECT
from coordinator.toolsets.items import AgentEntry, Agents, AgentsResult, agent_entry, agents_result, read_agents
from coordinator.wording import counted, printable

_PAGE = 200

Project = Annotated[str, Parameter(help="The project of the agents.")]
AsJson = Annotated[bool, Parameter(help="Print as JSON.")]
Name = Annotated[str, Parameter(help="An agent's id, or what precedes a '/' in several.")]


@with_settings(only=STORE_SETTINGS)
def agents(
    loaded: LoadedSettings, *, json: AsJson = False, project: Project = DEFAULT_PROJECT, by_url: ByUrl = AT_STORE
) -> None:
    at = by_url.connection(loaded, project)
    agents_seen = at.run(_everybody_told) if at else with_store(loaded, lambda store: _everybody(store, project))
    print_as(agents_seen, _lines(agents_seen, project), json)


@with_settings(only=STORE_SETTINGS)
def drain(
    loaded: LoadedSettings,
    name: Name,
    *,
    reason: Reason = None,
    json: AsJson = False,
    project: Project = DEFAULT_PROJECT,
) -> None:
    name = name.removesuffix("/")

    async def act(by: Operator) -> tuple[ActResult, AgentsResult]:
        await _check_known(by.store, project, await read_agents(by.store, project, 0, 1))
        return await drain_agents(by, project, name), await _everybody(by.store, project)

    result, page = acting(loaded, reason, act)
    begun, answered = result.facts["begun"], result.facts["answered"]
    theirs = [agent for agent in page.agents if _is_named(agent, name)]
    holding = [agent for agent in theirs if agent.state == "holding"]
    if json:
        print_json({"drained": name, "begun": begun, "answered": answered, "agents": theirs})
        return
    ending = shlex.join(("fleet", "agents", "undrain", printable(name), "--project", project))
    print(
        f"{printable(name)} claims no more in project {project}"
        + (f"; {counted(answered, 'waiting claim')} answered" if answered else "")
        + (f"; {result.said}" if result.said else "")
        + f"; `{ending}` ends that"
    )
    if not theirs:
        print("no agent of that name was seen in the last day")
    for agent in holding:
        print(f"{printable(agent.id)} still holds {agent.item_id} until {agent.claim_expires_at}")


@with_settings(only=STORE_SETTINGS)
def undrain(
    loaded: LoadedSettings,
    name: Name,
    *,
    reason: Reason = None,
    json: AsJson = False,
    project: Project = DEFAULT_PROJECT,
) -> int:
    result = acting(loaded, reason, lambda by: drain_agents(by, project, name, end=True))
    name, left = name.removesuffix("/"), result.facts["drained"]
    if json:
        print_json({"undrained": name, **result.facts})
    else:
        said = f"{printable(name)} may claim again" if result.done else f"{printable(name)}: {result.said}"
        others = f"; still drained: {', '.join(map(printable, left))}" if left else ""
        print(f"{said} in project {project}{others}")
    return Exit.OK if result.done else Exit.FAILED


async def _everybody(store: Store, project: str) -> AgentsResult:
    """All agents, with the items that they hold."""
    read_page = await read_agents(store, project, 0, _PAGE)
    result = agents_result(read_page, 0, items=True)
    await _check_known(store, project, read_page)
    entries = {agent.id: agent_entry(agent, items=True) for agent in read_page.agents}
    while len(entries) < read_page.known:
        # Agents that are seen meanwhile move to the front, so none that were behind are missed.
        page = (await read_agents(store, project, len(entries), _PAGE)).agents
        if not page:
            break
        entries |= {agent.id: agent_entry(agent, items=True) for agent in page if agent.id not in entries}
        if len(page) < _PAGE:
            break
    result.agents = list(entries.values())
    result.next_offset = result.truncated = UNSET
    return result


async def _check_known(store: Store, project: str, page: Agents) -> None:
    """Raises CommandFailed: nobody has written to the project, and no agent waits in it."""
    if not page.known and not page.drains and (why := await unwritten(store, project)):
        raise CommandFailed(why, Exit.USAGE)


async def _everybody_told(fleet: Fleet) -> AgentsResult:
    """The same from the tool, which tells only operators who holds what."""
    result: AgentsResult | None = None
    entries: dict[str, AgentEntry] = {}
    offset: int | UnsetType = 0
    while isinstance(offset, int):
        query = {"agents": True, "limit": _PAGE, "offset": offset}
        page = convert(await fleet.call("get_context", query), AgentsResult)
        for agent in page.agents:
            entries.setdefault(agent.id, agent)
        result, offset = result or page, page.next_offset
    assert result is not None  # noqa: S101
    result.agents = list(entries.values())
    result.next_offset = result.truncated = UNSET
    return result


def _is_named(agent: AgentEntry, name: str) -> bool:
    return agent.id == name or agent.id.startswith(f"{name}/")


def _lines(page: AgentsResult, project: str) -> Iterator[str]:
    for agent in page.agents:
        yield f"{printable(agent.id)}  {_state(agent)}; seen {agent.last_seen_at}{_abilities(agent)}"
    drains = page.drains or []
    for drain_ in drains:
        yield f"drained since {drain_.since}: {printable(drain_.name)}"
    counts = page.counts
    yield (
        f"project {project}: {counted(counts.known, 'agent')}, {counted(counts.holding, 'live claim')}, "
        f"{counted(counts.waiting, 'waiting claim')}, {counted(len(drains), 'drain')}"
    )


def _state(agent: AgentEntry) -> str:
    words = [agent.kind, "verified" if agent.verified else "unverified", agent.state]
    if agent.state == "holding":  # which item, only operators are told
        what, until = (agent.item_id, f" until {agent.claim_expires_at}") if agent.item_id else ("an item", "")
        words[-1] = f"holds {what} since {agent.holding_since}{until}"
    if agent.waiting_since:
        words.append(f"waits since {agent.waiting_since}")
    if agent.draining:
        words.append("drained")
    return ", ".join(words)


def _abilities(agent: AgentEntry) -> str:
    return f"; can {', '.join(agent.capabilities)}" if agent.capabilities else ""


app = App(name="agents", help_format="plaintext", **COMMANDS["agents"].page)
app.default(agents)
for _words in ("drain", "undrain"):
    _command: Any = COMMANDS[f"agents {_words}"]
    app.command(_command.target, name=_words, **_command.page)
