"""The list of signatures: its shape, its patterns, and that no two decide otherwise on the same text."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator

import fastjsonschema

from envcheck.explain.log import _CONDITIONS, Strength
from envcheck.explain.signatures import (
    Signature,
    compile_pattern,
    conclusions_by_name,
    load_driver_errors,
    load_rivals,
    load_signatures,
)
from envcheck.host.data_files import read_data
from envcheck.rules import catalogue

ALL = load_signatures()
NO_LINEAR_TIME = re.compile(r"\(\?[=!<][=!]|\(\?<[=!]|\\[1-9]|\(\?P=|\(\?>|[*+?}]\+")


def test_the_file_fits_its_schema() -> None:
    validate = fastjsonschema.compile(json.loads(read_data("advice/signatures.schema.json")))
    validate(json.loads(read_data("advice/signatures.json")))


def test_names_are_unique() -> None:
    assert len({item.name for item in ALL}) == len(ALL) > 400


def test_every_signature_is_sound() -> None:
    assert {item.name: list(complaints(item)) for item in ALL if list(complaints(item))} == {}


def complaints(item: Signature) -> Iterator[str]:
    pattern = compile_pattern(item.expression)
    captured = set(pattern.groupindex)
    if NO_LINEAR_TIME.search(item.pattern):
        yield "RE2 has neither lookaround nor backreferences"
    if item.finding and item.finding not in catalogue():
        yield "points to no finding"
    if not set(item.proves) | set(re.findall(r"\{(\w+)\}", item.meaning)) <= captured:
        yield "names what the pattern does not capture"
    if len(set(item.fragments)) < len(item.fragments) or pattern.search(""):
        yield "a fragment stands twice, or an empty line matches"
    if bool(item.strength) != (item.role in ("cause", "symptom")):
        yield "the strength does not fit the role"


def test_every_conclusion_is_sound() -> None:
    rows = conclusions_by_name().values()
    named = {name for item in rows for name in (item.finding, *item.rivals)}
    assert named <= set(catalogue())
    assert all(item.meaning.endswith(".") and Strength.named(item.strength) for item in rows)
    known = {item.name for item in ALL}
    assert {name for item in rows for name in (*item.messages, *item.beside)} <= known
    assert all(compile_pattern(item.words) for item in rows)
    assert set(_CONDITIONS) <= set(conclusions_by_name())


def test_the_same_text_never_decides_two_ways() -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for item in ALL:
        if item.finding and item.role == "cause":
            seen[item.pattern].add(item.finding)
    assert {pattern: ids for pattern, ids in seen.items() if len(ids) > 1} == {}


def test_fragments_are_rare_in_a_training_log() -> None:
    ordinary = (
        "Epoch 1/10, loss: 0.2940 - accuracy: 0.9139 - val_loss: 0.1 - lr: 1e-4 - 4s 2ms/step",
        "2026-11-20 23:01:40,123 INFO trainer.py:88 step=1200 loss=2.345 grad_norm=0.9 tokens/s=12034 memory=12.3GB",
        "[rank3]: {'loss': 1.234, 'learning_rate': 5e-05, 'epoch': 0.42} eta 01:23:45 GPU mem 14.2G",
        "Downloading data from storage: 100%|##########| 170M/170M [00:12<00:00, 14.1MB/s]",
        "INFO:tensorflow:global_step/sec: 12.34 Saving checkpoints for 1000 into /tmp/model/model.ckpt",
        "torch.Size([32, 3, 224, 224]) cuda:0 float32 requires_grad=True node gpu07 pid 12345",
    )
    found = [
        (item.name, part)
        for item in ALL
        for part in item.fragments
        for line in ordinary
        if part.lower() in line.lower()
    ]
    assert found == []


def test_rivals_and_numbers_name_findings() -> None:
    for row in load_rivals():
        assert {*row.first, *row.second} <= set(catalogue())
    assert set(load_driver_errors().values()) <= set(catalogue())


def test_every_signature_fires_in_a_case() -> None:
    from tests.cases.judged import FOLDER, judge_text, judged_cases

    fired = {
        event.signature
        for name in ("reported", "composed", "unseen")
        for item in judged_cases(name)
        for event in item.events
    }
    healthy = (FOLDER / "healthy.txt").read_text(encoding="utf-8")
    fired |= {event.signature for event in judge_text(healthy).events}
    assert {item.name for item in ALL} - fired == set()


def test_every_signature_cites_a_report_or_its_program() -> None:
    from tests.cases.judged import judged_cases

    sources = json.loads(read_data("evidence/signature-sources.json"))
    fired = {
        item.case["id"]: {event.signature for event in item.events}
        for item in judged_cases("reported")
    }
    cited = sources["messages"]
    uncited = [name for names in sources["uncited"].values() for name in names]
    assert sorted((*cited, *uncited)) == sorted(item.name for item in ALL)
    assert [name for name in uncited if any(name in found for found in fired.values())] == []
    for name, source in cited.items():
        if "case" in source:
            assert name in fired[source["case"]], name
        elif "report" in source:
            assert source["report"].startswith("https://"), name
        else:
            assert all((source["artifact"], source["path"], source["words"][7:])), name


# What no stored log shows: each draws a conclusion of its own.
NOT_IN_A_CASE = (
    "torch 2.1.2+cu121\nCould not load library libnvrtc.so.12. Error: libnvrtc.so.12: cannot open shared object file",
    "ImportError: libc10.so: cannot open shared object file: No such file or directory",
    "ImportError: libstdc++.so.6: cannot open shared object file: No such file or directory",
    "from torch._C import *\nImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
    "AttributeError: partially initialized module 'wandb' has no attribute 'init'",
    "ERROR: Could not find a version that satisfies the requirement left-pad==9 (from versions: none)",
    "UserWarning: The detected CUDA version (11.4) has a minor version mismatch with the version",
    "Could not find cuda drivers on your machine, GPU will not be used.",
    "I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] Could not find cuda drivers on your machine",
    "[pip3] torch==2.8.0\nImportError: x.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
    "ERROR: torch.whl is not a supported wheel on this platform.",
    "Python version: 3.9.5\nERROR: torch-2.5.1-cp312-cp312-manylinux1_x86_64.whl is not a supported wheel on this platform.",
)


def test_every_conclusion_is_drawn_in_a_case() -> None:
    from tests.cases.judged import judge_text, judged_cases

    judged = [item for name in ("reported", "composed", "unseen") for item in judged_cases(name)]
    judged += map(judge_text, NOT_IN_A_CASE)
    drawn = {name for item in judged for name in item.conclusions}
    assert set(conclusions_by_name()) - drawn == {
        "system-too-old"
    }  # tests/explain/test_asked.py draws it from facts


def test_every_finding_that_a_log_can_show_has_a_message() -> None:
    from tests.cases.judged import judged_cases
    from tests.remedies.test_same_situation import OF_RULES_ALONE

    shown = {
        item.primary for name in ("reported", "composed", "unseen") for item in judged_cases(name)
    }
    without = (
        set(catalogue())
        - shown
        - {*OF_RULES_ALONE, "plugin-failed", "import-failed", "smoke-failed"}
    )
    assert not without, (
        f"no case shows {sorted(without)}: add a signature and a case, or a row to OF_RULES_ALONE"
    )
