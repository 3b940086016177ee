"""The variables that steps run with: nothing that leads an installer elsewhere, and pip's index for uv."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

# They put packages elsewhere, or make another Python's packages seem to be there.
_LEADS_ASTRAY = (
    "PIP_PREFIX",
    "PIP_TARGET",
    "PIP_ROOT",
    "PIP_USER",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_SYSTEM_PYTHON",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}


def step_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the steps; what uv is told already stands."""
    from envcheck.matrix.renew.errors import ArtifactError

    kept = {name: value for name, value in environment.items() if name not in _LEADS_ASTRAY}
    try:
        told = _for_uv(environment)
    except (ArtifactError, ImportError):  # a broken file, or nobody here who reads pip's configuration
        told = {}
    return {**_for_mamba(environment), **told, **kept, **_QUIET}


def can_stand_for_pip(environment: Mapping[str, str]) -> bool:
    """Tell whether pip's configuration can be read for uv, which is told all of it but extra indexes."""
    from envcheck.matrix.renew.errors import ArtifactError
    from envcheck.matrix.renew.settings import pip_options

    try:
        pip_options(environment)
    except (ArtifactError, ImportError):
        return False
    return True


def _for_mamba(environment: Mapping[str, str]) -> dict[str, str]:
    """Hand over where channels lie, which mamba and micromamba read under a name of their own."""
    alias = environment.get("CONDA_CHANNEL_ALIAS", "")
    return {"MAMBA_CHANNEL_ALIAS": alias} if alias else {}


def _for_uv(environment: Mapping[str, str]) -> dict[str, str]:
    """Hand pip's index settings to uv, which reads none of them. Raises ArtifactError, ImportError."""
    from envcheck.matrix.renew.settings import connection_settings, is_on, pip_options

    options, settings = pip_options(environment), connection_settings(environment)
    found = {
        "UV_FIND_LINKS": ",".join(options.get("find-links", "").split()),
        "UV_DEFAULT_INDEX": options.get("index-url", "").strip(),
        "UV_INSECURE_HOST": " ".join(settings.trusted_hosts),
        "SSL_CERT_FILE": settings.ca_file,
        "SSL_CLIENT_CERT": settings.client_certificate,
        "ALL_PROXY": settings.proxy,
    }
    if is_on(options.get("no-index", "")):
        # uv has no variable for "no index": kept off the network alone, it reads what it once read of one
        found["UV_OFFLINE"], found["UV_DEFAULT_INDEX"] = "1", Path(sys.prefix, "no-index").as_uri()
    return {name: value for name, value in found.items() if value}
