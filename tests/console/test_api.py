"""The console's API over HTTP, at two front-ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from coordinator.client import SyncFleet
from coordinator.console.acts.rate import PER_SECOND
from tests.console.items import create
from tests.console.visitors import CHANGE, SCRIPT, Visitor, operator
from tests.items.client import fresh_id
from tests.support.fleets import RunningFleet


def api(project: str, path: str) -> str:
    return f"/console/p/{project}/api/{path}"


def test_one_click_that_is_repeated_at_all_front_ends_has_one_effect(
    running: RunningFleet, named: str, fleet: SyncFleet
) -> None:
    ada = operator(running, f"ada-{named}")
    visitors = [Visitor(running.port, ada.cookies) for _ in range(6)]
    asked = {"operation": "create", "items": [{"title": "Once"}], "requestId": fresh_id()}
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda one: one.change(api(named, "call/items/manage_items"), asked), visitors))
    assert {got.status for got in found} == {200}
    assert len({got.body for got in found}) == 1
    assert fleet.call("query_items", {"operation": "search", "query": "Once"})["total"] == 1


def test_of_two_people_at_once_one_wins_and_the_other_learns(
    running: RunningFleet, named: str, fleet: SyncFleet
) -> None:
    (item,) = create(fleet, "Contended")
    people = [operator(running, f"{name}-{named}") for name in ("ada", "bob")]
    asked = {"transitions": [{"itemId": item, "trigger": "cancel"}]}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda one: one.change(api(named, "call/items/advance_item"), asked), people))
    told = [msgspec.json.decode(got.body) for got in found]
    assert sorted("problem" in one for one in told) == [False, True]
    assert "already terminal" in next(one["problem"] for one in told if "problem" in one)
    actor = fleet.call("query_items", {"operation": "get", "id": item})["transitions"][0]["actor"]
    assert actor["kind"] == "user"
    assert actor["id"] == ("ada", "bob")["problem" in told[0]] + f"-{named}"


def test_who_is_not_signed_in_changes_nothing(running: RunningFleet, named: str, fleet: SyncFleet) -> None:
    create(fleet, "Here")
    asked = {"operation": "create", "items": [{"title": "Mine"}]}
    got = Visitor(running.port).change(api(named, "call/items/manage_items"), asked)
    assert (got.status, msgspec.json.decode(got.body)["error"]["code"]) == (403, "permission_denied")
    assert fleet.call("query_items", {"operation": "search"})["total"] == 1


@pytest.mark.parametrize(
    "headers",
    [
        {**CHANGE, "sec-fetch-site": "cross-site"},
        {**CHANGE, "sec-fetch-site": "none"},
        {**SCRIPT, "content-type": "application/json"},
        {**CHANGE, "content-type": "text/plain"},
    ],
    ids=["other site", "typed", "without the mark", "no JSON"],
)
def test_only_scripts_of_the_console_change_something(
    running: RunningFleet, named: str, headers: dict[str, str]
) -> None:
    ada = operator(running, f"ada-{named}")
    body = b'{"operation":"create","items":[{"title":"x"}]}'
    assert ada.ask("POST", api(named, "call/items/manage_items"), headers, body).status == 403


def test_the_api_takes_posts_only(running: RunningFleet, named: str) -> None:
    got = operator(running).ask("GET", api(named, "call/items/manage_items"), SCRIPT)
    assert (got.status, got.headers["allow"]) == (405, "POST")


def test_a_page_that_has_gone_wrong_is_slowed_down(running: RunningFleet, named: str) -> None:
    visitors = [Visitor(running.port, operator(running, f"ada-{named}").cookies) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        sent = [visitors[n % 4] for n in range(8 * PER_SECOND)]
        found = list(pool.map(lambda one: one.change(api(named, "call/items/advance_item"), {}), sent))
    slowed = [got for got in found if got.status == 429]
    assert slowed
    assert msgspec.json.decode(slowed[0].body)["error"]["code"] == "actor_quota"
    assert slowed[0].headers["retry-after"] == "1"
