"""``fleet top``: rates between readings, and the command on a running fleet."""

from __future__ import annotations

import math
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from coordinator.cli.exits import Exit
from coordinator.cli.top.readings import Interval, Reading, read
from coordinator.cli.top.screen import screen
from coordinator.processes.fleetfile import Fleet, FleetFile
from tests.support.fleets import Http, RunningCommand, RunningFleet, fleet_command, scrape
from tests.support.wait import wait_until_sync
from tests.support.web import LocalServer, Quiet

BEFORE = """
# TYPE calls counter
calls_total{tool="a",outcome="ok"} 10
calls_total{tool="a",outcome="shed"} 1
calls_total{tool="b",outcome="ok"} 100
# TYPE seconds histogram
seconds_bucket{le="0.1"} 5
seconds_bucket{le="1.0"} 5
seconds_bucket{le="+Inf"} 5
seconds_count 5
seconds_sum 0.2
# TYPE limit gauge
limit{slot="fe-0"} 8
limit{slot="fe-1"} 9
"""
AFTER = """
# TYPE calls counter
calls_total{tool="a",outcome="ok"} 30
calls_total{tool="a",outcome="shed"} 1
calls_total{tool="b",outcome="ok"} 4
# TYPE seconds histogram
seconds_bucket{le="0.1"} 95
seconds_bucket{le="1.0"} 104
seconds_bucket{le="+Inf"} 105
seconds_count 105
seconds_sum 9
# TYPE limit gauge
limit{slot="fe-0"} 4
limit{slot="fe-1"} 5
"""


@pytest.fixture
def interval() -> Interval:
    return Interval(read(BEFORE, 100.0), read(AFTER, 102.0))


def test_rates_are_growth_over_time_and_restarts_begin_at_zero(interval: Interval) -> None:
    assert interval.rate("calls_total", tool="a") == 10.0
    assert interval.rate("calls_total", tool="b") == 2.0
    assert interval.rates("calls_total", "outcome", tool="a") == {"ok": 10.0, "shed": 0.0}
    assert interval.rate("unknown_total") == 0.0


def test_quantiles_cover_the_interval_only(interval: Interval) -> None:
    assert interval.quantile("seconds", 0.5) == 0.1
    assert interval.quantile("seconds", 0.95) == 1.0
    assert interval.quantile("seconds", 1.0) == math.inf
    assert math.isnan(Interval(interval.after, interval.after).quantile("seconds", 0.5))


def test_gauges_are_current_values(interval: Interval) -> None:
    assert interval.gauge("limit") == 9
    assert interval.gauge("limit", slot="fe-1") == 5


def test_without_events_there_is_no_quantile() -> None:
    text = '# TYPE coordinator_processes gauge\ncoordinator_processes{role="worker"} 1\n'
    out = StringIO()
    Console(width=120, file=out).print(screen(Interval(read(text, 0.0), read(text, 1.0)), None, [], "here"))
    rows = {" ".join(row.split()) for row in out.getvalue().splitlines()}
    assert rows >= {"waited none", "store 0 scripts/s", "event loop not measured"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFleet]:
    with RunningFleet(
        tmp_path_factory.mktemp("top") / "data", "--port", "0", "--frontends", "2", "--workers", "1"
    ) as running:
        running.wait_ready()
        yield running


def test_it_shows_a_running_fleet(fleet: RunningFleet) -> None:
    with Http(fleet.port) as client:
        client.call("get_next_item")
        made = {"operation": "create", "requestId": str(uuid.uuid4()), "actor": {"id": "ann", "kind": "subagent"}}
        client.call("manage_items", **made, items=[{"title": "one"}, {"title": "two"}])
    # Items are counted every few seconds.
    wait_until_sync(lambda: scrape(fleet.port).get("coordinator_items{role=queue}") == 2, what="items to be counted")
    done = fleet_command("top", "--once", "--interval", "0.5", "--data-dir", str(fleet.data_dir), COLUMNS="200")
    assert done.returncode == Exit.OK, done.stderr
    assert "2 front-ends, 1 worker " in done.stdout
    for word in ("calls/s", "admission", "shed/s", "claims/s", "2 queue, oldest ready 0:0", "scripts/s", "event loop"):
        assert word in done.stdout
    by_url = fleet_command("top", "--once", "--interval", "0.2", "--url", fleet.state.base_url, COLUMNS="200")
    assert by_url.returncode == Exit.OK
    assert "2 front-ends" in by_url.stdout


@pytest.mark.parametrize("path", ["", "/mcp"])
def test_the_password_of_a_url_is_not_shown(fleet: RunningFleet, path: str) -> None:
    url = fleet.state.base_url.replace("http://", "http://someone:sesame@") + path
    done = fleet_command("top", "--once", "--interval", "0.2", "--url", url, COLUMNS="200")
    assert done.returncode == (Exit.FAILED if path else Exit.OK)
    assert "http://someone:***@127.0.0.1" in done.stdout + done.stderr
    assert "sesame" not in done.stdout + done.stderr
    assert done.stderr.endswith(" cannot be read: the answer is 404 Not Found\n") is bool(path)


class Front(Quiet, BaseHTTPRequestHandler):
    """Answers until it is switched off."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status, "Gone\x07")
        self.end_headers()
        self.wfile.write(BEFORE.encode())


class Next(Front):
    """A later fleet."""

    status = 200


def test_it_survives_an_outage_and_a_moved_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with LocalServer(Front) as first, LocalServer(Next) as second, closing(FleetFile(data)) as file:
        fleet = Fleet(1, "1.0", first.url, True, "2026-01-01T00:00:00Z", str(data), "embedded", 2, ())
        file.write(fleet)
        arguments = ("--interval", "0.2", "--data-dir", str(data))
        # As on a terminal, which shows every screen.
        with RunningCommand(tmp_path / "top", "top", *arguments, FORCE_COLOR="1", COLUMNS="200") as top:
            wait_until_sync(lambda: f"{first.url}   0 front-ends" in top.stdout, what="the first screen")
            monkeypatch.setattr(Front, "status", 503)
            why = f"the metrics at {first.url} cannot be read: the answer is 503 Gone?"
            wait_until_sync(lambda: why in top.stdout, what="the reason")
            file.write(msgspec.structs.replace(fleet, base_url=second.url))
            wait_until_sync(lambda: f"{second.url}   0 front-ends" in top.stdout, what="the next screen")
            assert top.end(signal.SIGINT) == Exit.OK, top.stderr


@pytest.mark.parametrize("env", [{}, {"FORCE_COLOR": "1", "TERM": "dumb"}], ids=["a pipe", "a dumb terminal"])
def test_without_cursor_control_readings_are_appended(tmp_path: Path, env: dict[str, str]) -> None:
    with LocalServer(Front) as front:
        arguments = ("--interval", "0.2", "--url", front.url)
        with RunningCommand(tmp_path / "top", "top", *arguments, COLUMNS="200", **env) as top:
            wait_until_sync(lambda: top.stdout.count(f"{front.url}   0 front-ends") >= 2, what="two readings")
            assert top.end(signal.SIGINT) == Exit.OK, top.stderr


@pytest.mark.parametrize("token", ["sesam\u00e9", "sesame\nx"])
def test_an_invalid_token_is_reported_and_not_shown(token: str) -> None:
    done = fleet_command("top", "--once", "--url", "http://127.0.0.1:9", FLEET_TOKEN=token)
    assert done.returncode == Exit.USAGE
    assert done.stderr == "fleet: FLEET_TOKEN holds characters that no token has\n"


def test_without_a_fleet_it_gives_advice(tmp_path: Path) -> None:
    done = fleet_command("top", "--once", "--data-dir", str(tmp_path))
    assert done.returncode == Exit.FAILED
    assert "no fleet runs on" in done.stderr
    refused = fleet_command("top", "--once", "--url", "http://127.0.0.1:9")
    assert refused.returncode == Exit.FAILED
    assert "cannot be read" in refused.stderr
    for wrong in (["--interval", "0"], ["--url", "nowhere"], ["--url", "http://[::1"], ["--url", "http://h/?a=b"]):
        assert fleet_command("top", "--once", *wrong).returncode == Exit.USAGE


def test_another_server_on_the_port_is_not_taken_for_a_stopped_fleet(tmp_path: Path) -> None:
    """Its metrics files are still there; the port may belong to another fleet by now."""
    run = tmp_path / "run" / "metrics"
    run.mkdir(parents=True)
    (run / "frontend-0.lock").touch()
    with LocalServer(Front) as other:
        port = other.url.rpartition(":")[2]
        done = fleet_command("top", "--once", "--data-dir", str(tmp_path), FLEET_PORT=port)
    assert done.returncode == Exit.FAILED
    assert "no fleet runs on" in done.stderr


def test_while_the_fleet_is_down_nothing_else_is_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LocalServer(Front) as front:
        file = FleetFile(data)
        fleet = Fleet(1, "1.0", front.url, True, "2026-01-01T00:00:00Z", str(data), "embedded", 2, ())
        file.write(fleet)
        arguments = ("--interval", "0.2", "--data-dir", str(data))
        with RunningCommand(tmp_path / "top", "top", *arguments, FORCE_COLOR="1", COLUMNS="200") as top:
            wait_until_sync(lambda: f"{front.url}   0 front-ends" in top.stdout, what="the first screen")
            file.close()
            wait_until_sync(lambda: "has stopped" in top.stdout, what="the end")
            assert top.end(signal.SIGINT) == Exit.OK, top.stderr


def test_a_fleet_without_a_state_file_is_starting(tmp_path: Path) -> None:
    with closing(FleetFile(tmp_path)):
        done = fleet_command("top", "--once", "--data-dir", str(tmp_path))
    assert done.returncode == Exit.FAILED
    assert "is still starting" in done.stderr


def test_cancelled_calls_are_not_store_errors() -> None:
    series = "coordinator_store_errors_total"
    before = read(f'{series}{{kind="cancelled"}} 0\n{series}{{kind="defect"}} 0\n', 0.0)
    waits = read(f'{series}{{kind="cancelled"}} 9\n{series}{{kind="defect"}} 0\n', 1.0)
    broken = read(f'{series}{{kind="cancelled"}} 9\n{series}{{kind="defect"}} 2\n', 1.0)

    def shown(after: Reading) -> str:
        text = StringIO()
        Console(width=200, file=text).print(screen(Interval(before, after), None, [], "here"))
        return text.getvalue()

    assert "errors" not in shown(waits)
    assert "errors" in shown(broken)
    assert "cancelled" not in shown(broken)


USED = """
# TYPE coordinator_items gauge
coordinator_items{role="queue"} 40
coordinator_overdue_items 3
coordinator_postponed_items 2
coordinator_usage_today_tokens 1234567
coordinator_usage_today_cost_micro_usd 7654321
coordinator_spent_budgets 1
coordinator_project_budget_spent_ratio{project="default",period="day"} 0.93
coordinator_project_budget_spent_ratio{project="other",period="day"} 0.5
coordinator_agent_budget_spent_ratio{agents="night-*",period="total"} 1.2
coordinator_processes{role="worker"} 2
coordinator_inflight{slot="fe-0"} 40
coordinator_concurrency_limit{slot="fe-0"} 41
coordinator_calls_at_work{slot="fe-0"} 3
coordinator_admission_waiting{slot="fe-0"} 2
"""


def of_resource(key: str, capacity: int, held: int, shared: int, waiting: int, waited: int) -> str:
    """The metrics of a resource."""
    name = "coordinator_resource"
    return (
        f'{name}_capacity{{resource="{key}"}} {capacity}\n{name}_waiting_items{{resource="{key}"}} {waiting}\n'
        f'{name}_held{{resource="{key}",mode="exclusive"}} {held}\n'
        f'{name}_held{{resource="{key}",mode="shared"}} {shared}\n'
        f'{name}_wait_seconds{{resource="{key}"}} {waited}\n'
    )


def test_it_shows_resources_usage_and_budgets_on_a_small_terminal() -> None:
    text = USED + of_resource("gpu", 2, 2, 0, 17, 754) + of_resource("idle", 4, 0, 0, 0, 0)
    text += of_resource("model/" + "long-name/" * 5 + "x", 5, 1, 2, 0, 0)
    text += "".join(of_resource(f"r{number}", 9, 1, 0, 0, 0) for number in range(7))
    text += 'coordinator_resource_minute_units_left{resource="gpu"} 1.5\n'
    calls = "".join(f'coordinator_requests_total{{tool="tool-{n}",outcome="ok"}} %d\n' for n in range(12))
    before, after = read(text + calls % ((0,) * 12), 0.0), read(text + calls % ((5,) * 12), 1.0)
    shown = StringIO()
    console = Console(width=80, height=24, file=shown, force_terminal=True, color_system=None)
    console.print(screen(Interval(before, after), None, [], "http://127.0.0.1:8765", console))
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    words = [line.split() for line in lines]
    assert ["gpu", "2/2", "-", "17", "-", "0:12:34", "2"] in words
    assert ["…" + ("long-name/" * 5 + "x")[-21:], "1/5", "2", "-", "-", "-", "-"] in words
    page = " ".join(shown.getvalue().split())
    for part in (
        "1,234,567 tokens, $7.65",
        "night-* (total) 120% spent, default (day) 93% spent, 1 of items spent",
        "2 not ready before a time",
        "3 calls at work of 41, 2 wait for room",
        "3 overdue",
    ):
        assert part in page
    assert "idle" not in page, "nobody uses it"
    assert "other (day)" not in page
    assert sum(line[0].startswith("tool-") for line in words if line) >= 3
    wide = StringIO()
    Console(width=80, file=wide).print(screen(Interval(before, after), None, [], "here"))
    assert "tool-11" in wide.getvalue(), "what is not shown as a whole lists more"


def test_without_resources_and_usage_it_says_nothing_of_them(interval: Interval) -> None:
    shown = StringIO()
    Console(width=80, file=shown).print(screen(interval, None, [], "here"))
    assert not any(word in shown.getvalue() for word in ("resource", "usage", "budget"))
