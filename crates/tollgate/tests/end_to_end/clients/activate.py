"""Starts a program with a listening socket handed in, as systemd does.

activate.py ADDRESS:PORT PROGRAM ARGUMENT...
"""

import os
import socket
import sys


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, int(port)))
    listener.listen(128)
    # Descriptor 3 is the first that sd_listen_fds(3) speaks of.
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    os.environ["LISTEN_FDS"] = "1"
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.execv(sys.argv[2], sys.argv[2:])


main()
