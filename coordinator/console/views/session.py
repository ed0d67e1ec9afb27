"""A session of a guided procedure: where it stands, what it asks, what was answered, and its trace. No token of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from htpy import Node, a, code, div, h2, li, ol, p, section, span, ul

from coordinator.console.acts import buttons
from coordinator.console.inbox import asks
from coordinator.console.parts import agent_link, ago, chip, holder_link, item_link, number, plain
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element, region_head
from coordinator.toolsets.items import dashed
from coordinator.toolsets.sessions import EVENTS, SeenSession, TraceEvent


async def _read(visit: Visit) -> SeenSession:
    """The session; regions that are read at the same position share it. Raises ToolFailure."""
    before = visit.query.get("before", "")
    arguments = {"session_id": visit.id, "before": int(before) if before.isdecimal() and len(before) < 9 else -1}

    async def make() -> SeenSession:
        session: SeenSession = await visit.tool("sessions", "read_session", arguments)
        return session

    return await visit.reads.shared(("session", visit.project, visit.id, arguments["before"], visit.at), make)


async def _head(visit: Visit) -> Rows:
    seen = await _read(visit)
    row = seen.row
    content = asks.facts(
        ("procedure", [plain(seen.title), " ", code[plain(row.workflow)], f" version {plain(seen.view.version)}"]),
        ("stands at", [plain(row.activity) or "not begun ", " ", chip("ended") if row.completed else None]),
        ("item", item_link(visit.project, dashed(row.item), "") if row.item else None),
        ("agent of the last call", agent_link(visit.project, row.agent) if row.agent else None),
        ("claim of", holder_link(visit, row.holder) if row.holder else None),
        ("started by", a(href=path_of("session", visit.project, row.parent))[row.parent] if row.parent else None),
        ("changed", ago(row.changed_at) if row.changed_at else None),
    )
    return Rows([Row(f"session:{visit.id}", content)])


async def _checkpoint(visit: Visit) -> Rows:
    seen = await _read(visit)
    if not seen.row.checkpoint:
        return Rows([Row(f"session:{visit.id}", asks.last_answer(seen))] if seen.view.answers else [])
    return Rows([Row(f"session:{visit.id}", [h2["Waits for an answer"], list(asks.checkpoint(visit, seen))])])


async def _activities(visit: Visit) -> Rows:
    seen = await _read(visit)
    left, at = dict.fromkeys(seen.view.left), seen.row.activity
    names = dict(seen.activities)
    rows = []
    for key in {**left, **({at: None} if at else {}), **names}:
        classes = "now" if key == at else "visited" if key in left else ""
        content = [
            span(".state")[plain(names.get(key, key))],
            chip({"now": "now here", "visited": "was here"}[classes]) if classes else None,
            span(".dim")[plain(key)],
        ]
        rows.append(Row(f"activity:{key}", content, classes, {"aria-current": "step"} if key == at else {}))
    return Rows(rows)


async def _answers(visit: Visit) -> Rows:
    seen = await _read(visit)
    rows = []
    for kept in reversed(seen.view.answers):
        effect = msgspec.json.encode(kept.given.effect).decode() if kept.given.effect else ""
        text = [asks.given(kept), ", ", ago(kept.at), span(".dim")[" at ", plain(kept.given.activity)],
                [" effect: ", code[plain(effect)]] if effect else None]  # fmt: skip
        rows.append(Row(f"answer:{kept.at}", text))
    return Rows(rows)


async def _trace(visit: Visit) -> Rows:
    seen = await _read(visit)
    view = seen.view
    numbered = list(enumerate(view.events, view.first))
    rows = [Row(f"event:{index}", list(_event(visit, event))) for index, event in reversed(numbered)]
    heading = f"{number(len(rows))} of {number(view.past - view.oldest)} calls"
    if view.oldest:
        heading += f"; the first {number(view.oldest)} were cut off"
    earlier = (
        a(rel="next", href=visit.url(before=str(view.first)))["earlier ones"] if view.first > view.oldest else None
    )
    newest = a(rel="prev", href=visit.url(before=None))["the last ones"] if visit.query.get("before") else None
    return Rows(rows, view.past, head=[span(".dim")[heading], newest, earlier])


def _event(visit: Visit, event: TraceEvent) -> Iterator[Node]:
    yield ago(event.ts * 1000)
    yield span(".state")[plain(event.name)]
    yield chip("refused", "trouble") if event.s == "error" else None
    yield agent_link(visit.project, event.aid) if event.aid else None
    yield span(".dim")[f"at {plain(event.act)}" if event.act else None, f" {event.ms:g} ms"]
    yield span[plain(event.err)] if event.err else None
    for warning in event.vw or ():
        yield span(".why")[plain(warning)]


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    return div(".paper")[
        p[a(href=path_of("sessions", visit.project))["all sessions"], " ", code[plain(visit.id)]],
        div(".halves")[
            section[
                h2["Now"],
                region_element(visit, "head", regions, div),
                region_element(visit, "checkpoint", regions, div),
            ],
            section[
                h2["Activities"],
                region_element(
                    visit, "activities", regions, ol, "Its procedure is not defined any more.", class_="machine"
                ),
            ],
        ],
        section[
            h2["Answered checkpoints"],
            region_element(visit, "answers", regions, ul, "No checkpoint has been answered yet.", class_="asks"),
        ],
        section[
            h2["Trace"],
            region_head("trace", regions, div(".list-head")),
            region_element(visit, "trace", regions, ul, f"No call is in these {EVENTS}.", class_="asks"),
        ],
    ]


VIEW = View(
    "session",
    "Session",
    _body,
    {
        "head": Region(_head, ("sessions",), div, own=True),
        "checkpoint": Region(_checkpoint, ("sessions",), div, personal=True, own=True),
        "activities": Region(_activities, ("sessions",), li, own=True),
        "answers": Region(_answers, ("sessions",), li, own=True),
        "trace": Region(_trace, ("sessions",), li, seconds=5, own=True),
    },
    needs=("sessions",),
    takes_id=True,
    query=("before",),
    modules=(buttons.MODULE,),
)
