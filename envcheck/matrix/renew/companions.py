"""The rows of what goes with TensorFlow: Keras, tensorflow-metal and TensorRT, as their wheels' metadata shows them."""

from __future__ import annotations

import re

from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.draft import Draft, add_glibc, start_draft
from envcheck.matrix.renew.metadata import bare, extra_of, parse_requirements
from envcheck.matrix.renew.wheels import Group

_LIBRARIES = r"nvidia-(cuda-runtime|cudnn|cublas)-cu\d+"


def draft_companion(group: Group, contents: Contents) -> Draft | None:
    """Draft the row of a companion's release on one platform."""
    draft = start_draft(group, contents)
    if draft is None:
        return None
    if not group.pythons():
        draft.say("pythons", "Its name states no Python; those that its classifiers name are listed.")
    if "tensorrt" in group.distribution:
        _add_cuda(draft, contents)
    else:
        _add_tensorflow(draft)
    add_glibc(draft)
    return draft


def _add_tensorflow(draft: Draft) -> None:
    """State which TensorFlow it goes with, where its metadata bounds it: tf-keras 2.15.1 asks for >=2.15,<2.16."""
    asked = draft.cells["requires"].get("tensorflow", "")
    if "<" in asked or "=" in asked.replace(">=", ""):
        draft.cells["tensorflow"] = asked
    else:
        draft.cells["tensorflow"] = None
        draft.say("tensorflow", "Which TensorFlow it goes with was not read.", gap=True)


def _add_cuda(draft: Draft, contents: Contents) -> None:
    """State the CUDA major of a TensorRT wheel, by its name or by the CUDA wheels it requires."""
    wheels = [
        item
        for item in parse_requirements(contents.metadata)
        if re.fullmatch(_LIBRARIES, item.name) and not extra_of(item)
    ]
    majors = {item.name.rpartition("-cu")[2] for item in wheels}
    named = re.search(r"-cu(\d+)-", draft.group.distribution)
    if named:
        majors = {named[1]}
        draft.say("cuda", "The wheel holds Python bindings only.")
    if len(majors) == 1:
        draft.cells["cuda"] = majors.pop()
        draft.say("cuda", "Only the CUDA major is stated.")
    if wheels:  # the libraries are inside
        draft.cells.update(cuda_build=True, compute_capabilities=[], cuda_wheels=[bare(item) for item in wheels])
        draft.say("compute_capabilities", "Compute capabilities were not read.", gap=True)
