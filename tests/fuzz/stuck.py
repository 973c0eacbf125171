"""Work that never answers; this module imports next to nothing, so that its processes start at once."""

import os
import threading
from multiprocessing.connection import Connection


def hangs(connection: Connection, seed: int) -> None:
    connection.send(None)
    connection.recv()
    threading.Event().wait()


def dies(connection: Connection, seed: int) -> None:
    connection.send(None)
    connection.recv()
    os._exit(3)
