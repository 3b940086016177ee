"""Facts, snapshots, findings and reports: frozen records that import nothing else of the project."""

from __future__ import annotations

from envcheck.model.actions import (
    CHANGES_NOTHING,
    CONDA,
    ENVIRONMENT,
    LINUX,
    MACOS,
    ONLY_SHOWS,
    OWN_STATUS,
    PIP,
    SYSTEM,
    THIS_SHELL,
    UNIX,
    USER,
    UV,
    WINDOWS,
    Action,
    Step,
    Trace,
)
from envcheck.model.activity import ActivityReading, GpuActivity, InstanceMemory, ProcessInfo, ProcessScan
from envcheck.model.codec import CodecError, decode, decode_as, encode
from envcheck.model.facts import (
    NOT_COLLECTED,
    NOT_STATED,
    SOURCE_KINDS,
    UNKNOWN_REASONS,
    Absent,
    Fact,
    Known,
    Source,
    Unknown,
    choose_reading,
    collect_tried,
    get_value,
    parse_fact,
)
from envcheck.model.findings import (
    COMPATIBLE,
    ERROR,
    INCOMPATIBLE,
    NOTE,
    UNDETERMINED,
    WARNING,
    Alternative,
    Citation,
    Evidence,
    Finding,
    Problem,
    Remedy,
    Report,
)
from envcheck.model.gpu_products import GpuProduct, GpuTable, PciProduct
from envcheck.model.machine import (
    SCHEMA_VERSION,
    CompilerFacts,
    DeviceNode,
    Distribution,
    DkmsModule,
    DriverFacts,
    Extension,
    Facts,
    FrameworkBuild,
    Gpu,
    GpuProcess,
    HostFacts,
    JupyterKernel,
    LibraryInstall,
    LibraryLookup,
    MigDevice,
    PythonFacts,
    Snapshot,
    ToolkitFacts,
    ToolkitInstall,
    mark_uncollected,
)
from envcheck.model.plans import Change, Clash, Environment, Plan, PlannedRelease, Rejected, RequirementSet
from envcheck.model.records import dataclass, field, list_fields, make_record, replace
from envcheck.model.releases import (
    Architecture,
    CondaBuild,
    CudnnRelease,
    DriverBranch,
    FrameworkRelease,
    KnownProblem,
    RemovedDistribution,
    TensorrtRelease,
    Toolkit,
)
from envcheck.model.text import escaped_in_json, inert
from envcheck.model.versions import at_least, at_least_minor, is_older, major, major_minor, numbers, same_release
