"""Start a smoke script and carry what it says to the runner; Python 3.6 or newer, standard library only."""

import argparse
import contextlib
import json
import os
import sys
import time
from typing import Any, Iterator, List, Optional

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
    """One check on one device; a script calls exactly one of passed, failed, skipped, refused."""

    def __init__(self, check: str, device: str) -> None:
        self.check, self.device, self.ran_on = check, device, ""
        self.said = {}  # type: dict[str, str]

    def passed(self, message: str) -> None:
        """Say that the numbers are right and were made where they were asked for."""
        self._say("passed", message)

    def failed(self, message: str, finding: str = "") -> None:
        """Say that numbers or place are wrong."""
        self._say("failed", message, finding)

    def skipped(self, message: str) -> None:
        """Say why this check was not made."""
        self._say("skipped", message)

    def refused(self, message: str, finding: str = "", error: str = "") -> None:
        """Say that the framework would not do it."""
        self._say("error", message, finding, error)

    def raised(self, error: BaseException) -> None:
        """Turn a framework's exception into an outcome."""
        text = "%s: %s" % (type(error).__name__, error)
        exhausted = isinstance(error, MemoryError) or any(words in text.lower() for words in _WORDS_OF_MEMORY)
        first = text.strip().splitlines()[0][:300] if text.strip() else type(error).__name__
        self._say("out-of-memory" if exhausted else "error", first, "", text[:_LIMIT])

    def _say(self, outcome: str, message: str, finding: str = "", error: str = "") -> None:
        self.said = {"outcome": outcome, "message": message, "finding": finding, "error": error}


class Report:
    """What a script knows of its task, and its way to speak to the runner."""

    def __init__(self, stream: Any, gpu: str, level: str) -> None:
        self._stream, self.gpu, self.level = stream, gpu, level

    def framework(self, name: str, version: str, seconds: float, **more: Any) -> None:
        """Name the framework that was imported, and how long that took."""
        self._write(dict(more, event="framework", name=name, version=str(version), seconds=round(seconds, 3)))

    def devices(self, way: str, devices: List[str]) -> None:
        """Tell the devices one way of listing them gives."""
        self._write({"event": "devices", "way": way, "devices": [str(device) for device in devices]})

    def measure(self, check: str, device: str, name: str, value: float, unit: str, note: str = "") -> None:
        """Tell a number of a benchmark, with a sentence for who meets it the first time."""
        said = {"event": "measure", "check": check, "device": device, "name": name, "unit": unit, "note": note}
        self._write(dict(said, value=float("%.4g" % value)))

    @contextlib.contextmanager
    def step(self, check: str, device: str = "") -> Iterator[Step]:
        """Announce a check, and tell its result however it ends; only the end of the process passes through."""
        self._write({"event": "step", "check": check, "device": device})
        sys.stderr.write("%s %s %s\n" % (MARK, check, device))
        sys.stderr.flush()
        step, begun = Step(check, device), time.time()
        try:
            yield step
        except Exception as error:  # noqa: BLE001 - whatever a framework raises is what this tool is to report
            step.raised(error)
        said = step.said or {"outcome": "error", "message": "the check said nothing"}
        seconds = round(time.time() - begun, 3)
        self._write(dict(said, event="result", check=check, device=device, ran_on=step.ran_on, seconds=seconds))

    def done(self) -> None:
        """Say that everything was done that was to be done."""
        self._write({"event": "done"})

    def _write(self, event: Any) -> None:
        self._stream.write((json.dumps(event) + "\n").encode("utf-8"))
        self._stream.flush()


def main(arguments: Optional[List[str]] = None) -> None:
    """Run the script that the runner names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", required=True)
    parser.add_argument("--fd", type=int, default=-1)
    parser.add_argument("--file", default="")
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--level", required=True)
    parser.add_argument("--path", action="append", default=[])
    options = parser.parse_args(arguments)
    stream = open_stream(options.fd, options.file)
    sys.path.extend(options.path)
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # last: nothing here may hide a module of the framework
    report = Report(stream, options.gpu, options.level)
    __import__(options.script).run(report)
    report.done()


def open_stream(descriptor: int, path: str) -> Any:
    """Open the way to the runner; programs that the framework starts do not get it."""
    if path:
        return open(path, "wb")
    os.set_inheritable(descriptor, False)
    return os.fdopen(descriptor, "wb")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # everything is said; some frameworks crash or hang while an interpreter ends
