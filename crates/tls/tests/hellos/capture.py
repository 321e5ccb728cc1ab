#!/usr/bin/env python3
"""Captures the ClientHello of the clients on this machine, with the answer expected of our reader.

For each client: NAME.hex holds the raw bytes, NAME.expected what they say, read by the small parser
below, which shares nothing with the Rust one. Run in this folder: ./capture.py
"""
import socket
import ssl
import subprocess
import threading


def hello_of(run):
    """The first flight of a client that `run(port)` starts, closed without an answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)
    port = listener.getsockname()[1]
    client = threading.Thread(target=run, args=(port,), daemon=True)
    client.start()
    stream, _ = listener.accept()
    stream.settimeout(10)
    raw = b""
    while not whole(raw):
        piece = stream.recv(65536)
        if not piece:
            break
        raw += piece
    stream.close()
    client.join(10)
    return raw


def whole(raw):
    message = b""
    while len(raw) >= 5:
        size = int.from_bytes(raw[3:5], "big")
        if len(raw) < 5 + size:
            return False
        message += raw[5 : 5 + size]
        raw = raw[5 + size :]
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            return True
    return False


class Bytes:
    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count
        return taken

    def number(self, count):
        return int.from_bytes(self.take(count), "big")

    def vector(self, count):
        return Bytes(self.take(self.number(count)))

    def values(self):
        found = []
        while self.data:
            value = self.number(2)
            if not (value & 0x0F0F == 0x0A0A and value >> 8 == value & 0xFF):
                found.append(value)
        return found


def expected(raw):
    message, rest = b"", Bytes(raw)
    while rest.data:
        rest.take(3)
        message += rest.vector(2).data
    hello = Bytes(message[4:])
    facts = {"raw_len": len(raw), "legacy_version": f"{hello.number(2):04x}"}
    hello.take(32)
    facts["session_id_len"] = len(hello.vector(1).data)
    facts["suites"] = hello.vector(2).values()
    hello.vector(1)
    block = hello.vector(2) if hello.data else Bytes(b"")
    facts["versions"] = [int(facts["legacy_version"], 16)]
    while block.data:
        kind, body = block.number(2), block.vector(2)
        if kind == 0:
            names = body.vector(2)
            names.take(1)
            facts["server_name"] = names.vector(2).data.decode()
        elif kind == 10:
            facts["groups"] = body.vector(2).values()
        elif kind == 13:
            facts["signature_schemes"] = body.vector(2).values()
        elif kind == 16:
            names, found = body.vector(2), []
            while names.data:
                found.append(names.vector(1).data.decode())
            facts["alpn"] = found
        elif kind == 35:
            facts["session_ticket_len"] = len(body.data)
        elif kind == 41:
            identities, found = body.vector(2), []
            while identities.data:
                found.append(len(identities.vector(2).data))
                identities.take(4)
            facts["psk_identity_lens"] = found
        elif kind == 42:
            facts["early_data"] = "true"
        elif kind == 43:
            facts["versions"] = body.vector(1).values()
        elif kind == 51:
            shares, found = body.vector(2), []
            while shares.data:
                found.append(shares.take(2))
                shares.vector(2)
            facts["key_shares"] = Bytes(b"".join(found)).values()
    lines = []
    for name in sorted(facts):
        value = facts[name]
        if isinstance(value, list):
            value = " ".join(v if isinstance(v, str) else f"{v:04x}" for v in value)
        lines.append(f"{name}: {value}\n")
    return "".join(lines)


def command(*words, give=None):
    def run(port):
        filled = [word.replace("PORT", str(port)) for word in words]
        subprocess.run(filled, input=b"", capture_output=True, timeout=20, check=False)

    return run


def python(alpn, version=None):
    def run(port):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(alpn)
        if version:
            context.maximum_version = version
        try:
            with socket.create_connection(("127.0.0.1", port)) as stream:
                context.wrap_socket(stream, server_hostname="python.example")
        except OSError:
            pass

    return run


def resuming(version):
    """A second connection of `openssl s_client`, with the session that a first one was given."""
    import os
    import tempfile

    folder = tempfile.mkdtemp()
    key, chain, kept = (os.path.join(folder, name) for name in ("key", "chain", "session"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=localhost", "-keyout", key, "-out", chain],
        check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-key", key, "-cert", chain,
         "-early_data"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.PIPE)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                threading.Event().wait(0.05)
        client = subprocess.Popen(
            ["openssl", "s_client", version, "-connect", f"127.0.0.1:{port}", "-servername",
             "localhost", "-sess_out", kept],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if os.path.exists(kept) and os.path.getsize(kept):
                break
            threading.Event().wait(0.05)
        client.kill()
        client.wait()
    finally:
        server.kill()
        server.wait()
    early = os.path.join(folder, "early")
    with open(early, "wb") as file:
        file.write(b"GET / HTTP/1.0\r\n\r\n")
    words = ["openssl", "s_client", version, "-connect", "127.0.0.1:PORT", "-servername", "localhost",
             "-sess_in", kept]
    if version == "-tls1_3":
        words += ["-early_data", early]
    return command(*words)


S_CLIENT = ("openssl", "s_client", "-connect", "127.0.0.1:PORT")
CLIENTS = {
    "openssl": command(*S_CLIENT, "-servername", "localhost"),
    "openssl_tls12": command(*S_CLIENT, "-servername", "Shop.Example", "-tls1_2", "-alpn", "h2,http/1.1"),
    "openssl_tls10": command(*S_CLIENT, "-noservername", "-tls1", "-cipher", "ALL:@SECLEVEL=0"),
    "openssl_chacha": command(
        *S_CLIENT, "-servername", "localhost", "-tls1_3",
        "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256", "-groups", "P-384:X25519"),
    "openssl_long_alpn": command(
        *S_CLIENT, "-servername", "localhost", "-alpn",
        ",".join(f"{n:02}" + "x" * 250 for n in range(60))),
    "openssl_resumes_tls13": resuming("-tls1_3"),
    "openssl_resumes_tls12": resuming("-tls1_2"),
    "curl": command("curl", "--noproxy", "*", "-sk", "https://curl.example:PORT/", "--resolve", "curl.example:PORT:127.0.0.1"),
    "curl_address": command("curl", "--noproxy", "*", "-sk", "https://127.0.0.1:PORT/"),
    "python": python(["h2", "http/1.1"]),
    "python_tls12": python(None, ssl.TLSVersion.TLSv1_2),
}

for name, run in CLIENTS.items():
    raw = hello_of(run)
    if not whole(raw):
        print(f"{name}: no whole hello, not kept")
        continue
    # Early data and what else follows the hello stays: the reader must stop in time.
    size, message = 0, b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        length = int.from_bytes(raw[size + 3 : size + 5], "big")
        message += raw[size + 5 : size + 5 + length]
        size += 5 + length
    with open(f"{name}.hex", "w") as file:
        for start in range(0, len(raw), 48):
            file.write(raw[start : start + 48].hex() + "\n")
    with open(f"{name}.expected", "w") as file:
        file.write(expected(raw[:size]))
    print(f"{name}: {len(raw)} bytes")
