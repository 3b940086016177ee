"""Details that a finding must get right: a fact that is not known, the alternative, the own copy, the citation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envcheck.model import FrameworkBuild
from tests.rules import factory_toolkit
from tests.rules.factory_machine import UNREAD, build, context, driver, gpu, known, only, run

OLD_DRIVER = "driver-too-old"
OWN = "/home/ada/cudnn/lib"


def torch(cuda: str) -> FrameworkBuild:
    return build(
        "9.9.9",
        cuda_build=known(True),
        cuda_version=known(cuda),
        compute_capabilities=known(("sm_80",)),
    )


@pytest.mark.parametrize(
    ("release", "is_too_old"), [("525.60.11", True), ("525.60.13", False), ("570.195.03", False)]
)
def test_the_release_decides_where_the_cuda_version_of_the_driver_is_not_known(
    release: str, is_too_old: bool
) -> None:
    given = driver(release, cuda_driver_version=UNREAD)
    assert (
        bool(run(OLD_DRIVER, context(gpu(), driver=given, builds=(torch("12.6"),)))) is is_too_old
    )


def test_the_citation_is_that_of_the_toolkit_of_the_build() -> None:
    shown = []
    for cuda in ("12.6", "13.0"):
        found = only(
            OLD_DRIVER, context(gpu(), driver=driver("470.256.02", "11.4"), builds=(torch(cuda),))
        )
        cited = [item for item in found.evidence if item.citation]
        assert [item.fact for item in cited] == [f"toolkits {cuda}"]
        shown += [item.citation for item in cited]
    assert len(set(shown)) == 2


def test_the_alternative_is_a_release_that_the_driver_runs() -> None:
    for release, cuda, offered in (("470.256.02", "11.4", "11.8"), ("525.60.13", "12.0", "12.")):
        judged = context(gpu(), driver=driver(release, cuda), builds=(torch("13.0"),))
        fix = only(OLD_DRIVER, judged).fix
        assert fix is not None
        (other,) = [way for way in fix.alternatives if "Keep the driver" in way.summary]
        assert f"for CUDA {offered}" in other.summary


def test_an_own_copy_of_cudnn_on_the_library_path_is_named_and_taken_off() -> None:
    found_first = factory_toolkit.lookup(
        "libcudnn.so.8", f"{OWN}/libcudnn.so.8", version=known("8.1.1")
    )
    copies = (factory_toolkit.cudnn("8.9.2"), factory_toolkit.cudnn("8.1.1", "/home/ada/cudnn"))
    for path in (OWN, f"/opt/first:{OWN}"):
        facts = factory_toolkit.machine(
            factory_toolkit.tensorflow("2.13.1", found_first),
            copies=copies,
            environment={"LD_LIBRARY_PATH": path},
        )
        (found,) = factory_toolkit.findings(facts, "cudnn-shadowed")
        assert f"loads cuDNN 8.1.1 from {OWN}" in found.message
        assert found.fix is not None
        assert f"Remove {OWN} from LD_LIBRARY_PATH" in found.fix.summary
    newer = replace(found_first, version=known("8.9.7"))
    facts = factory_toolkit.machine(factory_toolkit.tensorflow("2.13.1", newer), copies=copies)
    assert factory_toolkit.findings(facts, "cudnn-shadowed") == ()
