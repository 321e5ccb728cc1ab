"""Connects several times with one session store and prints whether each connection resumed.

sessions.py PORT NAME CA VERSION COUNT; the request is on standard input.
"""

import socket
import ssl
import sys


def main():
    port, name, authority, version, count = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
    request = sys.stdin.buffer.read()
    session = None
    reused = []
    for _ in range(int(count)):
        sock = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
        tls = context.wrap_socket(sock, server_hostname=name, session=session)
        tls.sendall(request)
        answer = b""
        while piece := tls.recv(65536):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200"), answer
        # In TLS 1.3 the session is there only after the ticket was read.
        session = tls.session
        reused.append(str(tls.session_reused))
        tls.close()
    print(" ".join(reused))


main()
