# syntax=docker/dockerfile:1
# torch==2.7.1+cu118
FROM docker.io/library/python:3.11-slim-trixie
RUN ["useradd", "--create-home", "--uid", "10001", "app"]
USER app
WORKDIR /home/app
# Create an environment with Python 3.11.
RUN ["python", "-m", "venv", "/home/app/venv"]
# Install torch with what it needs from an index of its own.
RUN --mount=type=cache,target=/home/app/.cache,uid=10001 ["uv", "pip", "install", "--python", "/home/app/venv/bin/python", "--only-binary", ":all:", "--default-index", "https://download.pytorch.org/whl/cu118", "torch==2.7.1+cu118"]
ENV PATH=/home/app/venv/bin:$PATH VIRTUAL_ENV=/home/app/venv
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# The image is not built where it does not hold what [tool.envcheck] of the project requires.
COPY --chown=app pyproject.toml ./
RUN ["python", "-m", "venv", "/home/app/.envcheck"]
RUN ["/home/app/.envcheck/bin/python", "-m", "pip", "install", "envcheck-gpu"]
RUN ["/home/app/.envcheck/bin/envcheck", "check", "--config", "pyproject.toml", "--env", "/home/app/venv"]
