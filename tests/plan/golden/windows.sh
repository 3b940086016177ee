# For PowerShell: save it as setup.ps1, then type: powershell -ExecutionPolicy Bypass -File setup.ps1
# tensorflow==2.10.* on the GPU: tensorflow==2.10.1
$ErrorActionPreference = 'Continue'
$PSNativeCommandArgumentPassing = 'Legacy'
trap { Write-Host $_; exit 1 }

# Create a conda environment with Python 3.10 and the CUDA libraries.
conda create -y -p .\.conda-env --override-channels -c conda-forge python=3.10 pip cudatoolkit=11.2 cudnn=8.1
if ($LASTEXITCODE) { exit $LASTEXITCODE }

# Install tensorflow and its dependencies.
.conda-env\python.exe -m pip install --only-binary=:all: tensorflow==2.10.1 'setuptools<82' 'numpy<2'
if ($LASTEXITCODE) { exit $LASTEXITCODE }

# Check that tensorflow finds the GPU.
conda run -p .\.conda-env python -c '"import tensorflow as t; from tensorflow.python.client import device_lib as l; d = [x.name for x in l.list_local_devices() if x.device_type == ''GPU'']; print(t.__version__, d); assert d, ''no GPU seen''"'
if ($LASTEXITCODE) { exit $LASTEXITCODE }
