"""Whether anybody is at a Franka's address, before its client library is asked to connect."""

import socket

REACH_S = 3.0
"""How long anything at the robot's address may take to answer: it hangs on a cable of its own."""

DESK_PORT, FCI_PORT = 443, 1337


def require_somebody(ip: str) -> None:
    """Raise OSError if nobody answers at this address: libfranka would wait for a minute.

    Desk's port is tried first: a connection that is opened and closed again must not disturb the
    control interface.
    """
    problem = ""
    for port in (DESK_PORT, FCI_PORT):
        try:
            socket.create_connection((ip, port), timeout=REACH_S).close()
            return
        except ConnectionRefusedError:  # somebody is there and says no
            return
        except OSError as error:
            problem = str(error)
    raise OSError(f"nobody answers: {problem}")
