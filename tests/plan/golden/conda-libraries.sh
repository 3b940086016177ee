#!/bin/sh
set -eu
trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and the steps after it did not run." >&2' EXIT
# tensorflow-gpu==1.15.* on the GPU: tensorflow-gpu==1.15.5

# Create a conda environment with Python 3.7 and the CUDA libraries.
env CONDA_OVERRIDE_CUDA=11.4 conda create -y -p ./.conda-env --override-channels -c conda-forge python=3.7 pip cudatoolkit=10.0 cudnn=7.6

# Upgrade pip: the wheels need pip 19.0 or newer.
.conda-env/bin/python -m pip install --upgrade 'pip<24.1'

# Install tensorflow-gpu and its dependencies.
.conda-env/bin/python -m pip install --only-binary=:all: --no-binary=gast tensorflow-gpu==1.15.5 'protobuf<3.21'

# Write what runs a command with the environment's CUDA libraries on the loader's path.
cat > .conda-env/bin/envcheck-cuda <<'END'
# Written by envcheck: runs a command with the CUDA libraries of this environment.
add() {
  for folder; do
    case ":${LD_LIBRARY_PATH-}:" in *":$folder:"*) continue ;; esac
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
}
prefix=$(CDPATH="" cd -- "$(dirname -- "$0")/.." && pwd)
add "$prefix"/lib
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}"
exec "$@"
END

# Let the environment's activation use it, in sh, bash, zsh and ksh.
mkdir -p -- .conda-env/etc/conda/activate.d && cat > .conda-env/etc/conda/activate.d/envcheck-cuda.sh <<'END'
# Written by envcheck: the CUDA libraries of this environment.
unset _ENVCHECK_BEFORE
[ -z "${LD_LIBRARY_PATH+x}" ] || export _ENVCHECK_BEFORE="$LD_LIBRARY_PATH"
LD_LIBRARY_PATH=$(sh "$CONDA_PREFIX/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
export LD_LIBRARY_PATH
END

# Let leaving the environment take that back, in sh, bash, zsh and ksh.
mkdir -p -- .conda-env/etc/conda/deactivate.d && cat > .conda-env/etc/conda/deactivate.d/envcheck-cuda.sh <<'END'
# Written by envcheck: what its activation changed.
unset LD_LIBRARY_PATH
[ -z "${_ENVCHECK_BEFORE+x}" ] || export LD_LIBRARY_PATH="$_ENVCHECK_BEFORE"
unset _ENVCHECK_BEFORE
END

# Check that tensorflow finds the GPU.
conda run -p ./.conda-env python -c 'import tensorflow as t; from tensorflow.python.client import device_lib as l; d = [x.name for x in l.list_local_devices() if x.device_type == "GPU"]; print(t.__version__, d); assert d, "no GPU seen"'
