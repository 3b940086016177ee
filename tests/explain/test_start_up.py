"""What a small log does not need is not imported: every module costs each start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOG = "RuntimeError: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
UNNEEDED = (
    "zlib", "envcheck.diagnosis.planned", "envcheck.plan.choose", "envcheck.plan.requests",
    "envcheck.probes", "envcheck.rules.cudnn", "envcheck.rules.driver", "envcheck.rules.engine",
    "envcheck.rules.gpu_architecture", "rich",
)  # fmt: skip


def test_a_plain_log_is_explained_without_what_others_need(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(LOG, encoding="utf-8")
    code = (
        "import sys\nbefore = set(sys.modules)\nfrom envcheck.cli.group import run\n"
        f"code = run(['explain', {str(log)!r}])\n"
        f"print(code, [name for name in {UNNEEDED} if name in set(sys.modules) - before])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines()[-1] == "1 []", ended.stdout + ended.stderr
