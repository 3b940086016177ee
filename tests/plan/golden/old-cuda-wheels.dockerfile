# syntax=docker/dockerfile:1
# tensorflow==2.12.*
# The base is named by its tag, which moves: pin it by digest where builds must repeat.
FROM docker.io/library/python:3.10-slim-trixie
RUN ["useradd", "--create-home", "--uid", "10001", "app"]
USER app
WORKDIR /home/app
# Create an environment with Python 3.10.
RUN ["python", "-m", "venv", "/home/app/venv"]
# Install tensorflow and its dependencies.
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["/home/app/venv/bin/python", "-m", "pip", "install", "--only-binary=:all:", "tensorflow==2.12.1", "typing-extensions<4.6", "setuptools<82", "nvidia-cublas-cu11>=11.11,<12", "nvidia-cuda-cupti-cu11>=11.8,<12", "nvidia-cuda-nvcc-cu11>=11.8,<12", "nvidia-cuda-runtime-cu11>=11.8,<12", "nvidia-cufft-cu11>=10.9,<11", "nvidia-curand-cu11>=10.3,<11", "nvidia-cusolver-cu11>=11.4,<12", "nvidia-cusparse-cu11>=11.7,<12", "nvidia-cudnn-cu11>=8.6,<9"]
# Write what runs a command with the environment's CUDA libraries on the loader's path.
RUN ["sh", "-c", "file=$1; shift; printf \"%s\\n\" \"$@\" > \"$file\"", "sh", "/home/app/venv/bin/envcheck-cuda", "# Written by envcheck: runs a command with the CUDA libraries of this environment.", "add() {", "  for folder; do", "    case \":${LD_LIBRARY_PATH-}:\" in *\":$folder:\"*) continue ;; esac", "    [ ! -d \"$folder\" ] || LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", "  done", "}", "prefix=$(CDPATH=\"\" cd -- \"$(dirname -- \"$0\")/..\" && pwd)", "add \"$prefix\"/lib/python3.10/site-packages/nvidia/*/lib", "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH-}\"", "exec \"$@\""]
# Let the environment's activation use it, until `deactivate`, in sh, bash, zsh and ksh.
RUN ["sh", "-c", "file=$1; shift; grep -qxF -- \"$1\" \"$file\" || printf \"%s\\n\" \"$@\" >> \"$file\"", "sh", "/home/app/venv/bin/activate", "# envcheck: begin CUDA libraries", "_envcheck_leave() {", "  [ -n \"${_envcheck_old+x}\" ] || return 0", "  unset LD_LIBRARY_PATH", "  [ -z \"$_envcheck_old\" ] || export LD_LIBRARY_PATH=\"${_envcheck_old#x}\"", "  unset _envcheck_old", "}", "_envcheck_leave", "_envcheck_old=${LD_LIBRARY_PATH+x$LD_LIBRARY_PATH}", "LD_LIBRARY_PATH=$(sh \"$VIRTUAL_ENV/bin/envcheck-cuda\" printenv LD_LIBRARY_PATH)", "export LD_LIBRARY_PATH", "eval \"$(sed -n \"/^ *#/d; s/^deactivate () {/& _envcheck_leave;/; /^deactivate () {/,/^}/p\" \"$VIRTUAL_ENV/bin/activate\")\"", "# envcheck: end CUDA libraries"]
ENV PATH=/home/app/venv/bin:$PATH VIRTUAL_ENV=/home/app/venv
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENTRYPOINT ["sh", "/home/app/venv/bin/envcheck-cuda"]
# No public index has envcheck: give the URL of its wheel, or its name on your own index, with
# --build-arg ENVCHECK=...
ARG ENVCHECK
RUN ["python", "-m", "venv", "/home/app/.envcheck"]
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["sh", "-c", "exec \"$0\" -m pip install \"${ENVCHECK:?name its wheel with --build-arg}\"", "/home/app/.envcheck/bin/python"]
# The build fails if the image lacks what the project's [tool.envcheck] table requires.
COPY --chown=app pyproject.toml ./
# The machine that this is planned for: a build sees neither its driver nor its GPUs.
ARG ENVCHECK_DRIVER_RELEASE=535.104.05
ARG ENVCHECK_CUDA_DRIVER_VERSION=12.2
ARG ENVCHECK_COMPUTE_CAPABILITIES=7.0
RUN ["sh", "/home/app/venv/bin/envcheck-cuda", "/home/app/.envcheck/bin/envcheck", "check", "--config", "pyproject.toml", "--env", "/home/app/venv"]
# Replace it by your program.
CMD ["/home/app/venv/bin/python"]
