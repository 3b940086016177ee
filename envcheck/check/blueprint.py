"""What a file that builds an environment says of it, line by line."""

from __future__ import annotations

from envcheck.model.records import dataclass, field


class FileError(ValueError):
    """A file that cannot be read as what it should be; the message says why."""


@dataclass(frozen=True)
class Line:
    """One thing a file says, and where: "requirements.txt:3"."""

    text: str
    where: str


@dataclass(frozen=True)
class Image:
    """What the name of a base image says of its contents; "" where it says nothing."""

    reference: str
    where: str
    cuda: str = ""  # 12.4.1
    cudnn: str = ""  # its major: "9"; "any" where the name tells only that it is there
    flavor: str = ""  # base, runtime, devel
    os: str = ""
    os_version: str = ""
    glibc: str = ""
    python: str = ""
    frameworks: tuple[str, ...] = ()  # requirements it fulfils: "torch==2.4.0"
    source: str = ""  # the convention by which its name was read


@dataclass(frozen=True)
class Blueprint:
    """An environment that is not built yet."""

    path: str
    kind: str  # Dockerfile, compose file, environment.yml, requirements file
    image: Image | None = None
    python: Line | None = None  # a version: "3.10"
    requirements: tuple[Line, ...] = ()  # PEP 508
    conda: tuple[Line, ...] = ()  # match specs: "cudatoolkit=11.2"
    cpu_index: tuple[Line, ...] = ()  # requirements bound to an index of CPU wheels
    compiles: tuple[Line, ...] = ()  # what needs nvcc
    asks_gpu: Line | None = None  # a compose service or an environment variable that asks for GPUs
    lacks_gpu: Line | None = None  # a compose service with a CUDA image and no request
    unread: tuple[Line, ...] = field(default_factory=tuple)  # what the file leaves open: a variable, a file not there
