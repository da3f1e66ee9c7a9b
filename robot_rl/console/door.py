"""The door to the page: it asks who comes, and passes everything on to the page, which listens on loopback alone.

On loopback nobody needs a token, but the request must have been meant for this page: a site that is open in the same
browser must not press its buttons. Any other address needs the token, once, in the link; a cookie keeps it. There is
no encryption: through a network that is not trusted, take an ssh tunnel.
"""

import asyncio
import hmac
import ipaddress
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from robot_rl.types import LinkError

T = TypeVar("T")
MAX_HEAD = 1 << 14
HEAD_S = 10.0
COOKIE = "robot_rl_console"
LOCAL = ("localhost", "127.0.0.1", "[::1]", "::1")


class Door:
    """Listens at host and port, in a thread of its own, and lets in whoever may."""

    def __init__(self, host: str, port: int, page_port: int, token: str = ""):
        """Raises LinkError for a taken port, or an address beyond loopback without a token."""
        if not token and not is_loopback(host):
            raise LinkError(f"a console at '{host}' needs a token: whoever opens the page may move the arm")
        self._token, self._page_port = token, page_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="console door", daemon=True)
        self._thread.start()
        try:
            self._server = self._do(asyncio.start_server(self._meet, host, port, limit=MAX_HEAD))
        except OSError as error:
            self._end()
            raise LinkError(f"cannot listen at {host}:{port}: {error.strerror}. Choose another --port") from error
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Nobody comes in any more, and who is in leaves."""
        self._do(self._shut())
        self._end()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """What the loop's own thread makes of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _shut(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
            if (answer := self.answer(head)) is not None:
                writer.write(answer)
                await writer.drain()
                return
            page_reader, page_writer = await asyncio.open_connection("127.0.0.1", self._page_port)
            page_writer.write(head)
            await asyncio.gather(_pass_on(reader, page_writer), _pass_on(page_reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, ValueError, IndexError):
            pass  # somebody who is no browser, or hung up
        except asyncio.CancelledError:
            pass  # the door is closed; asyncio (3.11) would print what was cancelled
        finally:
            writer.close()

    def answer(self, head: bytes) -> bytes | None:
        """What is answered to a request in the page's stead; None if it may pass."""
        request, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        target = urlsplit(request.split(" ")[1])
        host, origin = fields.get("host", ""), fields.get("origin", "")
        if origin and urlsplit(origin).netloc != host:
            return _refusal("This page takes no requests from other sites.")
        if not self._token:
            named = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
            return None if named in LOCAL else _refusal("Without a token this page is for this machine alone.")
        cookies = dict(part.strip().partition("=")[::2] for part in fields.get("cookie", "").split(";"))
        if self._is_token(cookies.get(COOKIE, "")):
            return None
        if self._is_token(parse_qs(target.query).get("token", [""])[0]):
            cookie = f"Set-Cookie: {COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            return _answer("303 See Other", "Location: /", cookie)
        return _refusal("Open the link with the token that robot-rl console printed.")

    def _is_token(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), self._token.encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine can come to an address."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def _refusal(why: str) -> bytes:
    return _answer("403 Forbidden", "Content-Type: text/plain", body=why)


def _answer(status: str, *fields: str, body: str = "") -> bytes:
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body)}", "Connection: close", "", body]
    return "\r\n".join(lines).encode()
