#!/bin/sh
set -eu
trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and the steps after it did not run." >&2' EXIT
# tensorflow==2.12.* on the GPU: tensorflow==2.12.1

# Create an environment with Python 3.10.
python3.10 -m venv .venv

# Install tensorflow and its dependencies.
.venv/bin/python -m pip install --only-binary=:all: tensorflow==2.12.1 'typing-extensions<4.6' 'setuptools<82' 'nvidia-cublas-cu11>=11.11,<12' 'nvidia-cuda-cupti-cu11>=11.8,<12' 'nvidia-cuda-nvcc-cu11>=11.8,<12' 'nvidia-cuda-runtime-cu11>=11.8,<12' 'nvidia-cufft-cu11>=10.9,<11' 'nvidia-curand-cu11>=10.3,<11' 'nvidia-cusolver-cu11>=11.4,<12' 'nvidia-cusparse-cu11>=11.7,<12' 'nvidia-cudnn-cu11>=8.6,<9'

# Write what runs a command with the environment's CUDA libraries on the loader's path.
cat > .venv/bin/envcheck-cuda <<'END'
# Written by envcheck: runs a command with the CUDA libraries of this environment.
add() {
  for folder; do
    case ":${LD_LIBRARY_PATH-}:" in *":$folder:"*) continue ;; esac
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
}
prefix=$(CDPATH="" cd -- "$(dirname -- "$0")/.." && pwd)
add "$prefix"/lib/python3.10/site-packages/nvidia/*/lib
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}"
exec "$@"
END

# Let the environment's activation use it, until `deactivate`, in sh, bash, zsh and ksh.
grep -qxF -- '# envcheck: begin CUDA libraries' .venv/bin/activate || cat >> .venv/bin/activate <<'END'
# envcheck: begin CUDA libraries
_envcheck_leave() {
  [ -n "${_envcheck_old+x}" ] || return 0
  unset LD_LIBRARY_PATH
  [ -z "$_envcheck_old" ] || export LD_LIBRARY_PATH="${_envcheck_old#x}"
  unset _envcheck_old
}
_envcheck_leave
_envcheck_old=${LD_LIBRARY_PATH+x$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=$(sh "$VIRTUAL_ENV/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
export LD_LIBRARY_PATH
eval "$(sed -n "/^ *#/d; s/^deactivate () {/& _envcheck_leave;/; /^deactivate () {/,/^}/p" "$VIRTUAL_ENV/bin/activate")"
# envcheck: end CUDA libraries
END

# Check that tensorflow finds the GPU.
sh -c '. "$1" && exec python -c "$2"' sh .venv/bin/activate 'import tensorflow as t; from tensorflow.python.client import device_lib as l; d = [x.name for x in l.list_local_devices() if x.device_type == "GPU"]; print(t.__version__, d); assert d, "no GPU seen"'
