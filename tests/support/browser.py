"""A real browser for tests of pages: a headless Chromium that is installed on this machine, driven by Playwright.

Tests take the fixture ``page`` (tests/conftest.py). They must not be ``async``, nor share a file with tests that are:
while the browser is open, Playwright keeps an event loop running in the thread of the tests.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

_NAMES = (
    "chromium-headless-shell",  # Chromium without windows needs half of the CPU time
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
_ON_MACOS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_DISABLED = (
    # What Playwright disables; Chromium takes the last list that it is given.
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
    # Pages and processes that each window starts for itself: two thirds of the CPU time of a test with an own context.
    "PreloadTopChromeWebUI",
    "SpareRendererForSitePerProcess",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "WebUIOmniboxPopup",
)
_FLAGS = (
    f"--disable-features={','.join(_DISABLED)}",
    "--disable-gpu",
    # A process for each page and one that draws took a third of the CPU time.
    "--disable-software-rasterizer",
    "--in-process-gpu",
    "--disable-site-isolation-trials",
    "--process-per-site",
    "--renderer-process-limit=1",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS = 60_000
"""Timeout of the waits in a page."""
MISSING = (
    "no Chromium is installed here, and CHROMIUM names none (Debian: apt-get install chromium; anywhere: "
    ".venv/bin/playwright install chromium)"
)


def installed(of_playwright: str = "") -> str | None:
    """The path of a Chromium: the one in ``CHROMIUM``, one of the system, or Playwright's own.

    Args:
        of_playwright: where Playwright would have put one.
    """
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    found = [shutil.which(name) for name in _NAMES]
    places = [*_ON_MACOS, of_playwright] if sys.platform == "darwin" else [of_playwright]
    return next((one for one in (*found, *places) if one and Path(one).exists()), None)


@contextlib.contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """A browser that ends with the block; skips the test if there is none.

    Args:
        home: its profile directory.
    """
    with sync_playwright() as playwright:
        path = installed(playwright.chromium.executable_path)
        if path is None:
            pytest.skip(MISSING)
        expect.set_options(timeout=WAIT_MS)
        environment: dict[str, str | float | bool] = {**os.environ, "HOME": str(home)}
        browser = playwright.chromium.launch(
            executable_path=path, args=list(_FLAGS), env=environment, chromium_sandbox=False, timeout=2 * WAIT_MS
        )
        try:
            yield browser
        finally:
            browser.close()
