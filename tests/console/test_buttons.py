"""Every button and key of the page, pressed in a real browser at each size, and what it says at the
desk.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.types import WORDS
from tests.console.mouse import SIZE
from tests.links.test_console_link import a_step
from tests.teleop.benches import wait_until

PATIENCE_S = 60.0  # Chromium draws in software, perhaps beside a training
LAPTOP, SCREEN, PHONE = SIZE, {"width": 1920, "height": 1080}, {"width": 390, "height": 844}
SAYS = {"halt": ["STOP"], "acknowledge": []} | {
    word: [word.upper()] for word in WORDS if word != "stop"
}
"""What each word of the page is at the desk; a fault is acknowledged at the arm."""
VIEW = 'img[src^="blob:"]'
APART = 24  # pixels between STOP and any other button

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def console(desk):
    """The console of a bench without arms, whose two cameras have shown something."""
    from robot_rl.console.model import Sources
    from robot_rl.console.serve import Console

    seen = {f"image/{name}": np.full((128, 128, 3), 90, np.uint8) for name in ("wrist", "front")}
    desk.step = replace(a_step(1), observation=seen)
    desk.show(desk.step, [])
    desk.tell(phase="acting")
    console = Console(
        Sources("test", replace(config.load_hardware("sim_panda"), arms=()), desk=desk.address),
        port=0,
    )
    stop = threading.Event()
    looking = threading.Thread(target=lambda: console.run(stop.is_set))
    looking.start()
    yield console
    stop.set()
    looking.join(20.0)
    console.close()


@pytest.fixture
def page(browser, console):
    """Its page, once both views are drawn."""
    context = browser.new_context(viewport=LAPTOP, has_touch=True, device_scale_factor=0.5)
    page = context.new_page()
    page.set_default_timeout(1e3 * PATIENCE_S)
    page.goto(console.url)
    # that it draws in software
    page.add_style_tag(content=".mantine-Notifications-root { display: none }")
    wait(lambda: page.locator(VIEW).count() == 2)
    yield page
    context.close()


def wait(true) -> None:
    wait_until(true, timeout_s=PATIENCE_S)


def hears(desk, word: str) -> None:
    """The desk hears what this word says, and nothing else."""
    heard: list[str] = []

    def all_is_there() -> bool:
        heard.extend(event.command.name for event in desk.events.take())
        return len(heard) >= len(SAYS[word])

    wait(all_is_there)
    assert heard == SAYS[word], word


def test_every_button_and_key_says_its_word_and_what_matters_is_in_view(page, console, desk):
    from robot_rl.console.page import BUTTONS, KEYS, STOP

    assert SAYS.keys() == {word for word, *_ in (STOP, *BUTTONS)} >= set(KEYS.values())
    buttons = {
        word: page.get_by_role("button", name=label.split("  ")[0])
        for word, label, *_ in (STOP, *BUTTONS)
    }
    views, note = page.locator(VIEW), page.locator("#robot-rl-note")
    for size, least in ((LAPTOP, 400), (SCREEN, 480)):
        page.set_viewport_size(size)
        wait(lambda least=least: width_of(views.last) >= least)
        for word in ("halt", "success", "failure"):
            wait(lambda word=word, size=size: is_within(buttons[word].bounding_box(), size))
        wait(lambda: stand_apart(buttons))
    for word, button in buttons.items():
        button.click()
        note.get_by_text("stop: heard" if word == "halt" else f"{word}: heard").wait_for()
        hears(desk, word)
    for key, word in KEYS.items():
        page.keyboard.press("Space" if key == "space" else key.lower())
        hears(desk, word)

    page.set_viewport_size(PHONE)
    wait(lambda: 250 <= width_of(views.last) < PHONE["width"])
    wait(lambda: comes_first(views))
    wait(lambda: all(is_within(views.nth(i).bounding_box(), PHONE) for i in (0, 1)))
    for word, button in buttons.items():
        button.tap()
        hears(desk, word)
        # however far one has scrolled
        wait(lambda: is_within(buttons["halt"].bounding_box(), PHONE))
        assert buttons["halt"].bounding_box()["height"] >= 44
    page.mouse.wheel(0, -5_000)
    wait(lambda: comes_first(views))

    sound, event = page.get_by_label("Sound"), page.locator("#robot-rl-event")
    for number, sounds in enumerate((True, False, True), start=1):
        if number > 1:
            sound.tap()
        wait(lambda sounds=sounds: console.page._sound.value is sounds)
        happens(desk, episode=number)
        page.locator(f'#robot-rl-event[data-event="success"][data-number="{number}"]').wait_for(
            state="attached"
        )
        assert event.locator("audio").count() == sounds


def width_of(view) -> float:
    """How wide it is now; 0 while the page is laid out anew."""
    box = view.bounding_box()
    return box["width"] if box is not None else 0.0


def comes_first(views) -> bool:
    """Whether the views are at the top."""
    box = views.first.bounding_box()
    return box is not None and box["y"] < 80


def is_within(box, size) -> bool:
    """Whether all of it is in the window; not while the page is laid out anew."""
    return box is not None and (
        0 <= box["x"] <= box["x"] + box["width"] <= size["width"]
        and 0 <= box["y"] <= box["y"] + box["height"] <= size["height"]
    )


def stand_apart(buttons) -> bool:
    """Whether STOP is large, and no other button is near."""
    boxes = {word: button.bounding_box() for word, button in buttons.items()}
    if None in boxes.values():
        return False
    stop = boxes.pop("halt")
    near = any(box["y"] + box["height"] > stop["y"] - APART for box in boxes.values())
    return stop["height"] >= 44 and not near


def happens(desk, episode: int) -> None:
    """An episode succeeds."""
    desk.show(
        replace(desk.step, episode=episode, index=9, reward=1.0, terminated=True, success=True), []
    )


def test_a_page_is_heard_before_it_has_told_where_it_looks_from(page, console, desk):
    """A STOP that is pressed as soon as it is to be seen, on a machine that draws slowly."""
    from robot_rl.console.page import STOP

    wait(console.page._server.get_clients)
    console.page._server._connected_clients.clear()  # as before its first picture
    page.keyboard.press("Space")
    hears(desk, "halt")
    page.get_by_role("button", name=STOP[1].split("  ")[0]).click()
    hears(desk, "halt")


def test_a_question_is_answered_by_button_and_key_about_the_moment_that_is_shown(
    page, desk, monkeypatch
):
    monkeypatch.setattr("robot_rl.console.page.LOOK_AT_IT_S", 0.0)
    desk.asks = True
    question, yes = page.locator("#robot-rl-question"), page.get_by_role("button", name="It was  (")
    note = page.locator("#robot-rl-note")
    page.keyboard.press("y")
    note.get_by_text("nothing is asked now").wait_for()
    assert not yes.is_visible()

    def asks(episode: int) -> None:
        step = replace(desk.step, episode=episode, index=4)
        desk.show(step, [], probability=0.5, doubtful=True)
        question.get_by_text(f"episode {episode}, step 4").wait_for()
        assert question.locator("img").count() == 2

    def answered(how: str, episode: int) -> None:
        wait(lambda: desk.events._events)
        (event,) = desk.events.take()
        assert (event.command.name, event.moment.episode, event.moment.index) == (how, episode, 4)
        question.wait_for(state="hidden")

    asks(7)
    yes.click()
    answered("SUCCESS", 7)
    asks(8)
    page.keyboard.press("x")
    answered("DENY", 8)
    # one that has just come has to be seen first
    monkeypatch.setattr("robot_rl.console.page.LOOK_AT_IT_S", 1e9)
    asks(9)
    yes.click()
    note.get_by_text("look at it, then answer").wait_for()
    assert desk.events.take() == []
