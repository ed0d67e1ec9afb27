"""The dashboards: the checked-in files match the generator, and every panel has data in a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coordinator.console.metrics import ACTIONS
from coordinator.metrics_catalogue import CATALOGUE
from coordinator.store.metrics import MAPS, REDIRECTS, SHARD_AWAY, SLOTS_UNCOVERED, TORN
from coordinator.transport.metrics import QUESTIONS, TASK_EVENTS
from deploy.grafana.boards import ALL
from deploy.grafana.build import DASHBOARDS, rendered
from deploy.grafana.panels import SELECTED, Panel
from tests.identity.signing import Signer
from tests.support.fleets import MCP_HEADERS, Http, RunningCommand, RunningFleet, call_body
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync
from tests.webhooks.receiver import SECRET

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
ACTOR = {"id": "ann", "kind": "subagent"}
USED = {"inputTokens": 9, "outputTokens": 1, "costMicroUsd": 5, "wallMs": 7}
PANELS = [
    pytest.param(panel, id=f"{board.uid}: {panel.title}")
    for board in ALL
    for _, panels in board.rows
    for panel in panels
]
# One call at a time, so that some have to wait; keys for verification; tools of a server and a webhook that are down;
# resources and budgets.
CONFIG = """
webhooks: {away: {url: "http://127.0.0.1:1/", secret: SECRET, allow_private: true}}
overload: {least_limit: 1, most_limit: 1}
resources: {gpu: {capacity: 3, perMinute: 600}}
budgets: {agents: {"bob*": {day: {tokens: 1000000}}}, projects: {default: {total: {tokens: 1000000}}}}
actor_authentication:
  verifier: {type: jwks, jwks_path: KEYS, algorithms: [EdDSA]}
gateway:
  version: "1.0.0"
  connections: {away: {kind: mcp, url: "http://127.0.0.1:1/mcp"}}
  proxy: {import: [{connection: away}]}
  workflows:
    release:
      title: Release
      initialState: open
      states:
        open: {transitions: {stay: {title: Stay here, target: open, executor: {kind: noop}}}}
"""
_OF_CLUSTERS = SHARD_AWAY, SLOTS_UNCOVERED, REDIRECTS, MAPS, TORN
WITHOUT_DATA = {metric.name for metric in (*_OF_CLUSTERS, QUESTIONS, TASK_EVENTS, ACTIONS)}
"""There are none of these without a cluster, clients that are asked or wait, and people in the console."""
AWAY = "coordinator_gateway_servers_unavailable > 0"


def test_checked_in_files_match_the_generator() -> None:
    assert {path.name for path in DASHBOARDS.glob("*")} == {f"{board.uid}.json" for board in ALL}
    for board in ALL:
        assert (DASHBOARDS / f"{board.uid}.json").read_text() == rendered(board), (
            "run `python -m deploy.grafana.build` and look at the difference"
        )


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_a_description_and_a_runbook(panel: Panel) -> None:
    assert panel.shows.endswith(".")
    assert panel.unit
    assert (DEPLOY / "runbooks" / f"{panel.page}.md").is_file()
    known = {metric.name for metric in CATALOGUE}
    for expression, _ in panel.queries:
        names = set(re.findall(r"coordinator_[a-z0-9_]+", expression))
        assert names
        for name in names:
            assert name in known or re.sub(r"_(bucket|sum|count)$", "", name) in known, name


@pytest.mark.parametrize("panel", PANELS)
def test_every_query_is_of_the_chosen_fleets_and_never_across_them(panel: Panel) -> None:
    for expression, _ in panel.queries:
        selectors = re.findall(r"coordinator_[a-z0-9_]+(\{[^}]*\})?", expression)
        assert selectors
        assert all(SELECTED in one for one in selectors), expression
        aggregated = re.findall(r"\b(?:sum|max|min|avg|count|group)\b *(by \([a-z, ]+\))?", expression)
        assert aggregated
        assert all(one.startswith(("by (fleet,", "by (fleet)")) for one in aggregated), expression
        # Both sides of a ratio have the same labels, or they would not match.
        assert len(set(aggregated)) == 1, expression


def test_each_metric_has_a_panel() -> None:
    queries = " ".join(
        query for board in ALL for _, panels in board.rows for panel in panels for query, _ in panel.queries
    )
    shown = set(re.findall(r"coordinator_[a-z0-9_]+", queries))
    shown |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert {metric.name for metric in CATALOGUE} - shown == set()


def asked(expression: str) -> str:
    """The query as Grafana sends it, if all fleets and hosts are chosen."""
    return re.sub(r'"\$(fleet|instance)"', '".*"', expression.replace("$__rate_interval", "30s"))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_all_queries_parse(tmp_path: Path) -> None:
    """Also what is in no panel: the queries of annotations. As rules, because promtool checks these."""
    found = [
        query["expr"]
        for board in ALL
        for made in [json.loads(rendered(board))]
        for query in [
            *(one for panel in made["panels"] for one in panel.get("targets", ())),
            *made["annotations"]["list"],
        ]
        if "expr" in query
    ]
    assert len(found) > len(PANELS)
    rules = [{"record": f"query:{number}", "expr": asked(one)} for number, one in enumerate(found)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_json_has_units_descriptions_and_links() -> None:
    paths = list(DASHBOARDS.glob("*.json"))
    assert paths
    for path in paths:
        board = json.loads(path.read_text())
        assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "fleet", "instance", "runbooks"]
        assert board["uid"] == path.stem
        for panel in board["panels"]:
            if panel["type"] == "row":
                continue
            assert panel["description"]
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert panel["links"][0]["url"].startswith("${runbooks}/")
            assert panel["type"] == "heatmap" or all("{{fleet}}" in one["legendFormat"] for one in panel["targets"])
            assert (panel.get("repeat") == "fleet") == (panel["type"] == "heatmap"), "a heatmap shows one fleet"
            assert panel["datasource"]["uid"] == "${datasource}"


class Prometheus:
    """A Prometheus that scrapes one fleet every second."""

    def __init__(self, folder: Path, target: str) -> None:
        self.port = free_port()
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            f"scrape_configs: [{{job_name: coordinator, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip

    def query(self, expression: str) -> list[Any]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=60) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])

    def ready(self) -> bool:
        try:
            return len(self.query("coordinator_build_info[10s]")) > 0 and self.samples() >= 4
        except OSError:
            return False

    def samples(self) -> int:
        found = self.query("count_over_time(coordinator_connections[1m])")
        return max((int(one["value"][1]) for one in found), default=0)

    def wait_for_more(self) -> None:
        before = self.samples()
        wait_until_sync(lambda: self.samples() >= before + 3, what="Prometheus to have seen it")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        config = folder / "fleet.yaml"
        keys = folder / "keys.json"
        keys.write_text(json.dumps({"keys": [Signer().jwk]}))
        config.write_text(CONFIG.replace("KEYS", str(keys)).replace("SECRET", SECRET))
        arguments = ("--config", str(config), "--port", "0", "--frontends", "2", "--workers", "1")
        fleet = stack.enter_context(RunningFleet(folder / "fleet", *arguments, FLEET_FLOWS_DEMO_TOOLS="true"))
        fleet.wait_ready()
        # A runner that waits for items is enough, as its counters begin at zero.
        command = (
            "run",
            "--url",
            fleet.state.base_url,
            "--tags",
            "none",
            "--state-dir",
            str(folder / "runs"),
            "--",
            "true",
        )
        stack.enter_context(RunningCommand(folder / "run", *command, FLEET_DATA_DIR=str(fleet.data_dir)))
        server = Prometheus(folder, f"127.0.0.1:{fleet.port}")
        stack.callback(server.close)
        wait_until_sync(server.ready, what="Prometheus to have scraped")
        for _ in range(2):  # a rate needs an earlier sample
            use(fleet)
            search_at_once(fleet)
            server.wait_for_more()
        # Hold times are counted only periodically.
        held = "sum(increase(coordinator_claim_hold_seconds_count[30s])) > 0"
        wait_until_sync(lambda: server.query(held), 60, "ended claims to be counted")
        runs = "rate(coordinator_runs_ended_total[30s])"
        wait_until_sync(lambda: server.query(runs), 60, "the end of a flow to be counted")
        wait_until_sync(lambda: server.query(AWAY), 60, "the server that is away to be asked")
        wait_until_sync(lambda: server.query("coordinator_runs_paused offset 2s"), 60, "the runner to be scraped")
        for metric in ("coordinator_webhook_attempts_total", "coordinator_attempts_total"):
            wait_until_sync(lambda: server.query(f"rate({metric}[30s])"), 60, metric)  # noqa: B023
        yield server


def use(fleet: RunningFleet) -> None:
    """A bit of everything that agents do."""
    with Http(fleet.port) as client:
        for number in range(5):
            made = client.call(
                "manage_items",
                operation="create",
                requestId=str(uuid.uuid4()),
                actor=ACTOR,
                items=[{"title": "t", "resources": [{"key": "gpu"}]}],
            )
            item = made["items"][0]["id"]
            for who in (ACTOR, {**ACTOR, "id": f"bob{number}"}):
                client.call("claim_item", actor=who, requestId=str(uuid.uuid4()), claims=[{"itemId": item}])
            client.call("query_items", operation="get", id=item)
            client.call(
                "advance_item", transitions=[{"itemId": item, "trigger": "start", "actor": ACTOR, "usage": USED}]
            )
            failed = {"itemId": item, "reason": "failed"}
            client.call("claim_item", actor=ACTOR, requestId=str(uuid.uuid4()), releases=[failed])
        step = {"name": "s", "tool": "echo", "args": {"value": 1}, "done": True}
        ask(client, "flows", "workflow_create", name="f", flow={"start": step})
        found = ask(client, "gateway", "workflow.start", definitionId="release", input={})
        link = {"workflowId": found["workflowId"], "expectedVersion": found["version"], "transition": "stay"}
        ask(client, "gateway", "workflow.submit", **link, arguments={})


def search_at_once(fleet: RunningFleet) -> None:
    """Enough concurrent calls that some wait for admission."""

    def search(_: int) -> None:
        with Http(fleet.port) as client:
            for _ in range(5):
                client.call("query_items", operation="search")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(search, range(8)))


def ask(client: Http, toolset: str, tool: str, **arguments: Any) -> Any:
    """The structured result of a call, in either form."""
    client.connection.request("POST", f"/mcp/{toolset}", call_body(tool, arguments), MCP_HEADERS)
    answer = client.connection.getresponse().read().decode()
    if not answer.startswith("{"):
        answer = next(line[5:] for line in answer.splitlines() if line.startswith("data:") and line[5:].strip())
    result = json.loads(answer)["result"]
    assert not result.get("isError"), result
    return result.get("structuredContent") or json.loads(result["content"][0]["text"])


def test_every_metric_of_the_rules_has_data_in_a_real_prometheus(prometheus: Prometheus) -> None:
    rules = "".join((DEPLOY / "prometheus" / name).read_text() for name in ("recording.yml", "alerts.yml"))
    names = set(re.findall(r"\bcoordinator_[a-z0-9_]+", rules))
    assert len(names) > 20
    names -= WITHOUT_DATA
    assert [name for name in names if not prometheus.query(f"count({name})")] == []


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_data_in_a_real_prometheus(prometheus: Prometheus, panel: Panel) -> None:
    for expression, _ in panel.queries:
        found = prometheus.query(asked(expression))
        assert found or set(re.findall(r"coordinator_[a-z0-9_]+", expression)) <= WITHOUT_DATA, expression
