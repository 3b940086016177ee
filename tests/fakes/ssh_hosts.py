"""Stand-in hosts behind real sshd: each a network namespace on the stand-in GPU host it is told to be. Needs root.

Nothing of this machine is changed but for a bridge and the namespaces, which go with the context; no route leads
from them to anywhere else. Host keys are real, and the inventory names the file that knows them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fakes.gpu_host import entering
from tests.fakes.machine import GpuHost
from tests.fakes.stage import stage
from tests.patience import PATIENCE

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INSIDE = """
set -e
hostname "$1"; ip addr add "$2" dev eth0; ip link set eth0 up; ip link set lo up
shift 2; exec "$@"
"""


@dataclass(frozen=True)
class SshHost:
    """A host of an inventory: the machine it is, or a machine that is not there, and what it makes of a command."""

    machine: GpuHost | None = None  # None: nobody has its address
    # run instead of what is asked for, by the host's shell; $SSH_ORIGINAL_COMMAND holds that
    command: str = ""


@contextlib.contextmanager
def ssh_hosts(hosts: Mapping[str, SshHost], seconds: float = PATIENCE) -> Iterator[Path]:
    """Start the hosts, wait until each answers its port, and yield an inventory; take them all down in the end."""
    with tempfile.TemporaryDirectory(prefix="standin-") as folder, contextlib.ExitStack() as stack:
        net = _Net(Path(folder), os.getpid())
        stack.callback(net.down)
        net.up([name for name, host in hosts.items() if host.machine is not None])
        for name, host in hosts.items():
            if host.machine is not None:
                net.start(name, host)
        _wait([net.address(name) for name in net.started], time.monotonic() + seconds)
        yield net.inventory(hosts)


class _Net:
    """The bridge, the namespaces and the sshds of one set of hosts."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.started = folder, dict[str, "subprocess.Popen[bytes]"]()
        self._number, self._addresses = number, dict[str, str]()
        for name in ("id", "host_key"):
            subprocess.run(
                ["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", str(folder / name)], check=True
            )
        (folder / "authorized_keys").write_text(
            (folder / "id.pub").read_text(encoding="utf-8"), encoding="utf-8"
        )
        Path("/run/sshd").mkdir(exist_ok=True)

    def address(self, name: str) -> str:
        """Return a host's address; each name gets its own, there or not."""
        at = len(self._addresses) + 10
        return self._addresses.setdefault(
            name, f"10.{200 + self._number % 50}.{at // 250}.{at % 250 + 1}"
        )

    def up(self, names: list[str]) -> None:
        """Make the bridge, and a namespace with one end of a cable for each host."""
        bridge = f"ecb{self._number}"
        lines = [
            f"link add {bridge} type bridge",
            f"addr add 10.{200 + self._number % 50}.0.1/16 dev {bridge}",
        ]
        lines.append(f"link set {bridge} up")
        for at, name in enumerate(names):
            cable = f"e{self._number}v{at}"
            lines += [
                f"netns add {self._space(name)}",
                f"link add {cable} type veth peer name eth0",
            ]
            lines[-1] += f" netns {self._space(name)}"
            lines.append(f"link set {cable} master {bridge} up")
        _ip(lines)

    def start(self, name: str, host: SshHost) -> None:
        """Start a host's sshd on the machine it is."""
        own = self.folder / name
        staged, live = own / "staged", own / "live"
        live.mkdir(parents=True)
        machine = host.machine or GpuHost()
        stage(
            replace(machine, files={**machine.files, "/root/.bashrc": "", "/root/.profile": ""}),
            staged,
        )
        (own / "sshd_config").write_text(self._config(host, machine), encoding="utf-8")
        sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", str(own / "sshd_config")]
        inside = [
            "sh",
            "-c",
            _INSIDE,
            "sh",
            name,
            self.address(name) + "/16",
            *entering(staged, live, sshd),
        ]
        argv = ["ip", "netns", "exec", self._space(name), "unshare", "--uts", *inside]
        with (own / "log").open("wb") as log:
            self.started[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _config(self, host: SshHost, machine: GpuHost) -> str:
        shown = " ".join(f'{name}="{value}"' for name, value in machine.environment().items())
        lines = [
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f'SetEnv PATH="{_PATH}" {shown}',
            "PermitRootLogin prohibit-password",
            "StrictModes no",
            "UsePAM no",
            "UseDNS no",
            "PidFile none",
            "MaxStartups 500",
            "Subsystem sftp internal-sftp",
            *([f"ForceCommand {host.command}"] if host.command else []),
        ]
        return "\n".join(lines) + "\n"

    def inventory(self, hosts: Mapping[str, SshHost]) -> Path:
        """Write the inventory and the file of known host keys."""
        key = " ".join((self.folder / "host_key.pub").read_text(encoding="utf-8").split()[:2])
        known, inventory = self.folder / "known_hosts", self.folder / "inventory.ini"
        known.write_text(
            "".join(f"{self.address(name)} {key}\n" for name in hosts), encoding="utf-8"
        )
        options = f"-o UserKnownHostsFile={known} -o ControlPath={self.folder}/cp-%C"
        connection = "-o ControlMaster=auto -o ControlPersist=5s"
        variables = f"ansible_user=root ansible_ssh_private_key_file={self.folder}/id"
        lines = [
            "[gpu]",
            *(f"{name} ansible_host={self.address(name)} {variables}" for name in hosts),
            "[gpu:vars]",
            f'ansible_ssh_extra_args="{options}"',
            f'ansible_ssh_args="{connection}"',
        ]
        inventory.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return inventory

    def down(self) -> None:
        """End every process in the namespaces, and remove them with the bridge."""
        for name, process in self.started.items():
            for pid in _output(["ip", "netns", "pids", self._space(name)]).split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            process.wait(PATIENCE)
        spaces = [
            space
            for space in _output(["ip", "netns", "list"]).split()
            if space.startswith(self._space(""))
        ]
        _ip([*(f"netns del {space}" for space in spaces), f"link del ecb{self._number}"])

    def _space(self, name: str) -> str:
        return f"ec{self._number}-{name}"


def _ip(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    subprocess.run(["ip", "-force", "-batch", "-"], input=text, text=True, check=True)


def _output(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _wait(addresses: list[str], deadline: float) -> None:
    for address in addresses:
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection((address, 22), 1.0) as connection,
            ):
                if connection.recv(4) == b"SSH-":
                    break
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sshd at {address} does not answer")
            time.sleep(0.02)
