"""Feed explain 100,000 logs that nobody would write: no crash, no input that takes long.

    python bench/explain_fuzz.py [--inputs 100000] [--engine lines|atheris|hypothesis] [--seconds
    1.0]

`lines` puts whole known lines beside each other, cut and changed; the others grow inputs from the
fragments of every signature, prefixes of log collectors and terminal escapes. Each is scanned,
judged and rendered; an exception, a name of a value in place of the value (in a message, or in a
remedy's sentences and commands) or an input over the time limit ends the run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.explain.judge import Reading
    from envcheck.model import Remedy

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

LONGEST = 8192  # bytes of an input
PREFIXES = (
    b"[rank0]: ",
    b"2026-11-20 23:01:40.9: ",
    b"web_1  | ",
    b"[   12.345678] ",
    b'{"log":"',
    b"> ",
    b"\x1b[31m",
)
JOINTS = (
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\x08",
    b"\x1b[0m",
    b": ",
    b" ",
    b"'",
    b"-1",
    b"999999999999",
    b"\xff\xfe",
    b"aaaa",
)


class Target:
    """What is fuzzed: from bytes to the printed explanation."""

    def __init__(self, seconds: float) -> None:
        from envcheck.explain.judge import Reading, judge_log
        from envcheck.explain.scan import EventCollector, Scanner
        from envcheck.explain.signatures import load_signatures
        from envcheck.matrix.load import load_matrix
        from envcheck.render.explain import describe_explanation, render_explanation
        from envcheck.render.text import render_text

        self._judge, self._reading = judge_log, Reading
        self._json = render_explanation
        self._text: Callable[..., str] = lambda found, **how: render_text(
            describe_explanation(found, **how)
        )
        self.count = 0
        self.known = 0
        self.slowest = 0.0
        self._limit = seconds
        self._nothing = partial(EventCollector, load_signatures())
        # building its automaton takes longer than most inputs
        self._scanner = Scanner(load_signatures())
        self._matrix = load_matrix()

    def __call__(self, data: bytes) -> None:
        """Explain one input; RuntimeError when it takes too long."""
        start = time.perf_counter()
        self._explain(data)
        taken = time.perf_counter() - start
        self.count += 1
        self.slowest = max(self.slowest, taken)
        if taken > self._limit:
            raise RuntimeError(f"one input of {len(data)} bytes took {taken:.2f} s")

    def _explain(self, data: bytes) -> None:
        size = 1 + data[0] * 7 if data else 1
        blocks = [data[at : at + size] for at in range(0, len(data), size)]
        self._scanner.collector, self._scanner.lines, self._scanner.bytes = self._nothing(), 0, 0
        stream = self._scanner.stream("fuzz")
        for block in blocks:
            stream.feed(block)
        stream.finish()
        found = self._scanner.result()
        reading = self._reading(self._judge(found.events, self._matrix, None), found, ("fuzz",))
        self.known += bool(found.events)
        self._check_fields(reading, data)
        self._json(reading)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self._text(reading, verbose=bool(len(data) % 2))
        if "\x1b" in said.getvalue():
            raise RuntimeError("an escape character reached the terminal")

    def _check_fields(self, reading: Reading, data: bytes) -> None:
        """Refuse a sentence with the name of a value in place of the value."""
        for finding in reading.report.findings:
            text = " ".join((finding.message, *_list_texts(finding.fix)))
            raw = [name for name in re.findall(r"\{[a-z]\w*\}", text) if name.encode() not in data]
            if raw:
                raise RuntimeError(f"a raw field reached {finding.id}: {raw[0]}")


def _list_texts(fix: Remedy | None) -> Iterator[str]:
    """Yield what a remedy prints: its sentences, and the words and purposes of its actions."""
    from envcheck.model import Alternative

    for way in (Alternative(fix.summary, fix.actions), *fix.alternatives) if fix else ():
        yield way.summary
        for action in way.actions:
            yield " ".join((*action.command(), action.purpose_on("")))


def instrumented(engine: str) -> contextlib.AbstractContextManager[object]:
    """Let atheris see which branches of what is imported here are taken."""
    if engine != "atheris":
        return contextlib.nullcontext()
    import atheris

    watched: contextlib.AbstractContextManager[object] = atheris.instrument_imports(
        include=["envcheck.explain"]
    )
    return watched


def words() -> list[bytes]:
    """List the fragments of all signatures with what may stand between them."""
    from envcheck.explain.signatures import load_signatures

    fragments = sorted({text.encode() for item in load_signatures() for text in item.fragments})
    return [*fragments, *PREFIXES, *JOINTS]


def by_atheris(target: Callable[[bytes], None], inputs: int) -> None:
    """Let coverage choose the inputs; atheris ends the process itself."""
    import atheris

    folder = Path(tempfile.mkdtemp())
    dictionary = folder / "words"
    escaped = ["".join(f"\\x{byte:02x}" for byte in word) for word in words()]
    dictionary.write_text("".join(f'"{word}"\n' for word in escaped if word), encoding="ascii")
    corpus = folder / "corpus"
    corpus.mkdir()
    rng = random.Random(1)
    for number, word in enumerate(words()):
        line = rng.choice(PREFIXES) + word + rng.choice(JOINTS) + rng.choice(words())
        (corpus / str(number)).write_bytes(line + b"\n")
    flags = [
        f"-atheris_runs={inputs}",
        f"-max_len={LONGEST}",
        f"-dict={dictionary}",
        "-verbosity=0",
        "-timeout=20",
    ]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={folder}/", str(corpus)], target)
    atheris.Fuzz()


def by_lines(target: Callable[[bytes], None], inputs: int) -> None:
    """Put whole known lines together, cut and changed a little: facts beside causes, as in a pasted log."""
    from tests.explain.test_variants import own_lines

    lines, rng = [line.encode() for line in own_lines().values()], random.Random(1)
    for _ in range(inputs):
        chosen = [
            rng.choice((b"", *PREFIXES)) + line for line in rng.sample(lines, rng.randint(1, 6))
        ]
        for at, line in enumerate(chosen):
            if rng.random() < 0.3:
                place = rng.randrange(len(line) + 1)
                chosen[at] = (
                    line[:place] + rng.choice((b"", *JOINTS)) + line[place + rng.randrange(4) :]
                )
        target(b"\n".join(chosen)[:LONGEST])


def by_hypothesis(target: Callable[[bytes], None], inputs: int) -> None:
    """Let hypothesis join words and bytes."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    pieces = st.one_of(
        st.sampled_from(words()),
        st.binary(max_size=24),
        st.sampled_from(JOINTS).map(lambda j: j * 200),
    )

    @settings(
        max_examples=inputs, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(pieces, max_size=24))
    def feed(parts: list[bytes]) -> None:
        target(b"".join(parts)[:LONGEST])

    feed()


ENGINES = {"lines": by_lines, "hypothesis": by_hypothesis, "atheris": by_atheris}


def main() -> None:
    """Run one engine and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--engine", choices=list(ENGINES), default="lines")
    parser.add_argument("--seconds", type=float, default=1.0, help="what one input may take")
    chosen = parser.parse_args()
    with instrumented(chosen.engine):
        target = Target(chosen.seconds)
    start = time.perf_counter()
    try:
        ENGINES[chosen.engine](target, chosen.inputs)
    finally:
        taken = time.perf_counter() - start
        print(
            f"{chosen.engine}: {target.count} inputs in {taken:.0f} s, {target.known} with a known"
            f" message, the slowest {target.slowest * 1e3:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
