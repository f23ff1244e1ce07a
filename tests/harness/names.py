"""Names that a test resolves."""
import socket

import pytest


def why_no_localhost():
    """Why the name localhost is of no use here; "": it is."""
    try:
        socket.getaddrinfo("localhost", None)
    except OSError as e:
        return f"this system does not know the name localhost, has /etc/hosts a line for it? ({e})"
    return ""


needs_localhost = pytest.mark.skipif(why_no_localhost() != "", reason=why_no_localhost())
