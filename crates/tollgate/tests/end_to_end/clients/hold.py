"""Opens connections, sends the beginning of a ClientHello on each, and waits until they are closed.

hold.py PORT COUNT BYTES
"""

import resource
import socket
import sys


def main():
    port, count, size = (int(argument) for argument in sys.argv[1:])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 50:
        print(f"skipped: {hard} file descriptors are too few for {count} connections")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 50), hard))
    # A handshake record of 16 384 bytes, of which a part is sent.
    beginning = (b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(16384))[:size]
    held = []
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        if beginning:
            sock.sendall(beginning)
        held.append(sock)
    try:
        held[-1].recv(1)
    except OSError:
        pass


main()
