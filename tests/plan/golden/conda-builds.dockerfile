# syntax=docker/dockerfile:1
# torch==2.5.1
# The base is named by its tag, which moves: pin it by digest where builds must repeat.
FROM docker.io/condaforge/miniforge3:25.3.1-0
RUN ["useradd", "--create-home", "--uid", "10001", "app"]
USER app
WORKDIR /home/app
# Create a conda environment with Python 3.12.
RUN ["env", "CONDA_OVERRIDE_CUDA=12.4", "conda", "create", "-y", "-p", "/home/app/conda-env", "--override-channels", "-c", "conda-forge", "python=3.12", "pytorch=2.5.1=cuda*"]
ENV PATH=/home/app/conda-env/bin:$PATH CONDA_PREFIX=/home/app/conda-env
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# No public index has envcheck: give the URL of its wheel, or its name on your own index, with
# --build-arg ENVCHECK=...
ARG ENVCHECK
RUN ["/opt/conda/bin/python", "-m", "venv", "/home/app/.envcheck"]
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["sh", "-c", "exec \"$0\" -m pip install \"${ENVCHECK:?name its wheel with --build-arg}\"", "/home/app/.envcheck/bin/python"]
# The build fails if the image lacks what the project's [tool.envcheck] table requires.
COPY --chown=app pyproject.toml ./
# The machine that this is planned for: a build sees neither its driver nor its GPUs.
ARG ENVCHECK_DRIVER_RELEASE=550.54.14
ARG ENVCHECK_CUDA_DRIVER_VERSION=12.4
ARG ENVCHECK_COMPUTE_CAPABILITIES=8.9
RUN ["/home/app/.envcheck/bin/envcheck", "check", "--config", "pyproject.toml", "--env", "/home/app/conda-env"]
# Replace it by your program.
CMD ["/home/app/conda-env/bin/python"]
