"""An Ansible callback: one JSON line on standard output for each host, as soon as it is done.

Runs inside ansible-playbook, with Ansible's own modules; see
https://docs.ansible.com/ansible/latest/dev_guide/developing_plugins.html#callback-plugins.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: envcheck_events
type: stdout
short_description: one JSON line for each host
description: Prints what the collector answered on each host, as soon as the host is done.
"""
FIELDS = ("stdout", "stderr", "msg", "module_stderr", "rc")
LONGEST = 17 << 20  # characters of a field: more than any answer is; what is cut is no JSON and refused as such
_MARK = os.environ.get("ENVCHECK_EVENT_MARK", "")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # Ansible publishes no types
    """Print an event for the play's hosts, and one for each host's end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "envcheck_events"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Tell the hosts the play is for."""
        every = play.get_variable_manager().get_vars(play=play)["ansible_play_hosts_all"]
        _tell({"kind": "hosts", "hosts": [str(host) for host in every]})

    def v2_runner_on_ok(self, result: Any) -> None:
        """Tell what a host answered."""
        _tell_result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Tell how a host failed."""
        _tell_result("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Tell why a host was not reached."""
        _tell_result("unreachable", result)


def _tell_result(kind: str, result: Any) -> None:
    said = result.result if hasattr(result, "result") else result._result  # noqa: SLF001 - public since ansible-core 2.19
    host = result.host if hasattr(result, "host") else result._host  # noqa: SLF001
    fields = {name: str(said[name])[:LONGEST] for name in FIELDS if name in said}
    _tell({"kind": kind, "host": host.get_name(), **fields})


def _tell(event: dict[str, Any]) -> None:
    sys.stdout.write(_MARK + json.dumps(event) + "\n")
    sys.stdout.flush()
