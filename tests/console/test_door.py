"""Laws of the door: who may come in, and who is told why not."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from robot_rl.console.door import COOKIE, Door, is_loopback
from robot_rl.types import LinkError


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"the page at " + self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page_port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["", "secret"])
def door(request, page_port):
    door = Door("127.0.0.1", 0, page_port, request.param)
    door.asks = bool(request.param)  # type: ignore[attr-defined]
    yield door
    door.close()


def get(door: Door, path: str = "/", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=10)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    status, body, fields = response.status, response.read().decode(), dict(response.getheaders())
    connection.close()
    return status, body, fields


def test_on_loopback_the_page_is_there_and_with_a_token_only_for_who_has_it(door):
    status, body, _ = get(door)
    assert (status, body) == ((403, "Open the link with the token that robot-rl console printed.")
                              if door.asks else (200, "the page at /"))  # fmt: skip


def test_the_link_with_the_token_leaves_a_cookie_that_opens(door):
    if not door.asks:
        pytest.skip("this door asks for no token")
    assert get(door, "/?token=wrong")[0] == get(door, "/", Cookie=f"{COOKIE}=wrong")[0] == 403
    status, _, fields = get(door, "/?token=secret")
    assert status == 303 and fields["Location"] == "/" and "HttpOnly" in fields["Set-Cookie"]
    cookie = fields["Set-Cookie"].split(";")[0]
    assert get(door, "/assets/a.js", Cookie=cookie)[:2] == (200, "the page at /assets/a.js")


def test_another_site_in_the_same_browser_may_not_press_buttons(door):
    headers = {"Origin": "http://evil.example", "Cookie": f"{COOKIE}=secret"}
    assert get(door, **headers)[0] == 403


def test_a_name_that_was_bent_to_this_machine_does_not_come_in_without_a_token(door):
    if door.asks:
        pytest.skip("the token decides")
    assert get(door, Host="evil.example")[0] == 403
    assert get(door, Host="localhost:8080")[0] == 200


@pytest.mark.parametrize(
    "sent", [b"", b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 100_000, b"GET / HTTP/1.1\r\n"]
)
def test_who_is_no_browser_is_shown_out_and_the_door_stays_open(door, sent):
    import socket

    with socket.create_connection(("127.0.0.1", door.port), timeout=10) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    assert get(door)[0] in (200, 403)


def test_beyond_loopback_there_is_no_door_without_a_token(page_port):
    assert is_loopback("127.0.0.1") and is_loopback("localhost") and is_loopback("::1")
    assert not is_loopback("0.0.0.0") and not is_loopback("robot.lab")
    with pytest.raises(LinkError, match="needs a token"):
        Door("0.0.0.0", 0, page_port)


def test_a_port_that_is_taken_is_named(page_port):
    with pytest.raises(LinkError, match=f"cannot listen at 127.0.0.1:{page_port}"):
        Door("127.0.0.1", page_port, page_port)
