"""Hold a program and all that it starts together on Windows: they end when this process ends."""

from __future__ import annotations

import ctypes
from typing import Any

_EXTENDED_LIMITS = 9  # winnt.h: JobObjectExtendedLimitInformation


_KILL_ON_CLOSE = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE


class _Limits(ctypes.Structure):
    """winnt.h: JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("times", ctypes.c_int64 * 2),
        ("flags", ctypes.c_uint32),
        ("sets", ctypes.c_size_t * 2),
        ("active", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("classes", ctypes.c_uint32 * 2),
        ("counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


class Job:
    """A process and those it starts; what is left of them ends when this is closed, as it is when this process ends."""

    def __init__(self, process: int) -> None:
        """Take in a process by its handle, from its start on. Raises OSError."""
        system: Any = ctypes
        self._kernel = system.WinDLL("kernel32", use_last_error=True)
        self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._checked(self._kernel.CreateJobObjectW(None, None)))
        try:
            limits = _Limits(flags=_KILL_ON_CLOSE)
            size = ctypes.c_uint32(ctypes.sizeof(limits))
            told = self._kernel.SetInformationJobObject(self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), size)
            self._checked(told)
            self._checked(self._kernel.AssignProcessToJobObject(self._handle, ctypes.c_void_p(process)))
        except OSError:
            self.close()
            raise

    def end(self) -> None:
        """End all of them."""
        self._kernel.TerminateJobObject(self._handle, ctypes.c_uint32(1))

    def close(self) -> None:
        """End what is left of them, and forget them."""
        self._kernel.CloseHandle(self._handle)

    def _checked(self, answer: int) -> int:
        if not answer:
            system: Any = ctypes
            raise OSError(0, "the process cannot be held", None, system.get_last_error())
        return answer
