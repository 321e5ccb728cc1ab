"""Sends standard input over TLS and prints what comes back.

fetch.py PORT NAME CA VERSION whole|bytes

`bytes` sends every byte of the connection, handshake included, in a segment of its own.
"""

import socket
import ssl
import sys


def pump(tls, incoming, outgoing, sock, pieces, call):
    """Runs one call of the TLS object, moving bytes until it is satisfied."""
    while True:
        try:
            result = call()
            wanted = False
        except ssl.SSLWantReadError:
            result = None
            wanted = True
        data = outgoing.read()
        step = 1 if pieces else max(len(data), 1)
        for start in range(0, len(data), step):
            sock.sendall(data[start : start + step])
        if not wanted:
            return result
        received = sock.recv(65536)
        if received:
            incoming.write(received)
        else:
            incoming.write_eof()


def main():
    port, name, authority, version, how = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
    request = sys.stdin.buffer.read()
    sock = socket.create_connection(("127.0.0.1", int(port)), timeout=30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    pieces = how == "bytes"
    pump(tls, incoming, outgoing, sock, pieces, tls.do_handshake)
    print(tls.version(), tls.cipher()[0], tls.session_reused, file=sys.stderr)
    pump(tls, incoming, outgoing, sock, pieces, lambda: tls.write(request))
    answer = b""
    while True:
        # An end without close_notify raises an error here and so fails the test.
        try:
            piece = pump(tls, incoming, outgoing, sock, pieces, lambda: tls.read(65536))
        except ssl.SSLZeroReturnError:
            break
        if not piece:
            break
        answer += piece
    sys.stdout.buffer.write(answer)


main()
