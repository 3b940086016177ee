"""Answer Ctrl-C once and for all: whatever code it comes in, it is neither lost nor taken for another error."""

from __future__ import annotations

# The module `signal` brings enums, a tenth of a bare start in which Python would answer in its own words.
import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CODE = 130
_AGAIN = 0.005  # seconds until an interruption that was lost is raised again


class _State:
    """What came so far; of this process only, since a forked one leaves the answer to its parent."""

    def __init__(self) -> None:
        self.process = 0
        self.came = False
        self.is_enough = False
        self.is_over = False
        self.held = 0
        self.is_waiting = False


_state = _State()


def install_handler() -> None:
    """Raise KeyboardInterrupt for Ctrl-C and remember that it came; nothing where it is ignored, as under nohup."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _state.process = os.getpid()
        _signal.signal(_signal.SIGINT, _handle_interrupt)
        sys.unraisablehook = _handle_unraisable


def was_interrupted() -> bool:
    """Tell whether there was one, even where another exception took the place of KeyboardInterrupt.

    Python turns one that comes inside `__set_name__` or a wait for a lock into a RuntimeError.
    """
    return _state.came


def ignore_interrupts() -> None:
    """Ignore all further ones: this one is being answered."""
    _state.is_enough = True


def exit_on_interrupt() -> None:
    """End at once when another one comes: nothing is left to end, and the reader of the output may not read on."""
    _state.is_over = True


def clear_interrupt() -> None:
    """Forget the one that came: somebody caught it and goes on as meant."""
    _state.came = False


class defer_interrupts:  # noqa: N801 - a context manager; contextlib is not loaded for it
    """Raise one that comes within the block at its end: what it starts is known then, and can be ended."""

    def __enter__(self) -> None:
        """Begin to hold back."""
        self._is_heard = _thread.get_ident() == _get_main_thread()  # other threads hear of none
        _state.held += self._is_heard

    def __exit__(self, *_: object) -> None:
        """Raise what came."""
        _state.held -= self._is_heard
        if self._is_heard and _state.is_waiting and not _state.held:
            _state.is_waiting = False
            raise KeyboardInterrupt


def _handle_interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
    if _state.process != os.getpid():
        return
    if _state.is_enough:
        if _state.is_over:
            os._exit(_CODE)
        return
    _state.came = True
    if _state.held and not _state.is_waiting:
        _state.is_waiting = True
        return
    _state.is_waiting = False  # the second one: what is held back for hangs
    raise KeyboardInterrupt


def _handle_unraisable(what: Any) -> None:
    # From a finalizer or a weak reference's callback, which imports are full of, nothing can be raised.
    if isinstance(what.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_raise_again, ())
    else:
        sys.__unraisablehook__(what)


def _raise_again() -> None:
    time.sleep(_AGAIN)
    if hasattr(_signal, "pthread_kill"):
        _signal.pthread_kill(_get_main_thread(), _signal.SIGINT)  # wakes it from a wait, too
    else:
        _thread.interrupt_main()


def _get_main_thread() -> int:
    import threading

    return threading.main_thread().ident or 0
