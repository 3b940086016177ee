"""From the wheels of a release to its rows, by framework."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from envcheck.matrix.renew.companions import draft_companion
from envcheck.matrix.renew.contents import Contents
from envcheck.matrix.renew.draft import Draft, by_key
from envcheck.matrix.renew.errors import ArtifactError
from envcheck.matrix.renew.jax import draft_jax, lend_wheels
from envcheck.matrix.renew.tensorflow import draft_tensorflow
from envcheck.matrix.renew.torch import draft_torch
from envcheck.matrix.renew.wheels import Group


def draft_release(
    framework: str,
    groups: Sequence[Group],
    contents: Mapping[str, Contents],
    published: Mapping[str, Collection[str]],
) -> list[Draft]:
    """Draft the rows of one release.

    `contents` is by the SHA-256 of the representatives: a group without is left out. `published` lists the versions
    of each distribution of the framework.
    """
    kept = [group for group in groups if group.representative.sha256 in contents]
    made = [_draft(framework, group, contents[group.representative.sha256], published) for group in kept]
    drafts = [draft for draft in made if draft is not None]
    if framework == "jax":
        lend_wheels(by_key(drafts))
    return drafts


def _draft(framework: str, group: Group, contents: Contents, published: Mapping[str, Collection[str]]) -> Draft | None:
    try:
        if framework == "tensorflow":
            return draft_tensorflow(group, contents)
        if framework == "torch":
            return draft_torch(group, contents)
        if framework == "jax":
            return draft_jax(group, contents, published)
        return draft_companion(group, contents)
    except ArtifactError as error:
        raise ArtifactError(f"{group.representative.filename} cannot be used: {error}.") from error
