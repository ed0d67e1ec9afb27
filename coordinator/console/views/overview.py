"""Overview: whether work flows, and what needs somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from htpy import Node, a, code, div, section, span, ul

from coordinator.console.charts import ends, sparkline, sums
from coordinator.console.first_steps import first_steps
from coordinator.console.numbers.readings import RECENT_ROWS, FleetState, ProjectNumbers, project_numbers
from coordinator.console.numbers.short_lists import short_lists
from coordinator.console.numbers.spent import Spent, counted, whose
from coordinator.console.numbers.standstill import QUIET_MS, standstill
from coordinator.console.parts import ROLES, ago, icon, number, plain, role
from coordinator.console.tables import choices
from coordinator.console.view import Region, Rendered, Row, Rows, View, Visit, path_of, region_element
from coordinator.store.fleet.processes import ProcessStatus
from coordinator.toolsets.items import DAY_ROWS, DAY_STEP, HOUR_ROWS, HOUR_STEP, ROLE_NAMES, Sample, dashed, filled

SECONDS = 5
"""How often what changes without events is read: times, processes, claims that near their end."""
_NAMED = 2
"""Spent budgets that their tile names."""
_SHOWN = ("queue", "work", "review", "blocked", "terminal")
_SPANS = {"hour": "last hour", "day": "last day"}


async def _numbers(visit: Visit) -> Rows:
    day = visit.query.get("span") == "day"
    numbers = await project_numbers(visit, day)
    if not numbers.state.changed:
        return Rows([])
    return Rows([_why(numbers), *_roles(visit, numbers, day), *_facts(visit, numbers)])


def _why(numbers: ProjectNumbers) -> Row:
    """Whether something moves, and how the processes are."""
    state, fleet = numbers.state, numbers.fleet
    cause = standstill(state, fleet.processes.running, tuple(fleet.drains), numbers.queued_steps, numbers.held)
    quiet = state.now - state.changed > QUIET_MS
    moves: Node = [
        span(".idle" if quiet else ".moves")["quiet" if quiet else "moving"],
        span["last change ", ago(state.changed)],
    ]
    if cause is not None:
        ended = cause.cause == "empty"
        moves = [
            span(".idle" if ended else ".stuck")[icon("done" if ended else "blocked"), cause.cause], " ", cause.text,
            [" ", code(data_copy=cause.next, tabindex="0")[cause.next]]
            if cause.next.startswith("fleet ")
            else [" Next: ", cause.next, "."] if cause.next else None,
        ]  # fmt: skip
    return Row("why", [div[moves], a(href=path_of("system"))[_health(fleet)]], "standstill")


def _health(fleet: FleetState) -> Node:
    fronts, workers = fleet.running("frontend"), fleet.running("worker")
    statuses: list[ProcessStatus] = [status for _, status in (*fronts, *workers)]
    shed = sum(sum(status.shed_per_second.values()) for status in statuses)
    lag = max((status.lag_ms for status in statuses), default=0)
    silent = sum(map(fleet.is_silent, fleet.processes.running))
    drained = sum(bool(status.drained or status.paused) for status in statuses)
    return _joined(
        [
            _counted(len(fronts), "front-end"),
            _counted(len(workers), "worker"),
            *(span(".bad")[f"{count} {what}"] for count, what in ((silent, "silent"), (drained, "drained")) if count),
            span(".bad" if shed else "")[f"shed {shed:,.4g}/s"],
            f"lag {lag:,.0f} ms",
        ]
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _roles(visit: Visit, numbers: ProjectNumbers, day: bool) -> Iterator[Row]:
    """Items by role and items done, each over time."""
    samples, now = numbers.samples, numbers.samples.now
    rows = filled(samples.day, now, DAY_STEP, DAY_ROWS) if day else filled(samples.hour, now, HOUR_STEP, HOUR_ROWS)
    over = _SPANS["day" if day else "hour"]
    for name in _SHOWN:
        count = numbers.state.roles[ROLE_NAMES.index(name)]
        values = ends([None if row is None else getattr(row, name) for row in rows])
        values[-1] = count
        board = path_of("board", visit.project) + f"?role={name}"
        yield _tile(name, board, role(name), number(count), sparkline(values, f"{ROLES[name]} in the {over}"))
    done = _per_minute([None if row is None else row.done for row in rows], DAY_STEP if day else HOUR_STEP)
    recent: Sequence[Sample | None] = rows[-RECENT_ROWS:]
    if day:
        recent = filled(samples.hour, now, HOUR_STEP, RECENT_ROWS)
    rate = sum(max(row.done, 0) for row in recent if row is not None) / 5
    yield _tile(
        "rate", path_of("board", visit.project) + "?role=terminal", "done per minute", f"{rate:,.4g}",
        sparkline(done, f"items done per minute in the {over}"), "in the last 5 minutes",
    )  # fmt: skip


def _per_minute(values: Sequence[float | None], step: int) -> list[float | None]:
    minutes = len(values) * step / 60 / 60  # of a point
    return [None if rate is None else round(max(rate, 0) / minutes, 1) for rate in sums(values)]


def _facts(visit: Visit, numbers: ProjectNumbers) -> Iterator[Row]:
    state, project = numbers.state, visit.project

    def claims(which: str) -> str:
        return path_of("claims", project) + f"?list={which}"

    def agents(which: str) -> str:
        return path_of("agents", project) + f"?list={which}"

    oldest: Node = None
    if state.oldest:
        oldest = [
            "the oldest added ",
            a(href=path_of("item", project, dashed(state.oldest)))[ago(state.oldest_created)],
        ]
    yield _tile(
        "ready",
        path_of("board", project) + "?role=queue&state=available",
        "ready",
        number(*numbers.available),
        oldest if numbers.available[0] else None,
    )
    soon = a(href=claims("expiring"))[f"{number(state.expiring)} end within a minute"]
    yield _tile("claims", claims("held"), "live claims", number(state.claims), soon)
    waiting = a(href=agents("waiting"))[f"{number(state.parked)} wait for work"]
    yield _tile("agents", agents("seen"), "agents", number(state.agents), waiting)
    held = [
        a(".bad" if state.quarantined else "", href=claims("quarantined"))[f"{number(state.quarantined)} quarantined"],
        a(href=claims("retries"))[f"{number(state.in_backoff)} in back-off"],
        *([a(".bad", href=claims("overdue"))[f"{number(state.overdue)} overdue"]] if state.overdue else []),
    ]
    bad = bool(state.abandoned)
    yield _tile("held", claims("abandoned"), "abandoned", number(state.abandoned), _joined(held), bad=bad)
    if numbers.flows is not None:
        path, running, paused, failed = path_of("flows", project), *numbers.flows
        more: list[Node] = [
            a(href=path + "?status=paused")[f"{number(paused)} paused"],
            a(".bad" if failed else "", href=path + "?status=failed")[f"{number(failed)} failed"],
            f"{_counted(numbers.queued_steps, 'step')} wait",
        ]
        going = path + "?status=running"
        yield _tile("flows", going, "flows at work", number(running), _joined(more))
    if numbers.held.spent:
        first = numbers.held.spent[:_NAMED]
        raised: list[Node] = [[_raised(visit, budget)] for budget in first]
        path = path_of("approvals", project)
        yield _tile("budgets", path, "spent budgets", counted(numbers.held), *raised, bad=True)
    asks = ", ".join(_counted(count, kind) for kind, count in numbers.asks.items() if count)
    asks, total = asks or "nothing waits for an answer", sum(numbers.asks.values())
    yield _tile("needs", path_of("approvals", project), "needs you", number(total), asks, bad=bool(total))


def _raised(visit: Visit, budget: Spent) -> Node:
    """Whose budget is spent, and where it is raised."""
    if budget.item is not None:
        return [plain(budget.item.title), ": ", a(href=path_of("item", visit.project, dashed(budget.name)))["raise"]]
    return [whose(budget), ": ", a(href=path_of("approvals", visit.project))["raise"]]


def _joined(parts: Sequence[Node]) -> Node:
    return [part if not n else [", ", part] for n, part in enumerate(parts)]


def _tile(key: str, href: str, name: Node, figure: str, *more: Node, bad: bool = False) -> Row:
    """A number that leads to its list, and more about it."""
    head = a(".tile", href=href)[span(".name")[name], span(".figure.bad" if bad else ".figure")[figure]]
    return Row(key, [head, (div(".tile-note")[remark] for remark in more if remark is not None)], "card")


async def _body(visit: Visit, regions: Mapping[str, Rendered]) -> Node:
    used = bool(regions["numbers"].rows)
    return [
        div(".list-head", hidden=not used)[choices(visit, "span", _SPANS, "hour")],
        region_element(visit, "numbers", regions, ul, first_steps(visit), class_="cards overview"),
        section(aria_label="Claims that may need attention")[
            region_element(visit, "lists", regions, div, class_="short-lists")
        ],
    ]


VIEW = View(
    "overview",
    "Overview",
    _body,
    {
        "numbers": Region(_numbers, ("items", "flows", "sessions", "gateway"), seconds=SECONDS, personal=True),
        "lists": Region(short_lists, (), section, seconds=SECONDS),
    },
    needs=("items",),
    query=("span",),
)
