"""What a file that builds an environment says of it, line by line."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace

from envcheck.model.records import dataclass, field

Read = Callable[[str], "str | None"]  # a file's text by its path; None: it is not there


class FileError(ValueError):
    """A file that cannot be read as what it should be; the message says why."""


@dataclass(frozen=True)
class Line:
    """One thing a file says, and where: "requirements.txt:3"."""

    text: str
    where: str
    links: bool = False  # a requirement that may come as a wheel from a page of links
    index: str = ""  # what the index is for that a requirement is bound to: cpu, cuda, or other for other makers' GPUs


@dataclass(frozen=True)
class Files:
    """The files a judged one may name, looked for in its own folder, then in the folder it is judged from."""

    read: Read
    folders: tuple[str, ...] = ("",)
    names: Callable[[str], tuple[str, ...]] = lambda name: (name,)  # what a file of the image may be called here
    written: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # path and text of what the file itself holds

    def find(self, name: str) -> tuple[str, str] | None:
        """Return a file's path and text; None where it is not there."""
        if name in self.written:
            return self.written[name]
        for called in self.names(name):
            for folder in dict.fromkeys(self.folders):
                path = posixpath.normpath(posixpath.join(folder, called))
                text = self.read(path)
                if text is not None:
                    return path, text
        return None

    def beside(self, path: str) -> Files:
        """Return the files as another one names them."""
        return replace(self, folders=(posixpath.dirname(path.replace("\\", "/")), *self.folders))


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
    pip: str = ""  # of the system's own package of it
    frameworks: tuple[str, ...] = ()  # requirements it fulfils: "torch==2.4.0"
    source: str = ""  # the convention by which its name was read


@dataclass(frozen=True)
class Blueprint:
    """An environment that is not built yet."""

    path: str
    kind: str  # Dockerfile, stage (one that the last copies from), compose file, environment.yml, requirements file
    image: Image | None = None
    python: Line | None = None  # a version: "3.10"
    pip: Line | None = None  # where the system's package of pip is installed
    own_pip: bool = False  # another pip, or another installer, is brought or asked
    requirements: tuple[Line, ...] = ()  # PEP 508
    conda: tuple[Line, ...] = ()  # match specs: "cudatoolkit=11.2"
    compiles: tuple[Line, ...] = ()  # what needs nvcc
    may_compile: tuple[Line, ...] = ()  # what builds an extension, of CUDA code or not
    built: tuple[Line, ...] = ()  # requirements installed in a stage that this one copies from
    added: tuple[Line, ...] = ()  # steps that bring CUDA or cuDNN into the image, in whatever release
    platform: str = ""  # linux/arm64, where the file names one
    wants_gpu: Line | None = None  # an environment variable that asks the NVIDIA runtime for GPUs
    asks_gpu: Line | None = None  # a compose service that asks for GPUs
    loader_path: Line | None = None  # what sets LD_LIBRARY_PATH, for good or in a file read at the start
    lacks_gpu: Line | None = None  # a compose service with a CUDA image and no request
    unread: tuple[Line, ...] = field(default_factory=tuple)  # sentences on what the file leaves open
