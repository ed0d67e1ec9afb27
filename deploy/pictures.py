"""Makes the pictures of the console that pages show: ``python -m deploy.pictures``. They are checked in.

Starts a fleet of its own with made-up work. Needs the development dependencies (Playwright) and a Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from coordinator.client import SyncFleet
from coordinator.processes.fleetfile import read_fleet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = "web-shop"
PICTURES = {
    ".github/overview.png": "overview",
    ".github/board.png": "board",
    ".github/workflow.png": "flow/{flow}",
    "deploy/system.png": "system",
}
"""Files, and what follows the project in the address of what they show."""
_SIZE = {"width": 1280, "height": 720}
_START_SECONDS = 180
_RELEASE: dict[str, Any] = {
    "start": {"name": "build", "tool": "get_greeting", "args": {"name": "{{input.version}}"}, "next": "checks"},
    "checks": {"name": "checks", "tool": None, "parallel": ["unit", "browser", "load"]},
    "unit": {"name": "unit tests", "tool": "get_counter", "join": "review"},
    "browser": {"name": "browser tests", "tool": "get_counter", "join": "review"},
    "load": {
        "name": "load test", "tool": "fail", "args": {"until_attempt": 2}, "join": "review",
        "retry": {"max_attempts": 3, "delay_ms": 1},
    },
    "review": {"name": "review", "tool": None, "next": "deploy"},
    "deploy": {"name": "deploy", "tool": "get_counter", "next": "watch"},
    "watch": {"name": "watch the errors", "tool": "sleep", "args": {"ms": 60_000}, "done": True},
}  # fmt: skip
_TITLES = (
    "Parse the address of a delivery", "Show prices with tax", "Cache the list of categories", "Retry a failed payment",
    "Send a receipt by mail", "Limit sign-in attempts", "Index orders by customer", "Round totals as the invoice does",
    "Drop the old cart table", "Translate the checkout into Dutch", "Load pictures when they are seen",
    "Say why a card was refused", "Keep a cart for a week", "Export orders as CSV", "Test the refund of a voucher",
    "Measure the time to first offer", "Show what is left in stock", "Stop double clicks on Pay",
    "Search by product code",
    "Move sessions to the store", "Describe the webhook of orders", "Accept addresses without a number",
    "Warn before a voucher ends", "Sort reviews by date",
)  # fmt: skip
_TAGS = ("api", "ui", "db", "api,payments", "ui,checkout", "docs")


def create(fleet: SyncFleet, *items: dict[str, Any], **common: Any) -> list[str]:
    """The ids of new items."""
    made = fleet.call("manage_items", {"operation": "create", "items": list(items), **common})["items"]
    return [str(one["id"]) for one in made]


def advance(fleet: SyncFleet, item: str, trigger: str, agent: str) -> None:
    """One transition."""
    change = {"itemId": item, "trigger": trigger, "actor": {"id": agent, "kind": "subagent"}}
    fleet.call("advance_item", {"transitions": [change]})


def fill(fleet: SyncFleet, soon_seconds: int = 50) -> dict[str, Any]:
    """Makes a project look as if agents worked in it; ids of what can be looked at, by the name of the view.

    Args:
        soon_seconds: after which one claim ends, long before the others.
    """
    (root,) = create(
        fleet,
        {
            "title": "Checkout in one page", "priority": "high", "summary": "One page from the cart to **Pay**.",
            "budget": {"costMicroUsd": 6_500_000},
        },
    )  # fmt: skip
    items: list[dict[str, Any]] = [
        {"title": title, "priority": ("medium", "high", "low")[number % 3], "tags": _TAGS[number % len(_TAGS)]}
        for number, title in enumerate(_TITLES)
    ]
    for number in (1, 5, 11):
        items[number] |= {"resources": [{"key": "db/orders"}]}
    items[3] |= {"dueAt": "2026-01-01T12:00Z"}
    items[9] |= {"dueAt": "+2d"}
    ids = create(fleet, *items[:9], parentId=root) + create(fleet, *items[9:])
    edges = [
        {"fromItemId": ids[a], "toItemId": ids[b]}
        for a, b in ((0, 1), (1, 4), (0, 3), (3, 4), (4, 7), (8, 7), (12, 20))
    ]
    fleet.call("manage_dependencies", {"operation": "create", "dependencies": edges})
    for number, item in enumerate((ids[0], ids[2], ids[9], ids[5], ids[10], ids[13], ids[6])):
        agent = f"claude-{number + 1}"
        claim = [{"itemId": item, "ttlSeconds": soon_seconds if number == 3 else 900}]
        fleet.call("claim_item", {"claims": claim, "actor": {"id": agent, "kind": "subagent"}}, agent=agent)
        if number != 6:
            advance(fleet, item, "start", agent)
        if number in (1, 2):
            advance(fleet, item, "complete", agent)
    for number, (item, model) in enumerate(((ids[0], "opus"), (ids[9], "opus"), (ids[5], "sonnet"), (ids[10], "mini"))):
        used = {"inputTokens": 900_000 // (number + 1), "outputTokens": 40_000 // (number + 1), "model": model}
        used |= {"costMicroUsd": 4_300_000 // (number + 1), "wallMs": 2_700_000 // (number + 1)}
        note = {"itemId": item, "key": "progress", "role": "work", "body": "Half of it is done.", "usage": used}
        agent = ("claude-1", "claude-3", "claude-4", "claude-5")[number]
        fleet.call("manage_notes", {"operation": "upsert", "notes": [note]}, agent=agent)
    advance(fleet, ids[16], "hold", "orchestrator")
    flow = fleet.call("workflow_create", {"name": "Release 2.4", "flow": _RELEASE, "input": {"version": "2.4"}})["id"]
    return {"item": root, "flow": flow, "tree": root}


def look(page: Page, url: str) -> None:
    """Opens a page and waits until it is current."""
    page.goto(url)
    page.wait_for_selector("#live[data-state=live]")
    page.wait_for_selector(".changed", state="detached")


def main() -> int:
    """Makes all of them."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data, config = Path(folder) / "data", Path(folder) / "fleet.yaml"
        config.write_text("flows: {demo_tools: true}\n")
        command = [
            str(Path(sys.executable).with_name("fleet")),
            "up",
            "--port",
            "0",
            "--frontends",
            "2",
            "--workers",
            "1",
        ]
        command += ["--data-dir", str(data), "--config", str(config)]
        running = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + _START_SECONDS
            while (fleet := read_fleet(data)) is None or not fleet.ready:
                if running.poll() is not None or time.monotonic() > until:
                    print("the fleet does not start", file=sys.stderr)
                    return 1
                time.sleep(0.2)
            with SyncFleet(fleet.base_url, project=PROJECT, agent="orchestrator") as client:
                ids = fill(client)
            path = next(
                (one for one in ("/usr/bin/chromium", playwright.chromium.executable_path) if Path(one).exists()), None
            )
            with playwright.chromium.launch(executable_path=path, chromium_sandbox=False) as browser:
                page = browser.new_page(viewport=_SIZE, color_scheme="light")  # type: ignore[arg-type]
                for file, view in PICTURES.items():
                    where = view.format(**ids) if view == "system" else f"p/{PROJECT}/{view.format(**ids)}"
                    look(page, f"{fleet.base_url}/console/{where}")
                    page.screenshot(path=ROOT / file)
        finally:
            running.terminate()
            running.wait(60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
