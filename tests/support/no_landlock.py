"""`python no_landlock.py PROGRAM …` runs the program where Landlock's system calls are not known, as with an old kernel
or in a container whose seccomp profile leaves them out."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_LOAD, _AT_LEAST, _MORE_THAN, _RETURN = 0x20, 0x35, 0x25, 0x06  # of BPF
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def forget_landlock() -> None:
    """Take Landlock from this process and from everything that it starts."""
    steps = (
        (_LOAD, 0, 0, 0),  # the system call's number
        (_AT_LEAST, 0, 2, 444),
        (_MORE_THAN, 1, 0, 446),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_PR_SET_SECCOMP, _FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forget_landlock()
    os.execvp(sys.argv[1], sys.argv[1:])
