#!/bin/sh
set -eu
# tensorflow==2.12.* on the GPU: tensorflow==2.12.1

# Create an environment with Python 3.10.
python3.10 -m venv .venv

# Install tensorflow with what it needs.
.venv/bin/python -m pip install --only-binary=:all: tensorflow==2.12.1 'typing-extensions<4.6' 'setuptools<82' 'nvidia-cublas-cu11>=11.11,<12' 'nvidia-cuda-cupti-cu11>=11.8,<12' 'nvidia-cuda-nvcc-cu11>=11.8,<12' 'nvidia-cuda-runtime-cu11>=11.8,<12' 'nvidia-cufft-cu11>=10.9,<11' 'nvidia-curand-cu11>=10.3,<11' 'nvidia-cusolver-cu11>=11.4,<12' 'nvidia-cusparse-cu11>=11.7,<12' 'nvidia-cudnn-cu11>=8.6,<9'

# Put the environment's CUDA libraries on the loader's path when it is activated.
sh -c 'mkdir -p "$(dirname "$1")" && file=$1 && shift && printf "%s\n" "$@" > "$file"' sh .venv/bin/envcheck-cuda.sh '# Written by envcheck: the CUDA libraries of this environment, which its frameworks do not look for.' 'for envcheck_folder in "$VIRTUAL_ENV"/lib/python3.10/site-packages/nvidia/*/lib; do' '  LD_LIBRARY_PATH="$envcheck_folder""${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"' 'done; export LD_LIBRARY_PATH' 'unset envcheck_folder'

# Let the environment's activation read that file.
sh -c 'grep -qxF -- "$2" "$1" || printf "%s\n" "$2" >> "$1"' sh .venv/bin/activate '. "$VIRTUAL_ENV/bin/envcheck-cuda.sh"'

# See that each framework finds the GPU: tensorflow.
sh -c '. "$1" && exec python -c "$2"' sh .venv/bin/activate 'import tensorflow as t; from tensorflow.python.client import device_lib as l; d = [x.name for x in l.list_local_devices() if x.device_type == "GPU"]; print(t.__version__, d); assert d, "no GPU seen"'
