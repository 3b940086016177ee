# syntax=docker/dockerfile:1
# The project's own images. `docker run --rm --gpus all envcheck` judges what a container gets of its host; the target
# `tensorflow` has TensorFlow beside it: `docker build --target tensorflow .`, then `docker run … smoke`.
FROM python:3.12-slim AS build
WORKDIR /src
# Dependencies first: a change of envcheck itself leaves their layer as it is.
COPY pyproject.toml ./
RUN python -m venv /opt/envcheck \
 && python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" > needed.txt \
 && /opt/envcheck/bin/pip install --no-cache-dir -r needed.txt
COPY README.md LICENSE hatch_build.py ./
COPY envcheck ./envcheck
COPY data ./data
RUN /opt/envcheck/bin/pip install --no-cache-dir --no-deps .

FROM python:3.12-slim AS doctor
ARG VERSION="" REVISION="" SOURCE=""
LABEL org.opencontainers.image.title="envcheck" \
      org.opencontainers.image.description="Say whether GPU deep learning works on this machine, what is wrong, why, and what to type." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE"
COPY --from=build /opt/envcheck /opt/envcheck
ENV PATH=/opt/envcheck/bin:$PATH
# The NVIDIA runtime gives a container its GPUs when it asks for them (https://docs.nvidia.com/datacenter/cloud-native/).
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home app
USER app
ENTRYPOINT ["envcheck"]
CMD ["doctor"]

FROM doctor AS tensorflow
USER root
RUN python -m venv /opt/tensorflow && /opt/tensorflow/bin/pip install --no-cache-dir 'tensorflow[and-cuda]'
# The active environment is the one that is judged.
ENV VIRTUAL_ENV=/opt/tensorflow
USER app

# The last stage is what `docker build .` makes.
FROM doctor
