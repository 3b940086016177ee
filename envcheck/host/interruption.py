"""Handle Ctrl-C: in whatever code it arrives, it is never lost or mistaken for another error."""

from __future__ import annotations

# The module `signal` creates enums, which takes a tenth of an interpreter start; until then Python
# handles Ctrl-C.
import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CODE = 130
_RETRY_DELAY = 0.005  # seconds until a lost interrupt is raised again


class _State:
    """Interrupts received so far, in this process only: a forked one leaves them to its parent."""

    def __init__(self) -> None:
        self.process = 0
        self.was_interrupted = False
        self.is_ignoring = False
        self.exits_on_next = False
        self.deferrals = 0
        self.is_pending = False
        self.holds = 0
        self.is_window_open = False  # within a hold


_state = _State()


def install_handler() -> None:
    """Raise KeyboardInterrupt for Ctrl-C and remember it.

    Do nothing where SIGINT is ignored, as under nohup.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _state.process = os.getpid()
        _signal.signal(_signal.SIGINT, handle_interrupt)
        sys.unraisablehook = _handle_unraisable


def remove_handler() -> None:
    """Give Ctrl-C back to the program that called this one, and forget what came."""
    if _signal.getsignal(_signal.SIGINT) is handle_interrupt:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        sys.unraisablehook = sys.__unraisablehook__
        vars(_state).update(vars(_State()))


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed, even where another exception replaced KeyboardInterrupt.

    Python turns one inside `__set_name__` or a wait for a lock into a RuntimeError.
    """
    return _state.was_interrupted


def ignore_interrupts() -> None:
    """Ignore further interrupts while this one is handled."""
    _state.is_ignoring = True


def exit_on_interrupt() -> None:
    """Exit at once on the next interrupt.

    All programs have ended, and the reader of the output may be blocked.
    """
    _state.exits_on_next = True


def clear_interrupt() -> None:
    """Forget an interrupt that the caller has handled."""
    _state.was_interrupted = False


class _Delay:
    """Raise an interrupt later; a counter of the state says how many blocks ask for it."""

    counter = ""

    def __enter__(self) -> None:
        """Start to delay."""
        # only the main thread receives signals
        self._is_main = _thread.get_ident() == _get_main_thread()
        vars(_state)[self.counter] += self._is_main

    def __exit__(self, *_: object) -> None:
        """Raise a pending interrupt."""
        vars(_state)[self.counter] -= self._is_main
        if self._is_main:
            _raise_pending()


class defer_interrupts(_Delay):  # noqa: N801 - a context manager; contextlib would have to be imported for it
    """Raise an interrupt at the end of the block, when its new process can be ended."""

    counter = "deferrals"


class hold_interrupts(_Delay):  # noqa: N801 - as above
    """Raise an interrupt only in `allow_interrupts`, or at the block's end."""

    counter = "holds"


class allow_interrupts:  # noqa: N801 - as above
    """Let one interrupt end the block at once, though a block around it holds them.

    The next ones are held again.
    """

    def __enter__(self) -> None:
        """Raise a pending interrupt; from now on they are raised at once."""
        self._is_main, self._was_open = (
            _thread.get_ident() == _get_main_thread(),
            _state.is_window_open,
        )
        if self._is_main:
            _state.is_window_open = True
            _raise_pending()

    def __exit__(self, *_: object) -> None:
        """Hold interrupts as before; the first one has closed the window already."""
        if self._is_main:
            _state.is_window_open = _state.is_window_open and self._was_open


def raise_interrupt() -> None:
    """Raise KeyboardInterrupt for a signal, or where a block defers or holds it, later."""
    is_second = _state.is_pending and not _state.holds  # the deferring block hangs
    if (_state.deferrals and not is_second) or _is_held():
        _state.is_pending = True
    else:
        _interrupt()


def _is_held() -> bool:
    return _state.holds > 0 and not _state.is_window_open


def _raise_pending() -> None:
    if _state.is_pending and not _state.deferrals and not _is_held():
        _interrupt()


def _interrupt() -> None:
    _state.is_pending = _state.is_window_open = False
    raise KeyboardInterrupt


def handle_interrupt(number: int, frame: object) -> None:  # noqa: ARG001 - the interface of signal handlers
    """Handle SIGINT."""
    if _state.process != os.getpid():
        return
    if _state.is_ignoring:
        if _state.exits_on_next:
            os._exit(_CODE)
        return
    _state.was_interrupted = True
    raise_interrupt()


def _handle_unraisable(what: Any) -> None:
    # Finalizers and weak-reference callbacks, common during imports, cannot raise.
    if isinstance(what.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_raise_again, ())
    else:
        sys.__unraisablehook__(what)


def _raise_again() -> None:
    time.sleep(_RETRY_DELAY)
    if hasattr(_signal, "pthread_kill"):
        _signal.pthread_kill(_get_main_thread(), _signal.SIGINT)  # it also ends a wait
    else:
        _thread.interrupt_main()


def _get_main_thread() -> int:
    import threading  # not at the top: the handler must be installed first

    return threading.main_thread().ident or 0
