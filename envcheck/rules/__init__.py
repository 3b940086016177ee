"""Judge a snapshot: importing this room registers every rule."""

from envcheck.rules.catalogue import catalogue
from envcheck.rules.context import Context, Target
from envcheck.rules.engine import conclude, evaluate
from envcheck.rules.registry import RULES
from envcheck.rules.targets import TargetError

# Modules that hold rules, imported for their registration: one line each, alphabetical.
# isort: off
import envcheck.rules.cuda_wheel_conflict
import envcheck.rules.cuda_wheels
import envcheck.rules.cudnn
import envcheck.rules.cudnn_headers
import envcheck.rules.dependencies
import envcheck.rules.driver_container
import envcheck.rules.driver_fabric
import envcheck.rules.driver_floor
import envcheck.rules.driver_library
import envcheck.rules.driver_nodes
import envcheck.rules.driver_start
import envcheck.rules.driver_state
import envcheck.rules.driver_wsl
import envcheck.rules.environment_mix
import envcheck.rules.extensions
import envcheck.rules.framework_presence
import envcheck.rules.framework_releases
import envcheck.rules.gpu_architecture
import envcheck.rules.hardware
import envcheck.rules.host_compiler
import envcheck.rules.python_interpreter
import envcheck.rules.release_unknown
import envcheck.rules.runtime
import envcheck.rules.toolkit
import envcheck.rules.toolkit_paths
import envcheck.rules.toolkit_tools
import envcheck.rules.unanswered
import envcheck.rules.visible_devices
import envcheck.rules.windows_runtime
# isort: on

__all__ = ["RULES", "Context", "Target", "TargetError", "catalogue", "conclude", "evaluate"]
