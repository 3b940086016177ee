# syntax=docker/dockerfile:1
# The project's own image: `docker run --rm --gpus all envcheck doctor` judges what a container gets of its host.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY envcheck ./envcheck
COPY data ./data
RUN python -m venv /opt/envcheck && /opt/envcheck/bin/pip install --no-cache-dir .

FROM python:3.12-slim
COPY --from=build /opt/envcheck /opt/envcheck
ENV PATH=/opt/envcheck/bin:$PATH
# The NVIDIA runtime gives a container its GPUs when it asks for them (https://docs.nvidia.com/datacenter/cloud-native/).
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home app
USER app
ENTRYPOINT ["envcheck"]
CMD ["doctor"]
