"""Two arms, their hands and four cameras on the page: seen at each size, the hands' buttons held
down in a real browser, a fault acknowledged.
"""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config import GripperConfig
from tests.console.test_buttons import LAPTOP, PATIENCE_S, PHONE, is_within, wait, width_of
from tests.links.test_console_link import a_step

VIEWS = {"wrist": (128, 128), "front": (64, 480), "side": (480, 64), "top": (1, 700)}
"""Height and width of what each camera sees, one line among them."""
HANDS = {"left hand": 6, "right hand": 13}

pytestmark = pytest.mark.timeout(300)


def told(name: str, **others) -> dict:
    hand = {"name": name, "arm": name.split()[0], "width_m": 0.046, "moving": False, "held": False}
    return hand | {"reason": ""} | others


@pytest.fixture
def console(desk):
    """The page of a bench of two arms, neither of which answers, each with a hand."""
    from robot_rl.console.model import Sources
    from robot_rl.console.serve import Console

    hardware = config.load_hardware("sim_panda")
    arms = tuple(
        replace(hardware.arms[0], name=name, address=f"local://nobody-{name}")
        for name in ("left", "right")
    )
    grippers = tuple(GripperConfig(f"{arm.name} hand", "mujoco", arm=arm.name) for arm in arms)
    seen = {f"image/{name}": np.full((*size, 3), 90, np.uint8) for name, size in VIEWS.items()}
    desk.show(replace(a_step(1), observation=seen), [])
    desk.tell(phase="acting")
    desk.hands = SimpleNamespace(told=lambda: [told("left hand", held=True), told("right hand")])
    desk.hand_buttons.listen(HANDS)
    bench = replace(hardware, arms=arms, grippers=grippers)
    console = Console(Sources("test", bench, desk=desk.address), port=0)
    stop = threading.Event()
    looking = threading.Thread(target=lambda: console.run(stop.is_set))
    looking.start()
    yield console
    stop.set()
    looking.join(20.0)
    console.close()


def opened(browser, console, size=LAPTOP):
    page = browser.new_page(viewport=size, device_scale_factor=0.5)
    page.set_default_timeout(1e3 * PATIENCE_S)
    page.goto(console.url)
    page.add_style_tag(content=".mantine-Notifications-root { display: none }")
    wait(lambda: page.locator('img[src^="blob:"]').count() == len(VIEWS))
    return page


def button(page, label: str):
    return page.get_by_role("button", name=label)


def is_seen(page, size, least: float) -> bool:
    """Whether all views are on the screen, and the square one is large."""
    views = page.locator('img[src^="blob:"]')
    boxes = [views.nth(i).bounding_box() for i in range(views.count())]
    return width_of(views.first) >= least and all(box and is_within(box, size) for box in boxes)


def test_hands_and_four_views_are_seen_and_a_button_counts_while_it_is_held_down(
    browser, console, desk
):
    first = opened(browser, console)
    wait(lambda: is_seen(first, LAPTOP, 220))
    for label in (
        "STOP",
        "Success / keep",
        "Failure",
        *(f"{b} {h}" for b in ("Open", "Close") for h in HANDS),
    ):
        assert is_within(button(first, label).bounding_box(), LAPTOP), label
    first.locator("#robot-rl-lamp").get_by_text("left hand: 46 mm open, holds").wait_for()

    pressed = desk.hand_buttons._pressed
    button(first, "Close left hand").hover()
    first.mouse.down()
    for _ in range(3):  # it says so again and again
        before = pressed["left hand"]["close"]
        wait(lambda before=before: pressed["left hand"]["close"] > before)
    second = opened(browser, console, PHONE)
    wait(lambda: is_seen(second, PHONE, 150))
    button(second, "Open right hand").hover()
    second.mouse.down()  # and held: the other's button says so again and again as well
    second.locator("#robot-rl-note").get_by_text("open right hand: heard").wait_for()
    assert pressed["right hand"]["open"] > 0.0
    second.mouse.up()
    wait(lambda: HANDS["left hand"] in desk.hand_buttons.orders())
    first.close()  # with the button down
    wait(lambda: not desk.hand_buttons.orders())

    desk.hands.told = lambda: [told("left hand"), told("right hand", reason="<b>jammed</b>")]
    second.locator('#robot-rl-event[data-event="fault"]').wait_for(state="attached")
    second.locator("#robot-rl-lamp").get_by_text("right hand: fault").wait_for()
    button(second, "Acknowledge fault").click()
    wait(lambda: desk.acknowledged)  # though neither arm answers
    second.locator("#robot-rl-note").get_by_text("acknowledge: no arm process answered").wait_for()
    second.close()
