#!/bin/sh
# Builds kernel.fatbin with a CUDA 13.0 toolkit and sample.so with gcc; the tests read what was built once, on Debian 12.
set -e
cd "$(dirname "$0")"
nvcc -fatbin -rdc=true -o kernel.fatbin kernel.cu \
  -gencode arch=compute_75,code=sm_75 -gencode arch=compute_86,code=[sm_86,compute_86] \
  -gencode arch=compute_90a,code=[sm_90a,compute_90a] -gencode arch=compute_100f,code=sm_100f -gencode arch=compute_90,code=lto_90
gcc -shared -fPIC -Os -s -o sample.so sample.c -lm -Wl,-soname,libsample.so.1 -Wl,--enable-new-dtags \
  "-Wl,-rpath,\$ORIGIN/../nvidia/cudnn/lib:\$ORIGIN:\$ORIGIN" -Wl,-z,noseparate-code
