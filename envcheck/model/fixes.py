"""What must change so that a finding goes away.

Records without text and calls. A rule, a file and a log make the same record for the same
situation. `envcheck.remedies` writes it out: in the module that the base of the record names, by
the function of the record's name (`UpdatePip`: `update_pip` in `remedies/environment.py`), or by
rows of data/advice/remedies.json.
"""

from __future__ import annotations

from typing import Tuple

from envcheck.model.answers import Fix
from envcheck.model.records import dataclass


class DriverFix(Fix):
    """Fixes of the NVIDIA driver.

    Its release, kernel module, libraries, device nodes, services and containers.
    """

    subject = "driver"


@dataclass
class InstallDriver(DriverFix):
    """Install a driver that is new enough, or keep it and install what runs on it."""

    floor: str = ""  # the lowest release or branch that serves; "" not known
    exact: bool = False  # of this very branch
    cuda: str = ""  # what needs it
    framework: str = ""
    distribution: str = ""


@dataclass
class InstallMissingDriver(DriverFix):
    """Install a driver where none is left of one, once a GPU is seen."""


@dataclass
class LoadDriver(DriverFix):
    """Load the kernel module that is installed."""


@dataclass
class BuildDriver(DriverFix):
    """Build the kernel module for the running kernel."""


@dataclass
class InstallKernelModule(DriverFix):
    """Install the driver with another kind of kernel module: open, proprietary."""

    kind: str


@dataclass
class ReadKernelLog(DriverFix):
    """Find out why the driver does not start."""


@dataclass
class ReleaseFromVirtualMachine(DriverFix):
    """Take the GPU from vfio-pci."""


@dataclass
class ReplaceNouveau(DriverFix):
    """Install the driver and keep nouveau from loading."""


@dataclass
class SignModule(DriverFix):
    """Make Secure Boot accept the kernel module."""


@dataclass
class RemoveStrayNvml(DriverFix):
    """Remove a copy of NVML that is found before the driver's own."""


@dataclass
class RemoveStrayLibcuda(DriverFix):
    """Remove a copy of libcuda that is found before the driver's own."""

    folder: str


@dataclass
class MatchDriverParts(DriverFix):
    """Bring the kernel module and the libraries to one release."""

    kernel: str = ""  # the release of the module; "" not known
    libraries: str = ""


@dataclass
class RemoveForwardCompatibility(DriverFix):
    """Take the folder of cuda-compat off the loader's path."""

    folder: str


@dataclass
class InstallLibcuda(DriverFix):
    """Install the user-space libraries of the running driver's release."""


@dataclass
class AddLibcudaFolder(DriverFix):
    """Put the folder of libcuda on the loader's search path."""

    folder: str


@dataclass
class OpenDeviceNode(DriverFix):
    """Give this user access to a device node."""

    node: str


@dataclass
class RestoreDevices(DriverFix):
    """Give a container or a job its GPUs back."""


@dataclass
class CreateDeviceNode(DriverFix):
    """Create a device node, and pass it through to a container."""

    node: str


@dataclass
class ReloadMemoryModule(DriverFix):
    """Load nvidia-uvm again, which a suspend left in a bad state."""


@dataclass
class StartFabricManager(DriverFix):
    """Install and start the fabric manager of the driver's release."""

    driver: str = ""  # where the machine's own is not known


@dataclass
class TrustRepository(DriverFix):
    """Give apt the key of a repository of NVIDIA's that it has without one that it trusts."""

    repository: str
    machine: str = ""


@dataclass
class ConvertToWsl2(DriverFix):
    """Convert a WSL 1 distribution to WSL 2."""


@dataclass
class RemoveDriverFromWsl(DriverFix):
    """Remove the Linux driver that hides the one of Windows."""

    packages: Tuple[str, ...] = ()


@dataclass
class InstallWindowsDriver(DriverFix):
    """Install the driver in Windows."""


@dataclass
class PassGpusToContainer(DriverFix):
    """Start the container with the GPUs of its host, and with the driver's libraries."""

    lacks_library: bool = False  # the devices are there already


class HardwareFix(Fix):
    """Fixes of GPU and CPU, and of what is busy, split, hidden or limited on GPUs that work."""

    subject = "hardware"


@dataclass
class UseBuildForGpu(HardwareFix):
    """Install the first build that has code for a newer GPU, or the last for an older one."""

    framework: str = ""
    distribution: str = ""
    capability: str = ""  # compute capability of the GPU; "" not known
    is_newer: bool = True  # the GPU; False: newer builds no longer support it


@dataclass
class AvoidReportedFailure(HardwareFix):
    """Do what is known to work where users report that a build fails on a GPU."""

    sentence: str


@dataclass
class CompileForGpu(HardwareFix):
    """Build CUDA code with the first toolkit that knows a newer GPU, or the last for an older."""

    capability: str
    is_newer: bool = True


@dataclass
class HideGpu(HardwareFix):
    """Use another GPU than one that a project excludes."""


@dataclass
class UseMachineWithGpu(HardwareFix):
    """Run on a machine with a GPU."""

    or_cpu: bool = False  # the CPU would do: a GPU is only expected


@dataclass
class FindLostGpu(HardwareFix):
    """Look for a GPU that the machine had."""


@dataclass
class StopUsingGpu(HardwareFix):
    """Check a GPU that computes wrong results."""

    gpu: str = ""


@dataclass
class ServiceGpu(HardwareFix):
    """Do what a GPU, or what connects GPUs, needs: reset, reboot, replace, drain, cool, watch, …"""

    action: str
    index: str = "0"


@dataclass
class FollowXid(HardwareFix):
    """Do what NVIDIA's catalogue says of the errors that the driver logged."""

    codes: Tuple[str, ...]
    pci: str = ""  # address of the GPU: 0000:3b:00
    recovery: str = ""  # what Xid 154 recommends: GPU Reset Required


@dataclass
class UseOtherProcessor(HardwareFix):
    """Use a processor with these instructions, or the last release built without them."""

    framework: str = ""
    # those that the processor lacks; () for one that nobody names
    instructions: Tuple[str, ...] = ()
    is_stated: bool = True  # False: a program died of some illegal instruction


@dataclass
class SetDefaultComputeMode(HardwareFix):
    """Let several processes use a GPU."""

    index: str


@dataclass
class FindGpuUser(HardwareFix):
    """Stop the process that has a GPU for itself."""


@dataclass
class WaitForMemory(HardwareFix):
    """Stop the process that holds a GPU's memory, or wait for it."""


@dataclass
class StopProcess(HardwareFix):
    """Stop a process that holds a GPU's memory and that the driver lists."""

    pid: str


@dataclass
class FindHiddenProcess(HardwareFix):
    """Find a process that holds a GPU's memory and that the driver does not list."""


@dataclass
class CreateMigInstance(HardwareFix):
    """Create an instance on a GPU in MIG mode."""

    index: str


@dataclass
class AssignMigInstance(HardwareFix):
    """Give each process one MIG instance."""

    uuid: str


@dataclass
class EnlargeSharedMemory(HardwareFix):
    """Start the container with a larger /dev/shm."""


@dataclass
class UnsetVisibleDevices(HardwareFix):
    """Unset CUDA_VISIBLE_DEVICES, unless a scheduler set it to what a job was given."""

    by_scheduler: bool = False


@dataclass
class RequestGpusFromRuntime(HardwareFix):
    """Start a container whose NVIDIA_VISIBLE_DEVICES asks for GPUs."""


class ToolkitFix(Fix):
    """Fixes of the CUDA Toolkit, of its compilers, and of what is found first."""

    subject = "toolkit"


@dataclass
class InstallToolkit(ToolkitFix):
    """Install the CUDA that a build needs, or a release for the CUDA that is there."""

    cuda: str
    framework: str = ""
    distribution: str = ""
    compiles: bool = False  # CUDA code is built: it needs nvcc


@dataclass
class ChooseToolkit(ToolkitFix):
    """Install one of several CUDA lines: the release of the framework decides."""

    lines: Tuple[str, ...]  # the newest first
    framework: str = ""


@dataclass
class InstallNvcc(ToolkitFix):
    """Install the nvcc of the CUDA that a framework was built with."""

    cuda: str
    framework: str
    distribution: str


@dataclass
class InstallLibdevice(ToolkitFix):
    """Install the part of CUDA that XLA takes libdevice from."""

    cuda: str


@dataclass
class NameLibdevice(ToolkitFix):
    """Tell XLA where libdevice is."""

    root: str  # of its toolkit
    path: str


@dataclass
class UseNewerPtxas(ToolkitFix):
    """Put a ptxas first on PATH that knows the GPU."""

    cuda: str  # the first whose ptxas does
    capability: str
    framework: str = ""
    distribution: str = ""


@dataclass
class ReplaceBundledPtxas(ToolkitFix):
    """Point a package at another ptxas than its own, or install a newer release of it."""

    cuda: str  # the first whose ptxas knows the GPU
    variable: str = ""  # names another ptxas; "" where nothing does
    path: str = ""  # of a ptxas that is there
    newer: str = ""  # "triton 3.6", which holds one


@dataclass
class UseOtherCompiler(ToolkitFix):
    """Point nvcc at a GCC that it accepts, or install one.

    Or take a CUDA that accepts the compiler that is there.
    """

    cuda: str  # of nvcc
    highest: str = ""  # the GCC that it still accepts
    lowest: str = ""
    present: str = ""  # the version of the compiler that it would call
    calls_clang: bool = False


@dataclass
class InstallVisualStudio(ToolkitFix):
    """Install a Visual Studio that nvcc accepts."""

    highest: str  # the cl that it still accepts: 19.49


@dataclass
class AddToLibraryPath(ToolkitFix):
    """Make the loader look in folders whenever the environment is activated."""

    folders: Tuple[str, ...]


@dataclass
class RemoveFromLibraryPath(ToolkitFix):
    """Keep the loader from folders that hold other copies."""

    folders: Tuple[str, ...]
    toolkit: str = ""  # the root that all of them are below, where they are a toolkit's
    unneeded_by: str = ""  # a build with copies of its own: torch 2.7.1+cu126


@dataclass
class UseInstalledToolkit(ToolkitFix):
    """Point the loader, or the build, at the CUDA that is installed and not found."""

    cuda: str
    compiles: bool = False


@dataclass
class BuildWithToolkit(ToolkitFix):
    """Point CUDA_HOME and PATH at a toolkit where CUDA code is compiled."""

    root: str
    instead_of: str = ""  # the root of the one that is found now
    torch_cuda: str = ""  # the CUDA of torch, where that is the reason


class LibraryFix(Fix):
    """Fixes of what frameworks load: CUDA wheels, cuDNN, TensorRT, the system's libraries."""

    subject = "libraries"


@dataclass
class InstallCudnn(LibraryFix):
    """Install the cuDNN that a build was made with, for its CUDA."""

    framework: str = ""
    distribution: str = ""
    version: str = ""  # "": that of the build
    cuda: str = ""  # "": that of the build
    exact: bool = False  # a newer one does not serve
    site_packages: str = ""  # of a program that finds the wheel there only if it is told


@dataclass
class InstallOlderCudnn(LibraryFix):
    """Go back to the newest cuDNN that still serves a GPU."""

    framework: str
    distribution: str
    version: str  # the one that is loaded
    capability: str


@dataclass
class BoundCudnn(LibraryFix):
    """Install a requested release with a cuDNN that serves the GPUs."""

    framework: str
    requirement: str


@dataclass
class InstallTensorrt(LibraryFix):
    """Install the TensorRT that a release was built with."""

    framework: str
    release: str


@dataclass
class InstallSystemLibrary(LibraryFix):
    """Install the package of the system that holds a library."""

    library: str


@dataclass
class InstallCudaLibraries(LibraryFix):
    """Install requirements that bring a framework its CUDA libraries."""

    framework: str
    requirements: Tuple[str, ...] = ()  # (): those of a build that fits
    index: str = ""  # PyTorch's, where the build is from there
    are_pinned: bool = False  # by the installed release, which then works


@dataclass
class StartActivated(LibraryFix):
    """Activate the environment, which sets the loader's path, before a program starts."""


@dataclass
class ExposeCudaWheels(LibraryFix):
    """Make the loader find the libraries of wheels that are installed."""

    folders: Tuple[str, ...]
    links: Tuple[str, ...] = ()  # the libraries to link into `reached`
    reached: str = ""  # a folder that the framework looks in; "" none of that depth
    requirement: str = ""  # on a release that finds them


@dataclass
class ReplaceCudaWheels(LibraryFix):
    """Remove wheels that wrote into the folders of others, and reinstall those."""

    removed: Tuple[str, ...]
    requirements: Tuple[str, ...]


@dataclass
class UseFreshEnvironment(LibraryFix):
    """Make an environment for one framework, with the CUDA wheels that it asks for itself."""

    framework: str


class FrameworkFix(Fix):
    """Fixes of the frameworks: which is installed, in which release and build."""

    subject = "frameworks"


@dataclass
class ChooseFramework(FrameworkFix):
    """Install any framework: the environment has none."""


@dataclass
class InstallFramework(FrameworkFix):
    """Install a framework into the Python that runs the program."""

    framework: str


@dataclass
class InstallReplacement(FrameworkFix):
    """Install the distribution that replaces a withdrawn one."""

    requirement: str


@dataclass
class UseOtherPlatform(FrameworkFix):
    """Use a platform with GPU wheels of a framework, or its last release for this one."""

    framework: str


@dataclass
class InstallCudaBuild(FrameworkFix):
    """Replace a build for the CPU by the one for CUDA."""

    framework: str
    cuda: str = ""  # that a log names
    by_conda: bool = False  # a log shows that conda chose the build


@dataclass
class KeepOneDistribution(FrameworkFix):
    """Keep one of the distributions that contain the same module."""

    names: Tuple[str, ...]
    kept: str  # as a requirement


@dataclass
class RenewMatrix(FrameworkFix):
    """Get a matrix that lists a release."""

    framework: str = ""
    advice: str = ""  # in place of the general sentence


class PackageFix(Fix):
    """Fixes of the packages around a framework: required, made for it, compiled against it."""

    subject = "packages"


@dataclass
class InstallRequirements(PackageFix):
    """Install requirements, within what the other installed packages require."""

    requirements: Tuple[str, ...]
    advice: str = ""  # one more sentence
    index: str = ""  # package index that has them; "" for the configured one


@dataclass
class RestoreRequirements(PackageFix):
    """Install what a distribution requires, together with the release of it that is there."""

    owner: str  # as a requirement
    others: Tuple[str, ...] = ()
    is_missing: bool = False  # nothing of it is installed: the owner brings it


@dataclass
class ReinstallParts(PackageFix):
    """Reinstall a framework, whose parts are of several releases."""

    requirement: str


@dataclass
class RestoreKeras2(PackageFix):
    """Run code for Keras 2 with the TensorFlow that is there."""

    framework: str


@dataclass
class InstallRequiredRelease(PackageFix):
    """Install the release of a package that a framework's release requires."""

    name: str
    framework: str


@dataclass
class InstallTogether(PackageFix):
    """Install releases that fit each other, where a resolver found that others do not."""

    requirements: Tuple[str, ...]
    tool: str = ""  # that could not resolve them, and takes them: uv, uv pip, conda


@dataclass
class RebuildExtension(PackageFix):
    """Install the build of a package for the framework that is there, or build it against that."""

    name: str


@dataclass
class InstallProjectsBuild(PackageFix):
    """Install what the package's own project built for the framework that is there."""

    name: str  # "" not known


@dataclass
class ReplaceLabelledBuild(PackageFix):
    """Install the build of a package whose label names the framework that is there."""

    name: str
    framework: str  # as its build is called: torch 2.7.1+cu118


@dataclass
class MatchInstalledFramework(PackageFix):
    """Install what a package's project built, or released, for the framework that is there."""

    name: str
    framework: str  # its distribution
    release: str  # that is installed: 2.7.1+cu118; "" not known


@dataclass
class MatchCudaOfPackage(PackageFix):
    """Install framework and package for one CUDA."""

    name: str
    package: str  # its release: torchaudio==2.7.1
    framework: str  # the release that is installed: torch==2.7.1
    framework_label: str  # of its build: cu118
    label: str  # of the package's CUDA: cu126


class EnvironmentFix(Fix):
    """Fixes of an environment's files, of the Python that runs it, and of its pip."""

    subject = "environment"


@dataclass
class SettleInstallation(EnvironmentFix):
    """Let envcheck finish its interrupted installation, or undo it."""

    folder: str = ""  # of the environment
    lacks_journal: bool = False  # it can be repaired alone


@dataclass
class ReinstallFiles(EnvironmentFix):
    """Reinstall the same releases of distributions whose files are damaged."""

    requirements: Tuple[str, ...]
    modules: str = ""  # whose imports show that it worked
    without_record: bool = False  # pip does not know their files


@dataclass
class InstallOverRemains(EnvironmentFix):
    """Install a distribution of which files are left that belong to nothing."""

    requirement: str


@dataclass
class LeaveOutFolders(EnvironmentFix):
    """Take folders off PYTHONPATH, or keep a file from running that puts them first."""

    folders: Tuple[str, ...]  # none: the file does something else
    file: str = ""  # whose code puts them there; "": PYTHONPATH does


@dataclass
class ChangeVariable(EnvironmentFix):
    """Unset an environment variable, or give it a value that is understood."""

    name: str
    grammar: str = ""  # which values those are, in words
    value: str = ""  # one that fits this machine


@dataclass
class RenameShadow(EnvironmentFix):
    """Rename a file that is imported in a framework's place, or take its folder off PYTHONPATH."""

    path: str


@dataclass
class UseOtherPython(EnvironmentFix):
    """Make an environment with a Python that a release has a wheel for."""

    pythons: Tuple[str, ...]  # their minors, oldest first
    requirement: str = ""  # on that release; "" not known
    by_package: bool = False  # a package asks for them, whatever wheels there are
    or_newer: bool = False
    other_release: str = ""  # one with a wheel for the Python that is there


@dataclass
class InstallPython(EnvironmentFix):
    """Recreate the environment with another build of Python."""

    architecture: str = ""  # of the machine, where Python is for another one; "": it has 32 bits
    lacks: Tuple[str, ...] = ()  # modules of its own that this one does not have


@dataclass
class RestorePython(EnvironmentFix):
    """Let an environment start again with the Python that its packages are for."""

    folder: str
    minor: str  # 3.11


@dataclass
class UpdatePip(EnvironmentFix):
    """Update pip, which does not know the tags of a release's wheels."""

    requirement: str


@dataclass
class UseNewerGlibc(EnvironmentFix):
    """Use a system with a newer C library, which cannot be replaced on this one."""

    version: str


@dataclass
class LeaveOutOldLibrary(EnvironmentFix):
    """Take the folder with an old copy of a system's library off LD_LIBRARY_PATH."""

    folder: str
    library: str
