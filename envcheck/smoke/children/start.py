"""Start a smoke script and carry what it says to the runner.

Python 3.6 or newer, standard library only.
"""

import faulthandler
import gc
import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

MARK = "##### envcheck step"
_WORDS_OF_MEMORY = (
    "out of memory",
    "out_of_memory",
    "resource_exhausted",
    "resourceexhausted",
    "cannot allocate memory",
)
_LIMIT = 4000  # characters of a framework's error that are kept


class Step:
    """One check on one device.

    Announced on entry, its result told on exit, whatever the framework raises between.

    A script calls exactly one of passed, failed, skipped, refused, judge, within.
    """

    def __init__(self, write: Callable[[Any], None], check: str, device: str) -> None:
        self._write, self.check, self.device, self.ran_on = write, check, device, ""
        self.said: Dict[str, str] = {"outcome": "error", "message": "the check said nothing"}

    def __enter__(self) -> "Step":  # noqa: PYI034 - Self came with Python 3.11
        self._write({"event": "step", "check": self.check, "device": self.device})
        sys.stderr.write("%s %s\t%s\n" % (MARK, self.check, self.device))
        sys.stderr.flush()
        self._begun = time.time()
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> bool:
        seconds = round(time.time() - self._begun, 3)
        if error is not None and not isinstance(error, Exception):
            return False  # the end of the process is not the end of a check
        if type(error).__name__ == "SkippedError":
            self.skipped(str(error))
        elif error is not None:
            self.raised(error)
        about = {
            "check": self.check,
            "device": self.device,
            "ran_on": self.ran_on,
            "seconds": seconds,
        }
        self._write(dict(self.said, event="result", **about))
        return True

    def passed(self, message: str) -> None:
        """Say that the numbers are right and were made where they were asked for."""
        self._say("passed", message)

    def failed(self, message: str, finding: str = "") -> None:
        """Say that numbers or place are wrong."""
        self._say("failed", message, finding)

    def judge(self, found: Any, wanted: Any, ran_on: str) -> None:
        """Say whether numbers are the right ones and were made on the device this step is about."""
        wrong = ""
        if found != wanted:
            wrong = "gave %s instead of %s" % (shortened(found), shortened(wanted))
        self._judge_place(wrong, "gave %s on %s" % (shortened(found), ran_on), ran_on)

    def within(self, error: float, allowed: float, ran_on: str) -> None:
        """Say whether the largest error is one that this precision may have."""
        sizes = "%.2g of the typical number, allowed are %.2g" % (error, allowed)
        wrong = ""
        if not error <= allowed:  # a NaN is no small error
            wrong = "is wrong by " + sizes
        self._judge_place(wrong, "largest error " + sizes, ran_on)

    def _judge_place(self, wrong: str, right: str, ran_on: str) -> None:
        """Say what is wrong with the numbers, or with the device that made them, or neither."""
        self.ran_on = ran_on
        if wrong:
            self.failed(wrong)
        elif ran_on != self.device:
            self.failed(
                "was asked to run on %s and ran on %s" % (self.device, ran_on), "device-placement"
            )
        else:
            self.passed(right)

    def skipped(self, message: str) -> None:
        """Say why this check was not made."""
        self._say("skipped", message)

    def refused(self, message: str, finding: str = "", error: str = "") -> None:
        """Say that the framework would not do it."""
        self._say("error", message, finding, error)

    def raised(self, error: BaseException) -> None:
        """Turn a framework's exception into an outcome."""
        text = "%s: %s" % (type(error).__name__, error)
        exhausted = isinstance(error, MemoryError) or any(
            words in text.lower() for words in _WORDS_OF_MEMORY
        )
        self._say(
            "out-of-memory" if exhausted else "error", telling_line(text)[:300], "", text[:_LIMIT]
        )

    def _say(self, outcome: str, message: str, finding: str = "", error: str = "") -> None:
        self.said = {"outcome": outcome, "message": message, "finding": finding, "error": error}


class Report:
    """What a script knows of its task, and its way to speak to the runner."""

    def __init__(self, stream: Any, gpu: str, count: int, level: str) -> None:
        self._stream, self.gpu, self.count, self.level = stream, gpu, count, level
        # (free, total) bytes of the card, where a script asked
        self.free_before: Optional[Tuple[int, int]] = None

    def framework(self, name: str, version: str, seconds: float, **more: Any) -> None:
        """Name the framework that was imported, and how long that took."""
        self._write(
            dict(
                more, event="framework", name=name, version=str(version), seconds=round(seconds, 3)
            )
        )

    def devices(self, way: str, devices: List[str]) -> None:
        """Tell the devices one way of listing them gives."""
        self._write(
            {"event": "devices", "way": way, "devices": [str(device) for device in devices]}
        )

    def measure(
        self, check: str, device: str, name: str, value: float, unit: str, note: str = ""
    ) -> None:
        """Tell a number of a benchmark, with a sentence for who meets it the first time."""
        said = {
            "event": "measure",
            "check": check,
            "device": device,
            "name": name,
            "unit": unit,
            "note": note,
        }
        self._write(dict(said, value=float("%.4g" % value)))

    def step(self, check: str, device: str = "") -> Step:
        """Begin a check on a device."""
        return Step(self._write, check, device)

    def done(self) -> None:
        """Say that everything was done that was to be done."""
        self._write({"event": "done"})

    def _write(self, event: Any) -> None:
        self._stream.write((json.dumps(event) + "\n").encode("utf-8"))
        self._stream.flush()


def telling_line(text: str) -> str:
    r"""Return the line of an error that says most.

    The first; where TensorFlow names a graph there, the root error.

    Sample: "InternalError: Graph execution error:\n\nDetected at node Add\n(0) INTERNAL:
    Failed\n\t [[{{node Add}}]]"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines[0].endswith("Graph execution error:"):
        for at, line in enumerate(lines):
            if line.startswith("(0) "):
                return line
            if line.startswith("[[{{node"):
                return lines[at - 1]
    return lines[0]


def shortened(value: Any) -> str:
    """Write a value in at most 80 letters."""
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def main() -> None:
    """Run the script that the runner names.

    It opens the framework, then does what the level asks for.
    """
    # the runner writes pairs; argparse would cost half a bare start
    given = list(zip(sys.argv[1::2], sys.argv[2::2]))
    one = dict(given)
    paths = [value for name, value in given if name == "--path"]
    sys.path.extend(paths)
    # last: nothing here may hide a module of the framework
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    faulthandler.enable()
    limit = float(one.get("--limit", 3600.0))
    # the stack of a process that hangs
    faulthandler.dump_traceback_later(limit - min(1.0, limit / 4))
    sys.stderr.write(
        "".join("##### envcheck: %s\n" % value for name, value in given if name == "--about")
    )
    stream = open(one["--report"], "wb")  # noqa: SIM115 - until the end
    report = Report(stream, one["--gpu"], int(one["--count"]), one["--level"])
    # an import leaves nothing to collect, and the search for it is a tenth of its time
    gc.disable()
    script = __import__(one["--script"])
    if "--part" in one:
        getattr(script, one["--part"])(report)
    else:
        test = script.Engine() if hasattr(script, "Engine") else script
        opened = test.run(report)
        if opened is not None and report.level != "quick":
            # nor does it later; Python 3.6 has to look through it once
            getattr(gc, "freeze", int)()
            gc.enable()
            getattr(test, report.level)(report, opened)
    report.done()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is said; some frameworks crash or hang while an interpreter ends
