"""Random workflows and actions: outcomes, offers and variables match the plain model."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.definitions.assembly import assembled
from coordinator.definitions.files import File
from coordinator.definitions.model import Workflow
from coordinator.toolsets.navigator.contract.navigation import NavAction
from coordinator.toolsets.navigator.rules import actions, token, view
from coordinator.toolsets.navigator.rules.actions import Refused, Walk
from coordinator.toolsets.navigator.rules.perform import perform
from tests.navigator.model import ENDS, Model

Json = dict[str, Any]

NAMES = ("a", "b", "c")
MOVES = 14
VARIABLES = ("u", "v")
few = st.integers(0, 2)
condition = st.fixed_dictionaries(
    {"type": st.just("simple"), "variable": st.sampled_from(VARIABLES), "operator": st.just("=="),
     "value": st.booleans()}
)  # fmt: skip
target = st.sampled_from((*NAMES, *NAMES, "workflow-end", "ghost"))


def named(prefix: str, most: int = 1, **fields: Any) -> st.SearchStrategy[list[Json]]:
    """A few records with unique ids; fields are strategies, optional ones end with ``_``."""
    required = {key: value for key, value in fields.items() if not key.endswith("_")}
    optional = {key[:-1]: value for key, value in fields.items() if key.endswith("_")}

    def numbered(things: list[Json]) -> list[Json]:
        return [{"id": f"{prefix}{number}", "name": f"{prefix}{number}", **one} for number, one in enumerate(things)]

    return st.lists(st.fixed_dictionaries(required, optional=optional), max_size=most).map(numbered)


steps = named("s", 2, required_=st.booleans(), condition_=condition)
effect = st.fixed_dictionaries(
    {"skipActivities": st.lists(st.sampled_from((*NAMES, "ghost")), max_size=2)},
    optional={
        "setVariable": st.dictionaries(st.sampled_from(VARIABLES), st.booleans(), min_size=1, max_size=2),
        "transitionTo": target,
    },
)
options = st.lists(st.fixed_dictionaries({"label": st.just("L"), "effect": effect}), min_size=1, max_size=2).map(
    lambda found: [{"id": f"o{number}", **one} for number, one in enumerate(found)]
)
checkpoints = named(
    "k",
    2,
    message=st.just("?"),
    options=options,
    required_=st.booleans(),
    blocking_=st.booleans(),
    condition_=condition,
)
leads = st.fixed_dictionaries({}, optional={"condition": condition, "isDefault": st.booleans()})
transitions = st.lists(st.tuples(target, leads).map(lambda pair: {"to": pair[0], **pair[1]}), max_size=3)
branches = st.lists(
    st.tuples(st.one_of(st.none(), target), leads).map(
        lambda pair: {"label": "B", **pair[1], **({"transitionTo": pair[0]} if pair[0] else {})}
    ),
    min_size=1,
    max_size=2,
).map(lambda found: [{"id": f"b{number}", **one} for number, one in enumerate(found)])
decisions = named("d", branches=branches)
counted = st.fixed_dictionaries(
    {"type": st.just("forEach"), "steps": steps},
    optional={
        "over": st.just("list"),
        "variable": st.just("item"),
        "maxIterations": st.integers(1, 2),
        "breakCondition": condition,
    },
)
conditional = st.fixed_dictionaries(
    {"type": st.sampled_from(("while", "doWhile")), "steps": steps, "condition": condition},
    optional={"maxIterations": st.integers(1, 2)},
)
over_steps = st.fixed_dictionaries(
    {"type": st.just("forEach"), "steps": st.just([]), "activities": st.just(["s0"])},
    optional={"over": st.just("list"), "variable": st.just("item")},
)
loops = st.lists(st.one_of(counted, conditional, over_steps), max_size=2).map(
    lambda found: [{"id": f"l{number}", "name": "L", **one} for number, one in enumerate(found)]
)
activity = st.fixed_dictionaries(
    {
        "version": st.just("1.0.0"),
        "steps": steps,
        "checkpoints": checkpoints,
        "transitions": transitions,
        "decisions": decisions,
        "loops": loops,
    }
)
workflows = st.tuples(*(activity for _ in NAMES)).map(
    lambda found: {
        "id": "w",
        "version": "1.0.0",
        "title": "W",
        "initialActivity": "a",
        "activities": [{"id": name, "name": name, **one} for name, one in zip(NAMES, found, strict=True)],
    }
)
worlds = st.fixed_dictionaries(
    {}, optional={"u": st.booleans(), "v": st.booleans(), "list": st.lists(st.integers(0, 3), max_size=3)}
)
nothing: Json = {}
said = st.one_of(st.just(nothing), st.dictionaries(st.sampled_from(VARIABLES), st.booleans(), max_size=1))
arbitrary = st.one_of(
    st.tuples(st.just("complete_step"), st.sampled_from(("s0", "s1", "s9")), st.none()),
    st.tuples(
        st.just("respond_to_checkpoint"), st.sampled_from(("k0", "k1", "k9")), st.sampled_from(("o0", "o1", "o9"))
    ),
    st.tuples(st.just("transition"), target, st.none()),
    st.tuples(st.just("report"), st.just(""), st.none()),
    st.tuples(
        st.just("advance_loop"), st.sampled_from(("l0", "l1", "l9")), st.one_of(st.none(), st.lists(few, max_size=3))
    ),
)


def begun(definition: Json, variables: Json) -> Walk:
    """The real walk at its beginning."""
    head = msgspec.convert(definition, Workflow)
    file = File("w", "workflow", "", "w", "toon", "w.toon", "", "", definition, head, ())
    library = assembled([file])
    assert library.problems == ()
    workflow = library.workflows["w"]
    return actions.begun(workflow, workflow.activities["a"].activity, dict(variables), "t0", {})


def arguments(move: tuple[str, str, Any], variables: Json) -> NavAction:
    action, name, extra = move
    key = {"complete_step": "step_id", "respond_to_checkpoint": "checkpoint_id", "transition": "activity_id"}
    more = {"option_id": extra} if action == "respond_to_checkpoint" else {"loop_items": extra}
    return msgspec.convert(
        {"state": "", "action": action, key.get(action, "loop_id"): name, "variables": variables, **more}, NavAction
    )


def compare(real: Walk, model: Model) -> list[tuple[str, str, Any]]:
    """Compares the two; returns the offers as moves."""
    state = real.state
    assert state.current_activity == model.at
    assert state.variables == model.variables
    assert set(state.skipped_activities) == model.skipped
    assert (state.status == "completed") == model.finished
    assert state.completed_activities == model.path + [model.at] * (model.finished and not model.ended)
    assert state.ahead == model.later
    place = view.position(real)
    loop = model.loops[-1] if model.loops and not model.ended else None
    assert (place.loop.id if place.loop else None) == (loop["id"] if loop else None)
    if loop:
        assert place.loop
        assert (place.loop.iteration, place.loop.total) == (loop["iteration"] + 1, loop["total"])
    todo = [] if model.ended else model.todo()
    step = todo[0][1] if todo and todo[0][0] == "complete_step" else None
    assert (place.step.id if place.step else None) == step
    offers = view.available(real)
    shown = view.checkpoint(real)
    question = None if model.ended else model.question()
    assert (shown.id if shown else None) == question
    required = [(one.action, one.step or one.checkpoint or one.activity or one.loop) for one in offers.required]
    ways = {one.activity for one in (*offers.required, *offers.optional) if one.action == "transition"}
    if model.ended:
        assert (offers.required, offers.optional) == ([], [])
    elif question:
        assert required == [("respond_to_checkpoint", question)]
        assert offers.optional == []
    elif todo:
        assert required == [todo[0]]
    elif loop:
        assert required == [("advance_loop", loop["id"])]
    else:
        assert ways == model.ways()
        assert len(required) == min(1, len(ways))
    if question or todo or loop:
        assert ways == set()
    # Until completion there is always something to do or to report.
    assert model.finished or offers.required or any(one.variables for one in offers.blocked)
    moves: list[tuple[str, str, Any]] = []
    for one in (*offers.required, *offers.optional):
        if one.action == "respond_to_checkpoint":
            moves.append((one.action, str(one.checkpoint), "o0"))
        elif one.action != "get_resource":
            items = [1, 2] if one.action == "advance_loop" and not loop else None
            moves.append((one.action, str(one.step or one.activity or one.loop), items))
    return moves


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(workflows, worlds, st.data())
def test_every_outcome_matches_the_model(definition: Json, variables: Json, data: st.DataObject) -> None:
    real, model = begun(definition, variables), Model(definition, variables)
    moves = compare(real, model)
    for number in range(MOVES):
        # Mostly offered actions, so that walks get far.
        wild = not moves or data.draw(st.integers(0, 4)) == 0
        move = data.draw(arbitrary if wild else st.sampled_from(moves))
        learned = data.draw(said)
        # Each action starts from a token, as in a process that has never seen the walk.
        member = token.packed(real.state)
        fresh = actions.walk(real.workflow, token.unpacked(member), f"t{number + 1}", {})
        expected = model.do(move[0], move[1], move[2], learned)
        try:
            perform(fresh, arguments(move, learned))
            code = None
        except Refused as refusal:
            code = refusal.code
            fresh = actions.walk(real.workflow, token.unpacked(member), "t", {})
        assert code == expected, move
        if code is not None:
            offered = (move[0], move[1]) in {(one[0], one[1]) for one in moves}
            needs = code in ("LOOP_ITEMS_REQUIRED", "OPTION_NOT_FOUND", "LOOP_CONDITION_NOT_MET")
            assert not offered or needs or learned, f"{move} was offered and then refused: {code}"
        assert fresh.state.state_version >= real.state.state_version + (code is None)
        real = fresh
        moves = compare(real, model)


def test_the_model_knows_the_ends() -> None:
    assert set(ENDS) == {"__terminal__", "workflow-end", "end-workflow"}
