# syntax=docker/dockerfile:1
# tensorflow-gpu==1.15.*
# The base is named by its tag, which moves: pin it by digest where builds must repeat.
FROM docker.io/condaforge/miniforge3:25.3.1-0
RUN ["useradd", "--create-home", "--uid", "10001", "app"]
USER app
WORKDIR /home/app
# Create a conda environment with Python 3.7 and the CUDA libraries.
RUN ["env", "CONDA_OVERRIDE_CUDA=11.4", "conda", "create", "-y", "-p", "/home/app/conda-env", "--override-channels", "-c", "conda-forge", "python=3.7", "pip", "cudatoolkit=10.0", "cudnn=7.6"]
# Upgrade pip: the wheels need pip 19.0 or newer.
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["/home/app/conda-env/bin/python", "-m", "pip", "install", "--upgrade", "pip<24.1"]
# Install tensorflow-gpu and its dependencies.
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["/home/app/conda-env/bin/python", "-m", "pip", "install", "--only-binary=:all:", "--no-binary=gast", "tensorflow-gpu==1.15.5", "protobuf<3.21"]
# Write what runs a command with the environment's CUDA libraries on the loader's path.
RUN ["sh", "-c", "file=$1; shift; printf \"%s\\n\" \"$@\" > \"$file\"", "sh", "/home/app/conda-env/bin/envcheck-cuda", "# Written by envcheck: runs a command with the CUDA libraries of this environment.", "add() {", "  for folder; do", "    case \":${LD_LIBRARY_PATH-}:\" in *\":$folder:\"*) continue ;; esac", "    [ ! -d \"$folder\" ] || LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", "  done", "}", "prefix=$(CDPATH=\"\" cd -- \"$(dirname -- \"$0\")/..\" && pwd)", "add \"$prefix\"/lib", "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH-}\"", "exec \"$@\""]
# Let the environment's activation use it, in sh, bash, zsh and ksh.
RUN ["sh", "-c", "file=$1; shift; mkdir -p -- \"${file%/*}\" && printf \"%s\\n\" \"$@\" > \"$file\"", "sh", "/home/app/conda-env/etc/conda/activate.d/envcheck-cuda.sh", "# Written by envcheck: the CUDA libraries of this environment.", "unset _ENVCHECK_BEFORE", "[ -z \"${LD_LIBRARY_PATH+x}\" ] || export _ENVCHECK_BEFORE=\"$LD_LIBRARY_PATH\"", "LD_LIBRARY_PATH=$(sh \"$CONDA_PREFIX/bin/envcheck-cuda\" printenv LD_LIBRARY_PATH)", "export LD_LIBRARY_PATH"]
# Let leaving the environment take that back, in sh, bash, zsh and ksh.
RUN ["sh", "-c", "file=$1; shift; mkdir -p -- \"${file%/*}\" && printf \"%s\\n\" \"$@\" > \"$file\"", "sh", "/home/app/conda-env/etc/conda/deactivate.d/envcheck-cuda.sh", "# Written by envcheck: what its activation changed.", "unset LD_LIBRARY_PATH", "[ -z \"${_ENVCHECK_BEFORE+x}\" ] || export LD_LIBRARY_PATH=\"$_ENVCHECK_BEFORE\"", "unset _ENVCHECK_BEFORE"]
ENV PATH=/home/app/conda-env/bin:$PATH CONDA_PREFIX=/home/app/conda-env
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["sh", "/home/app/conda-env/bin/envcheck-cuda"]
# No public index has envcheck: give the URL of its wheel, or its name on your own index, with
# --build-arg ENVCHECK=...
ARG ENVCHECK
RUN ["/opt/conda/bin/python", "-m", "venv", "/home/app/.envcheck"]
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["sh", "-c", "exec \"$0\" -m pip install \"${ENVCHECK:?name its wheel with --build-arg}\"", "/home/app/.envcheck/bin/python"]
# The build fails if the image lacks what the project's [tool.envcheck] table requires.
COPY --chown=app pyproject.toml ./
# The machine that this is planned for: a build sees neither its driver nor its GPUs.
ARG ENVCHECK_DRIVER_RELEASE=470.256.02
ARG ENVCHECK_CUDA_DRIVER_VERSION=11.4
ARG ENVCHECK_COMPUTE_CAPABILITIES=6.1
RUN ["sh", "/home/app/conda-env/bin/envcheck-cuda", "/home/app/.envcheck/bin/envcheck", "check", "--config", "pyproject.toml", "--env", "/home/app/conda-env"]
# Replace it by your program.
CMD ["/home/app/conda-env/bin/python"]
