"""Landlock: a program that can write into certain folders only.

Run as a program, before the one it holds back:

    python -I -S landlock.py FOLDER… -- program argument …

Reading stays free, and so does what was open before. `/dev` can be written too. Only the standard library.
"""

import contextlib
import ctypes
import os
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVS = 38
VERSION_MIN = 3  # before it, a file could still be cut short
FILE_RIGHTS = 1 << 1 | 1 << 14  # write, truncate
FOLDER_RIGHTS = sum(1 << bit for bit in range(4, 14))  # remove, make of any kind, refer
RIGHTS = FILE_RIGHTS | FOLDER_RIGHTS


def _call(number: int, *given: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *given))


def is_able() -> bool:
    """Whether this kernel has it, new enough."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(AttributeError, OSError):
        return _call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(ASK_VERSION)) >= VERSION_MIN
    return False


def restrict(folders: list[str]) -> None:
    """Take writing from this process and all that come from it, except below these folders."""
    handled = ctypes.c_uint64(RIGHTS)
    rules = _call(CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        raise OSError(ctypes.get_errno(), "Landlock cannot be used")
    for folder in (*folders, "/dev"):
        fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        rights = RIGHTS if os.path.isdir(folder) else FILE_RIGHTS
        rule = rights.to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)  # a packed struct
        if _call(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0)) < 0:
            raise OSError(ctypes.get_errno(), "Landlock does not take this folder", folder)
        os.close(fd)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or _call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0)) < 0:
        raise OSError(ctypes.get_errno(), "Landlock cannot be used")


def main(argv: list[str]) -> None:
    """Hold a program back and become it."""
    at = argv.index("--")
    restrict(argv[:at])
    os.execvp(argv[at + 1], argv[at + 1 :])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
