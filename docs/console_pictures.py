"""Pictures of an open console at a laptop's, a screen's and a phone's size: `python
docs/console_pictures.py LINK`.

LINK is what `robot-rl console` printed. Chromium and the package playwright are needed (`make
install` and `make browser`); the pictures lie in docs/img.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SIZES = {"laptop": (1366, 768), "screen": (1920, 1080), "phone": (390, 844)}
SEEN_MS = 6_000  # drawn in software


def main(link: str, folder: Path = Path(__file__).parent / "img") -> None:
    """Take them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        for name, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(120e3)
            page.goto(link)
            page.locator("#robot-rl-lamp").wait_for()
            page.wait_for_timeout(SEEN_MS)
            for notice in page.locator(".mantine-Notification-closeButton").all():
                notice.click()  # of drawing in software
            page.mouse.move(width / 2, 10)  # what the mouse is over has icons
            page.wait_for_timeout(1_000)
            page.screenshot(path=folder / f"console-{name}.jpg", type="jpeg", quality=70)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
