#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# on_terminal.py KEYS COMMAND ARGUMENT...: runs the command on a pseudo-terminal. When it has asked a
# question ("[y/N] "), types KEYS, in which \n, \x03 (Ctrl-C) and \x04 (end of file) may be written. Prints
# what the terminal showed. The exit status is that of the command, or 128 + the number of the signal that
# ended it.
import os
import pty
import sys

keys = sys.argv[1].encode().decode("unicode_escape").encode()
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])

shown = b""
typed = False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:  # the command has closed its side
        break
    if not piece:
        break
    shown += piece
    if not typed and b"[y/N] " in shown:
        os.write(terminal, keys)
        typed = True

_, status = os.waitpid(pid, 0)
sys.stdout.write(shown.decode(errors="replace").replace("\r\n", "\n"))
sys.exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
