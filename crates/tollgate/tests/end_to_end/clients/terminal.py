"""Runs a program in a terminal of its own: keys in after a text came out, then says what became of the terminal.

usage: terminal.py COLUMNS ROWS STEPS PROGRAM ARGUMENT...
STEPS is JSON: a list of [text to wait for, keys to press]; the key "SIGTERM" sends that signal, "RESIZE" makes the
terminal 60 columns wide, "TOUCH:PATH" makes a file instead. Prints JSON: what came out, the exit code, and whether the terminal is as it was.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

columns, rows, steps = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
near, far = pty.openpty()
fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
before = termios.tcgetattr(far)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(far, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(far, descriptor)
    os.execvp(sys.argv[4], sys.argv[4:])

out, seen, deadline = b"", 0, time.monotonic() + 60


def read(bound):
    global out
    if select.select([near], [], [], bound)[0]:
        try:
            out += os.read(near, 65536)
        except OSError:
            pass


problem = ""
for text, keys in steps:
    while text.encode() not in out[seen:]:
        if time.monotonic() > deadline:
            problem = f"{text!r} did not come"
            break
        read(0.05)
    if problem:
        break
    seen = len(out)
    if keys == "SIGTERM":
        os.kill(child, signal.SIGTERM)
    elif keys == "RESIZE":
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 60, 0, 0))
        os.kill(child, signal.SIGWINCH)
    elif keys.startswith("TOUCH:"):
        open(keys.removeprefix("TOUCH:"), "w").close()
    else:
        os.write(near, keys.encode())
code = None
while time.monotonic() < deadline:
    read(0.05)
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        code = os.waitstatus_to_exitcode(status)
        break
else:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
read(0.2)
print(json.dumps({
    "out": out.decode(errors="replace"),
    "code": code,
    "restored": termios.tcgetattr(far) == before,
    "problem": problem,
}))
