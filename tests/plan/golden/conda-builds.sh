#!/bin/sh
set -eu
trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and the steps after it did not run." >&2' EXIT
# torch==2.5.1 on the GPU: torch==2.5.1

# Create a conda environment with Python 3.12.
env CONDA_OVERRIDE_CUDA=12.4 conda create -y -p ./.conda-env --override-channels -c conda-forge python=3.12 'pytorch=2.5.1=cuda*'

# Check that torch finds the GPU.
.conda-env/bin/python -c 'import torch as t; d = [t.cuda.get_device_name(i) for i in range(t.cuda.device_count())]; print(t.__version__, d); assert d, "no GPU seen"'
