#!/bin/sh
set -eu
trap 'test "$?" -eq 0 || echo "Stopped: a step failed, and the steps after it did not run." >&2' EXIT
# torch==2.7.1+cu118 on the GPU: torch==2.7.1+cu118

# Create an environment with Python 3.11.
uv venv --allow-existing --python 3.11 .venv

# Install torch and its dependencies from PyTorch's package index.
uv pip install --python .venv/bin/python --only-binary :all: --default-index https://download.pytorch.org/whl/cu118 torch==2.7.1+cu118

# Check that torch finds the GPU.
.venv/bin/python -c 'import torch as t; d = [t.cuda.get_device_name(i) for i in range(t.cuda.device_count())]; print(t.__version__, d); assert d, "no GPU seen"'
