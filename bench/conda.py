"""Do with a real conda, mamba or micromamba what plans print and `install` does, from a composed channel.

    python bench/conda.py CLIENT CHANNEL [--only printed kills] [--kills 20] [--seed 1] [--work FOLDER]

CLIENT is the program; CHANNEL the folder that bench/conda_channel.py composed. What conda does not bring comes from
pip's index. "for a GPU" needs root: it runs on a stand-in GPU host. Prints a table in Markdown; exits 1 when anything
is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.conda_faults import do_gone, do_kills, do_missing, do_resumed, do_two  # noqa: E402 - the path is set above
from bench.conda_room import ENVCHECK, Room, WrongError  # noqa: E402

NEW = ["jax==0.6.2", "--installer", "conda", "--python", "3.11", "--expect", "cpu"]
MATMUL = {
    "jax": "import jax.numpy as n; print(n.dot(n.ones((64, 64)), n.ones((64, 64))).sum())",
    "tensorflow": (
        "import tensorflow as t; a = t.ones((64, 64)); print(t.__version__, 'Tensor' in"
        " str(t.matmul(a, a)))"
    ),
}


def do_printed(room: Room, framework: str, asked: tuple[str, ...]) -> str:
    """Paste the script, have the doctor judge, compute, and take it back by the undo that the plan prints."""
    words = ["plan", *asked, "--installer", "conda", "--env", "e"]
    plan = json.loads(room.envcheck(*words, "--format", "json").stdout)
    room.shell(room.envcheck(*words, "--format", "script").stdout)
    report = json.loads(
        room.envcheck("doctor", "--env", "e", "--expect", "cpu", "--format", "json").stdout
    )
    told = room.run("e/bin/python", "-c", MATMUL[framework]).stdout.strip()
    for step in reversed(plan["steps"]):
        if step.get("undo"):
            room.shell(" ".join(step["undo"]))
    if (room.folder / "e").exists():
        raise WrongError("the undo lines left the environment there")
    return f"doctor: {report['verdict']}; matmul {told[-28:]}; undone"


def do_gpu(room: Room) -> str:
    """Paste a script for a GPU on a stand-in host; its last line, which wants a GPU to answer, must be what fails."""
    from tests.fakes.gpu_host import run_on_gpu_host
    from tests.fakes.machine import GpuHost

    typed = {
        **room.variables,
        "PATH": f"{room.folder}/bin/typed:{room.variables['PATH']}:/usr/sbin",
    }
    typed["MAMBA_CHANNEL_ALIAS"] = typed["CONDA_CHANNEL_ALIAS"]
    line = (
        f'cd "{room.folder}"; {" ".join(ENVCHECK)} plan "tensorflow==2.4.*" --python 3.8 --env e'
        " --format script > s; "
        f"sh -x ./s; {' '.join(ENVCHECK)} doctor --env e --expect gpu --format json > d; "
    )
    done = run_on_gpu_host(GpuHost(), ["sh", "-c", line], typed, 1500)
    script, told = (
        (room.folder / "s").read_text(encoding="utf-8"),
        (room.folder / "d").read_text(encoding="utf-8"),
    )
    if "cudatoolkit=11.0 cudnn=8.0" not in script or not told:
        raise WrongError(done.stdout[-600:] + done.stderr[-600:])
    report = json.loads(told)
    ids = sorted({item["id"] for item in report["findings"]})
    reached, opened = (
        "+ conda run" in done.stderr,
        "opened dynamic library libcudart.so.11.0" in done.stderr,
    )
    if not reached or not opened or report["verdict"] != "compatible":
        raise WrongError(f"{report['verdict']}, {ids}; {done.stderr[-600:]}")
    return (
        "done up to the line that wants a real GPU; its libcudart is opened; doctor:"
        f" {report['verdict']} {ids}"
    )


def do_new(room: Room) -> str:
    """Dry-run, install, ask again, roll back."""
    room.install(*NEW, "--dry-run")
    if (room.folder / "e").exists() or (room.folder / ".envcheck-e").exists():
        raise WrongError("--dry-run touched something")
    room.install(*NEW)
    room.holds("jax==0.6.2", "jaxlib==0.6.2")
    if json.loads(room.install(*NEW, "--format", "json").stdout)["outcome"] != "unchanged":
        raise WrongError("asked again, it did something")
    room.envcheck("install", "--rollback", "--env", "e", "--yes")
    if (room.folder / "e").exists():
        raise WrongError("--rollback left the environment there")
    return "installed, computed, asked again: unchanged, rolled back: gone"


def do_there(
    room: Room, specs: tuple[str, ...], pips: tuple[str, ...], asked: str, then: tuple[str, ...]
) -> str:
    """Install into an environment that is there; neighbours stay; roll back."""
    before = room.made("six", *specs, pips=("einops==0.8.1", *pips))
    room.install(asked, "--expect", "cpu")
    room.holds("six==1.17.0", "einops==0.8.1", *then)
    twice = Counter(
        path.name.rsplit("-", 1)[0].partition("-")[0]
        for path in room.folder.glob("e/lib/python*/site-packages/*.dist-info")
    )
    if several := [name for name, count in twice.items() if count > 1]:
        raise WrongError(f"two releases of {several} lie there")
    room.rolled_back(before)
    room.holds("six==1.17.0", "einops==0.8.1")
    return "installed, computed, neighbours kept, rolled back: the same tree, listed by conda"


def do_file(room: Room) -> str:
    """Make environments from a plan's environment.yml, also from verified ones, which are exact."""
    asked = [
        "plan",
        "jax==0.6.2",
        "--installer",
        "conda",
        "--python",
        "3.11",
        "--format",
        "environment-yml",
    ]
    told = []
    for words in (asked, [*asked, "--verify"], ["plan", "jax==0.10.0", *asked[2:], "--verify"]):
        (room.folder / "environment.yml").write_text(room.envcheck(*words).stdout, encoding="utf-8")
        make = ("env", "create") if room.client.name == "conda" else ("create", "-y")
        room.conda(*make, "-p", "./e", "-f", "environment.yml")
        report = json.loads(
            room.envcheck("doctor", "--env", "e", "--expect", "cpu", "--format", "json").stdout
        )
        told.append(
            room.run(
                "e/bin/python", "-c", f"import jax; print(jax.__version__); {MATMUL['jax']}"
            ).stdout.split()[0]
        )
        room.run("rm", "-rf", "e")
    return f"accepted, jax {' and '.join(told)} ({report['verdict']})"


CASES: dict[str, Callable[[Room], str]] = {
    "printed: conda's jax": partial(
        do_printed, framework="jax", asked=("jax==0.6.2", "--python", "3.11")
    ),
    "printed: conda's tensorflow": partial(
        do_printed, framework="tensorflow", asked=("tensorflow==2.16.*", "--python", "3.11")
    ),
    "printed: Python 3.8, tensorflow 2.10 by pip": partial(
        do_printed, framework="tensorflow", asked=("tensorflow==2.10.1", "--python", "3.8")
    ),
    "printed: Python 3.7, tensorflow 1.15 by pip": partial(
        do_printed, framework="tensorflow", asked=("tensorflow==1.15.*", "--python", "3.7")
    ),
    "printed for a GPU: cudatoolkit, cudnn": do_gpu,
    "environment.yml": do_file,
    "install: new": do_new,
    "install: conda's build over conda's": partial(
        do_there, specs=("jax=0.5.3",), pips=(), asked="jax==0.6.2", then=("jax==0.6.2",)
    ),
    "install: conda's build over pip's": partial(
        do_there,
        specs=(),
        pips=("jax==0.5.3", "numpy<2.4"),
        asked="jax==0.6.2",
        then=("jax==0.6.2",),
    ),
    "install: pip's build over conda's": partial(
        do_there, specs=("jax=0.6.2",), pips=(), asked="jax==0.10.0", then=("jax==0.10.0",)
    ),
    "resume": do_resumed,
    "missing": do_missing,
    "gone": do_gone,
    "two": do_two,
}


def main() -> int:
    """Do every case, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("client", type=Path)
    parser.add_argument("channel", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path)
    asked = parser.parse_args()
    cases: dict[str, Callable[[Room], str]] = {
        **CASES,
        "kills": partial(do_kills, count=asked.kills, seed=asked.seed),
    }
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        top = (asked.work or Path(name)).resolve()
        print("| case | what came of it | seconds |\n|---|---|---|")
        for case, do in cases.items():
            if asked.only and not any(word in case for word in asked.only):
                continue
            begun = time.monotonic()
            try:
                told = do(Room(asked.client, asked.channel.resolve().as_uri(), top / "room"))
            except WrongError as fault:
                told, wrong = f"**wrong**: {fault}", wrong + 1
            print(
                f"| {case} | {' '.join(told.split())} | {time.monotonic() - begun:.0f} |",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
