# syntax=docker/dockerfile:1
# torch==2.7.1+cu118
# The base is named by its tag, which moves: pin it by digest where builds must repeat.
FROM docker.io/library/python:3.11-slim-trixie
COPY --from=ghcr.io/astral-sh/uv:0.9.26 /uv /usr/local/bin/uv
RUN ["useradd", "--create-home", "--uid", "10001", "app"]
USER app
WORKDIR /home/app
# Create an environment with Python 3.11.
RUN ["python", "-m", "venv", "/home/app/venv"]
# Install torch and its dependencies from PyTorch's package index.
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["uv", "pip", "install", "--python", "/home/app/venv/bin/python", "--only-binary", ":all:", "--default-index", "https://download.pytorch.org/whl/cu118", "torch==2.7.1+cu118"]
ENV PATH=/home/app/venv/bin:$PATH VIRTUAL_ENV=/home/app/venv
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
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
ARG ENVCHECK_COMPUTE_CAPABILITIES=8.9
RUN ["/home/app/.envcheck/bin/envcheck", "check", "--config", "pyproject.toml", "--env", "/home/app/venv"]
# Replace it by your program.
CMD ["/home/app/venv/bin/python"]
