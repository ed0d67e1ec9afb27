"""Each view looks as it did: wide and narrow, in light and dark, compared with pictures that are checked in.

They hold for one major version of Chromium and the fonts of the machine that made them; elsewhere the tests are
skipped. ``UPDATE_SCREENSHOTS=1 make screenshots`` makes them anew.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pixelmatch.contrib.PIL import pixelmatch
from playwright.sync_api import Browser, Page, ViewportSize

from coordinator.client import SyncFleet
from coordinator.console.views import VIEWS
from tests.console.busy import address_of, fill_project
from tests.support.fleets import RunningFleet
from tests.support.wait import wait_until_sync

pytestmark = pytest.mark.screenshots

PROJECT = "web-shop"
BASELINES = Path(__file__).parent / "screenshots"
RENEWED = os.environ.get("UPDATE_SCREENSHOTS") == "1"
SIZES: dict[str, ViewportSize] = {"wide": {"width": 1280, "height": 720}, "phone": {"width": 390, "height": 844}}
TOLERANCE = 0.001
"""The share of the pixels that may differ."""
COLOURS = 64
"""Of a picture: few, so that the files are small."""
NOW = 1_800_000_000
FONTS = (
    "<p style='font: 14px system-ui'>Sphinx of black quartz, 01</p><code style='font: 14px ui-monospace'>0x1f</code>"
)
CONSTANT = """() => {
  for (const time of document.querySelectorAll('time')) {
    time.textContent = time.dataset.left ? '5:00 left' : '1 min ago';
  }
  for (const chart of document.querySelectorAll('.spark')) (chart.closest('.tile-note') ?? chart).remove();
  for (const rate of document.querySelectorAll('[data-key=rate] .figure')) rate.textContent = '0';
  for (const pace of document.querySelectorAll('.idle')) pace.replaceWith(Object.assign(
    document.createElement('span'), { className: 'moves', textContent: 'moving' }));
  for (const slow of document.querySelectorAll('.number .bad')) slow.classList.remove('bad');
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    text.data = text.data
      .replace(/[0-9a-f-]{8,}/g, (id) => id.replace(/[0-9a-f]/g, '0'))
      .replace(/(pid )?[0-9]+(?:[.,][0-9]+)*( ms)?/g, (all, pid, ms) => pid || ms ? `${pid ?? ''}0${ms ?? ''}` : all);
    if (text.parentElement.closest('[data-view=system] :is(td, dd)')) {
      text.data = text.data.replace(/[0-9]+([.,][0-9]+)*/g, '0');
    }
  }
}"""
"""Gives times, ids and what is measured the same text in each run, and leaves out what is sampled once a minute."""


@pytest.fixture(scope="module")
def ids(running: RunningFleet) -> dict[str, Any]:
    """Of what views show, in a project that rests."""
    ids = fill_project(running.state.base_url, PROJECT, soon_seconds=900)
    with SyncFleet(running.state.base_url, project=PROJECT) as fleet:

        def at_gate() -> bool:
            steps = fleet.call("workflow_get", {"id": ids["flow"]}, toolset="flows")["steps"]
            return any((one["name"], one["status"]) == ("review", "running") for one in steps)

        wait_until_sync(at_gate, what="the workflow to wait at its gate")
    return ids


@pytest.fixture(scope="module")
def baselines(browser: Browser) -> Path:
    """The folder of the pictures of this Chromium."""
    major = browser.version.partition(".")[0]
    folder, page = BASELINES / major, browser.new_page(viewport={"width": 240, "height": 80})
    page.set_content(FONTS)
    fonts = taken(page)
    page.close()
    if RENEWED:
        folder.mkdir(parents=True, exist_ok=True)
        fonts.save(folder / "fonts.png")
    elif not folder.exists():
        others = ", ".join(sorted(one.name for one in BASELINES.iterdir()))
        pytest.skip(f"this is Chromium {major}; the pictures are of {others}")
    elif different(fonts, folder / "fonts.png"):
        pytest.skip("the pictures were made with other fonts, or another build of Chromium")
    return folder


@pytest.fixture
def page(browser: Browser, watch: Callable[[Page], Page], mishaps: list[str]) -> Iterator[Page]:
    """One whose clock stands still, so that it does not read anything again."""
    context = browser.new_context(reduced_motion="reduce")
    page = watch(context.new_page())
    page.clock.install(time=NOW)
    page.clock.pause_at(NOW + 1)
    yield page
    context.close()
    assert not mishaps


def taken(page: Page) -> Image.Image:
    shot = page.screenshot(animations="disabled")
    with Image.open(io.BytesIO(shot)) as picture:
        return picture.convert("RGB").quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def different(picture: Image.Image, file: Path) -> float:
    """The share of the pixels that differ from a file; leaves a picture of them beside it."""
    difference = Image.new("RGBA", picture.size)
    with Image.open(file) as baseline:
        share = pixelmatch(picture, baseline, difference) / (picture.width * picture.height)
    if share > TOLERANCE:
        difference.save(file.with_suffix(".different.png"))
    return share


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_looks_as_it_did(
    running: RunningFleet, page: Page, ids: dict[str, Any], baselines: Path, view: str, size: str
) -> None:
    page.set_viewport_size(SIZES[size])
    page.goto(running.state.base_url + address_of(VIEWS[view], PROJECT, ids))
    page.locator("#live:is([data-state=live], [data-state=still])").wait_for(state="attached")
    page.evaluate(CONSTANT)
    shares = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture, file = taken(page), baselines / f"{view}-{size}-{scheme}.png"
        if RENEWED:
            picture.save(file, optimize=True)
        shares[file.name] = different(picture, file)
    assert max(shares.values()) <= TOLERANCE, shares
