"""A browser that nobody sees, and a page of the console in it."""

import shutil
from collections.abc import Iterator

import pytest

from tests.teleop.benches import require, unavailable

CHROMIUM_HELP = (
    "the console's tests press its buttons in Chromium. On Debian or Ubuntu: "
    "`sudo apt-get install --no-install-recommends chromium`"
)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Debian's Chromium, headless, drawing in software; skip without it, naming what to install;
    with CI=true fail.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        unavailable(CHROMIUM_HELP)
    require("viser")
    require("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        yield browser
        browser.close()
