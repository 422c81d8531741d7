"""Sockets on the way to a host: TCP that neither dawdles nor waits for the dead, and the streams of a command."""

from __future__ import annotations

import contextlib
import socket
import subprocess


def through_command(command: str, undo: contextlib.ExitStack) -> socket.socket:
    """A socket whose far end is the standard streams of a command."""
    near, far = socket.socketpair()
    undo.callback(near.close)
    with far:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=far.fileno(),
            stdout=far.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    undo.callback(_reap, process)
    return near


def _reap(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tune(sock: socket.socket, *, interval: float, count: int) -> None:
    """No waiting for full packets (it costs 40 ms for each command), and an end to waiting for a dead peer."""
    seconds = max(1, round(interval))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", seconds),
        ("TCP_KEEPCNT", count),
        ("TCP_USER_TIMEOUT", int(interval * count * 1000)),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
