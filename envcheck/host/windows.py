"""Job objects of Windows: end a program and its children together."""

from __future__ import annotations

import ctypes
from typing import Any

_EXTENDED_LIMITS = 9  # winnt.h: JobObjectExtendedLimitInformation
_KILL_ON_CLOSE = 0x2000  # winnt.h: JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE


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
    """A process and its children; Windows kills them when the job closes or this process ends."""

    def __init__(self, process: int) -> None:
        """Add a process by its handle. Raises OSError."""
        system: Any = ctypes
        self._kernel = system.WinDLL("kernel32", use_last_error=True)
        self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
        self._handle = ctypes.c_void_p(self._check(self._kernel.CreateJobObjectW(None, None)))
        try:
            limits = _Limits(flags=_KILL_ON_CLOSE)
            size = ctypes.c_uint32(ctypes.sizeof(limits))
            set_limits = self._kernel.SetInformationJobObject
            self._check(set_limits(self._handle, _EXTENDED_LIMITS, ctypes.byref(limits), size))
            self._check(
                self._kernel.AssignProcessToJobObject(self._handle, ctypes.c_void_p(process))
            )
        except OSError:
            self.close()
            raise

    def end(self) -> None:
        """Kill all processes of the job."""
        self._kernel.TerminateJobObject(self._handle, ctypes.c_uint32(1))

    def close(self) -> None:
        """Kill the remaining processes and release the job."""
        self._kernel.CloseHandle(self._handle)

    def _check(self, result: int) -> int:
        if not result:
            system: Any = ctypes
            raise OSError(0, "the process cannot join a job object", None, system.get_last_error())
        return result
