"""The real `beam` on a terminal: a pty of 80 columns whose other end the test reads and writes."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence

from tests.support.cli import BEAM, Cli


class Terminal:
    """One command on a terminal. `stderr_apart`: stderr is a pipe, so that each stream can be looked at."""

    def __init__(
        self,
        cli: Cli,
        *args: str,
        columns: int = 80,
        stderr_apart: bool = False,
        env: Mapping[str, str] = {},
        program: Sequence[str] = BEAM,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [*program, *args],
            cwd=cli.project,
            env={**cli.env, "TERM": "xterm-256color", "COLUMNS": str(columns), **env},
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE if stderr_apart else slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        cli.started.append(self.process)
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.seen = ""
        self.err = ""

    def until(self, text: str, timeout: float = 20, *, after: str = "") -> str:
        """Everything that was shown so far, once it holds the text, behind the first `after`."""
        deadline = time.monotonic() + timeout
        while text not in self.seen.partition(after)[2] if after else text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen)
            if not self._read(0.2):
                assert text in self.seen, (text, self.seen)
        return self.seen

    def type(self, text: str) -> None:
        """Types it."""
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """^C, as the terminal sends it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, timeout: float = 30) -> int:
        """The exit code, 128 + n after signal n, once it has ended."""
        deadline = time.monotonic() + timeout
        while self._read(0.1):
            assert time.monotonic() < deadline, self.seen
        if self.process.stderr is not None:
            with self.process.stderr:
                self.err = self.process.stderr.read().decode()
        code = self.process.wait(timeout)
        os.close(self._master)
        return code if code >= 0 else 128 - code

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], timeout)
        if ready:
            data = b""
            with contextlib.suppress(OSError):  # the other end is closed
                data = os.read(self._master, 65536)
            text = self._held + self._decoder.decode(data)  # a read may end in the middle of a character, or of \r\n
            self._held = "\r" if text.endswith("\r") and data else ""
            self.seen += text.removesuffix(self._held).replace("\r\n", "\n")
            return bool(data)
        return self.process.poll() is None
