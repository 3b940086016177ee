#!/bin/sh
set -eu
# tensorflow-gpu==1.15.* on the GPU: tensorflow-gpu==1.15.5

# Create a conda environment with Python 3.7 and the CUDA libraries.
CONDA_OVERRIDE_CUDA=11.4 conda create -y -p .conda-env --override-channels -c conda-forge python=3.7 pip cudatoolkit=10.0 cudnn=7.6

# Bring pip up to date: the wheels need pip 19.0 or newer.
.conda-env/bin/python -m pip install --upgrade 'pip<24.1'

# Install tensorflow-gpu with what it needs.
.conda-env/bin/python -m pip install --only-binary=:all: --no-binary=gast tensorflow-gpu==1.15.5 'protobuf<3.21'

# Put the environment's CUDA libraries on the loader's path when it is activated.
sh -c 'mkdir -p "$(dirname "$1")" && file=$1 && shift && printf "%s\n" "$@" > "$file"' sh .conda-env/etc/conda/activate.d/envcheck-cuda.sh '# Written by envcheck: the CUDA libraries of this environment, which its frameworks do not look for.' 'LD_LIBRARY_PATH="'"$CONDA_PREFIX"'"/lib"${LD_LIBRARY_PATH:+:'"$LD_LIBRARY_PATH"'}"' 'export LD_LIBRARY_PATH'

# See that each framework finds the GPU: tensorflow.
conda run -p .conda-env python -c 'import tensorflow as t; from tensorflow.python.client import device_lib as l; d = [x.name for x in l.list_local_devices() if x.device_type == "GPU"]; print(t.__version__, d); assert d, "no GPU seen"'
