"""What to do with a project in which nothing has happened yet: how to add items, and how agents connect."""

from __future__ import annotations

import htpy
from htpy import Node, code, div, h2, li, ol, p

from coordinator.console.view import Visit, path_of
from coordinator.store.keys import DEFAULT_PROJECT


def first_steps(visit: Visit) -> Node:
    """The first commands, with the addresses of this fleet."""
    project, places = visit.project, visit.places
    elsewhere = project != DEFAULT_PROJECT
    endpoint = places[0].url if places else "/mcp"
    if elsewhere:
        endpoint = f"{endpoint.removesuffix('/mcp')}/p/{project}/mcp"
    flag = f" --project {project}" if elsewhere else ""
    guarded = bool(places) and places[0].needs_token
    header = ' --header "Authorization: Bearer $FLEET_TOKEN"' if guarded else ""
    steps = (
        ("Add work: from a terminal, an agent, or another tracker.", f'fleet items add "Fix the login"{flag}'),
        ("Connect an agent: here Claude Code, or any other MCP client.",
         f"claude mcp add --transport http fleet {endpoint}{header}"),
        ("Or have a command run for each item.", f"fleet run{flag} -- ./work.sh"),
    )  # fmt: skip
    return div(".first-steps")[
        h2[f"Nothing has happened in {project} yet"],
        p[
            "AI agents share one backlog and one set of workflows here. They claim items, work, and report; this page "
            "shows it as it happens."
        ],
        ol[(li[p[text], _command(command)] for text, command in steps)],
        p[
            htpy.a(href=path_of("projects"))["Other projects"], " may have work already. ",
            "Instructions for agents: ", _command("fleet agents-md worker --file AGENTS.md"),
        ],
        htpy.details[
            htpy.summary["All addresses of this fleet"],
            htpy.dl[
                ((htpy.dt[place.what], htpy.dd[code(data_copy=place.url, tabindex="0")[place.url]]) for place in places)
            ],
        ] if places else None,
    ]  # fmt: skip


def _command(text: str) -> Node:
    return code(".command", data_copy=text, title="Copy", tabindex="0")[text]
