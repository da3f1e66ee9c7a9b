"""Laws of the door: who may come in, and who is told why not."""

import logging
import re
import socket

import pytest

from robot_rl.console.auth_proxy import (
    COOKIE,
    FREE_GUESSES,
    SENDERS,
    SLOWEST_S,
    Answer,
    AuthProxy,
    Guesses,
    is_loopback,
    sender_of,
)

TOKEN = "t" * 43
STRANGER = ("192.0.2.7", 40_000)
HOST = ("Host", "127.0.0.1:8080")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def door(clock: Clock) -> AuthProxy:
    door = AuthProxy("127.0.0.1", 8080, TOKEN)
    door.guesses = Guesses(clock)
    return door


def status(said: str | Answer) -> int:
    return said.status if isinstance(said, Answer) else 200


def come_in(door: AuthProxy, host: str = HOST[1]) -> tuple[str, tuple[str, str]]:
    """The path and the cookie of somebody who had the link."""
    said = door.ask(f"/?token={TOKEN}", [("Host", host)], STRANGER)
    assert isinstance(said, Answer) and said.status == 303
    fields = dict(said.fields)
    assert "HttpOnly" in fields["Set-Cookie"] and "SameSite=Strict" in fields["Set-Cookie"]
    return fields["Location"], ("Cookie", fields["Set-Cookie"].split(";")[0])


def test_nobody_comes_in_without_the_token_on_loopback_neither(door: AuthProxy) -> None:
    for target in (
        "/",
        "/index.html",
        "/?token=",
        "/?token=wrong",
        f"/?token={TOKEN[:-1]}",
        "/?token=\udcff",
    ):
        assert status(door.ask(target, [HOST], ("127.0.0.1", 1))) == 403


def test_the_link_with_the_token_leaves_a_cookie_that_opens_one_path(door: AuthProxy) -> None:
    path, cookie = come_in(door)
    assert path.startswith("/") and len(path) > 30, (
        "nobody else's page gets the cookie of a path that it cannot guess"
    )
    answer = door.ask(f"/?token={TOKEN}", [HOST], STRANGER)
    assert isinstance(answer, Answer)
    assert f"Path={path.rstrip('/')}" in dict(answer.fields)["Set-Cookie"]
    assert TOKEN not in path + cookie[1]
    assert door.ask(path, [HOST, cookie], STRANGER) == "/"
    assert door.ask(path.rstrip("/"), [HOST, cookie], STRANGER) == "/", "a websocket"
    assert (
        door.ask(f"{path}assets/a.js?v=1", [HOST, ("Cookie", f"a=b; {cookie[1]}")], STRANGER)
        == "/assets/a.js"
    )
    for target, fields in ((path, [HOST]), ("/", [HOST, cookie]), (path[:-2], [HOST, cookie])):
        assert status(door.ask(target, fields, STRANGER)) == 403
    assert status(door.ask(path, [HOST, ("Cookie", f"{COOKIE}_8080=wrong")], STRANGER)) == 403


def test_a_console_that_was_started_again_knows_the_cookie_and_one_at_another_port_has_its_own(
    door: AuthProxy,
) -> None:
    path, cookie = come_in(door)
    assert AuthProxy("127.0.0.1", 8080, TOKEN).ask(path, [HOST, cookie], STRANGER) == "/"
    assert status(AuthProxy("127.0.0.1", 8081, TOKEN).ask(path, [HOST, cookie], STRANGER)) == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://[bad"]
)
def test_another_site_in_the_same_browser_may_not_press_buttons(
    door: AuthProxy, origin: str
) -> None:
    path, cookie = come_in(door)
    assert status(door.ask(path, [HOST, cookie, ("Origin", origin)], STRANGER)) in (400, 403)
    assert door.ask(path, [HOST, cookie, ("origin", "http://127.0.0.1:8080")], STRANGER) == "/"


def test_a_name_that_was_bent_to_this_machine_does_not_come_in(door: AuthProxy) -> None:
    path, cookie = come_in(door)
    for fields in (
        [("Host", "evil.example:8080")],
        [("Host", "127.0.0.1.evil.example")],
        [],
        [HOST, HOST],
    ):
        assert status(door.ask(path, [*fields, cookie], STRANGER)) == 403
        assert status(door.ask(f"/?token={TOKEN}", fields, STRANGER)) == 403
    assert door.ask(path, [("Host", "localhost:9000"), cookie], STRANGER) == "/", "through a tunnel"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.2", "localhost", "::1", "0.0.0.0", "192.0.2.1", "robot.lab"]
)
def test_the_printed_link_works_whatever_the_host(host: str) -> None:
    door = AuthProxy(host, 8080, TOKEN)
    found = re.fullmatch(r"http://(.+:8080)(/\?token=.+)", door.url)
    assert found
    assert status(door.ask(found[2], [("Host", found[1])], STRANGER)) == 303


def test_who_guesses_waits_longer_and_longer_and_is_not_listened_to_meanwhile(
    door: AuthProxy, clock: Clock
) -> None:
    guess = lambda token: door.ask(f"/?token={token}", [HOST], STRANGER)  # noqa: E731
    assert [status(guess("wrong")) for _ in range(FREE_GUESSES)] == [403] * FREE_GUESSES
    waits = []
    for _ in range(6):
        said = guess(TOKEN)
        assert isinstance(said, Answer) and said.status == 429 and "Refresh" in dict(said.fields)
        waits.append(door.guesses.wait_s(str(STRANGER[0])))
        clock.now += waits[-1]
        assert status(guess("wrong")) == 403
    assert waits == [1.0, 2.0, 4.0, 8.0, SLOWEST_S, SLOWEST_S]
    assert status(door.ask(f"/?token={TOKEN}", [HOST], ("192.0.2.8", 1))) == 303, (
        "others do not wait for a guesser"
    )
    clock.now += SLOWEST_S
    assert (
        status(guess(TOKEN)) == 303
        and status(guess("wrong")) == 403
        and status(guess(TOKEN)) == 303
    )


def test_many_addresses_guess_no_faster_than_few_and_are_not_all_remembered(clock: Clock) -> None:
    guesses = Guesses(clock)
    for i in range(3 * SENDERS):
        guesses.wrong(f"10.0.{i // 256}.{i % 256}")
    assert (
        guesses.wait_s("another") > 0.0
        and len(guesses._wrong) <= SENDERS + 1
        and guesses.total == 3 * SENDERS
    )


def test_guesses_are_said_in_the_log_and_do_not_fill_it(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    guesses = Guesses(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(2000):
            guesses.wrong("192.0.2.7")
    assert [record.args for record in caplog.records] == [
        (n, "192.0.2.7") for n in (FREE_GUESSES, 10, 100, 1000)
    ]


def test_accounts_of_this_machine_are_told_apart() -> None:
    import os

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        end = client.getsockname()
        assert sender_of(end) == f"user {os.getuid()} of this machine"
        peer, _ = server.accept()
        client.close()
        assert sender_of(end) == "127.0.0.1", "one who hung up is nobody's any more"
        peer.close()
    assert sender_of(("2001:db8::1:2", 5)) == sender_of(("2001:db8::ffff", 5)) == "2001:db8::/64"


def test_only_this_machine_can_come_to_loopback() -> None:
    assert is_loopback("127.0.0.1") and is_loopback("localhost") and is_loopback("::1")
    assert not is_loopback("0.0.0.0") and not is_loopback("robot.lab")
