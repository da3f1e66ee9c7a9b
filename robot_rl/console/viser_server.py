"""A viser server that asks at the door: whoever comes to a page of this package needs its token."""

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from http import HTTPStatus
from typing import Any

import viser
import websockets.asyncio.server
from websockets import Headers
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from robot_rl.console.auth_proxy import KEEP_QUIET, Answer, AuthProxy


def guarded_server(title: str, listener: socket.socket, door: AuthProxy) -> viser.ViserServer:
    """A server that listens at `listener` and nowhere else, and asks the `door` before each
    request.
    """
    with (
        redirect_stdout(io.StringIO()),
        _behind(door, listener),
    ):  # it prints an address without the token
        server = viser.ViserServer(label=f"robot_rl: {title}", verbose=False)
    _hear_at_once(server)
    return server


def _hear_at_once(server: viser.ViserServer) -> None:
    """Each button and key counts as soon as it is to be seen.

    viser drops what a page says before the page has told where it looks from, which is after its
    first picture: on a slow machine a STOP in the first instants would be lost in silence. No
    callback here asks which page it was.
    """
    gui: Any = server.gui
    if not hasattr(gui, "_resolve_client"):
        raise RuntimeError(f"viser {viser.__version__} hears in another way than this file knows")
    who, unknown = gui._resolve_client, object()
    gui._resolve_client = lambda client_id: who(client_id) or unknown


@contextmanager
def _behind(door: AuthProxy, listener: socket.socket) -> Iterator[None]:
    """A viser server that is made meanwhile listens at this socket alone, and whoever comes is
    asked at the door.

    viser takes a host and a port, and lets everybody in. What it calls to listen also takes a
    socket, and somebody who looks at each request, of a page or of a websocket, before anything
    else does.
    """
    listen, used = websockets.asyncio.server.serve, threading.Event()

    def serve(handler: Any, *_: Any, process_request: Any, **options: Any) -> Any:
        used.set()
        return listen(
            handler,
            sock=listener,
            process_request=_asking(door, process_request),
            logger=QUIET,
            **options,
        )

    websockets.asyncio.server.serve = serve  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = listen  # type: ignore[misc]
    if not used.is_set():
        raise RuntimeError(
            f"viser {viser.__version__} listens in another way than this file knows: the page has"
            " no door"
        )


def _asking(door: AuthProxy, page: Callable[[ServerConnection, Request], Response | None]) -> Any:
    """Whoever looks at a request: the door first, then the page, which sees the path without what
    the door needs.
    """

    def process_request(connection: ServerConnection, request: Request) -> Response | None:
        peer = connection.remote_address
        said = door.ask(request.path, list(request.headers.raw_items()), (peer[0], peer[1]))
        if isinstance(said, Answer):
            fields = Headers([*said.fields, ("Content-Type", "text/plain; charset=utf-8")])
            response: Response | None = Response(
                said.status, HTTPStatus(said.status).phrase, fields, said.body.encode()
            )
        else:
            request.path = said
            response = page(connection, request)
        if response is not None:
            response.headers["Content-Length"] = str(len(response.body))
            for name, value in KEEP_QUIET:
                response.headers[name] = value
        return response

    return process_request


QUIET = logging.getLogger(f"{__name__}.websockets")
QUIET.addFilter(
    lambda record: (
        not record.getMessage().startswith(("opening handshake failed", "connection rejected"))
    )
)
"""It says nothing of strangers: they could fill a disk with what they send."""
