# One run by default: docker run --rm --read-only -v markets:/data -e EXPORTER_RPC_URLS=... IMAGE
# `serve --host 0.0.0.0` keeps running, and is healthy for as long as the tree is fresh.
#
# The base is pinned by its exact tag. Its digest could not be looked up where this file was written: add the one that
# you pulled (`docker image inspect`) to make a build repeatable to the byte.
FROM python:3.13.12-slim-bookworm AS build
WORKDIR /opt/exporter
COPY requirements/runtime.lock requirements/build.lock requirements/
RUN python -m venv .venv \
    && .venv/bin/python -m pip install --no-cache-dir --require-hashes --only-binary :all: \
        -r requirements/runtime.lock -r requirements/build.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY exporter exporter
COPY site_templates site_templates
RUN .venv/bin/python -m pip install --no-cache-dir --no-index --no-deps --no-build-isolation .

FROM python:3.13.12-slim-bookworm
RUN useradd --uid 10001 --no-create-home exporter && install -d -o exporter -g exporter /data
COPY --from=build /opt/exporter/.venv /opt/exporter/.venv
ENV PATH=/opt/exporter/.venv/bin:$PATH \
    EXPORTER_OUT=/data/public \
    EXPORTER_REPORT=/data/run-report.json
USER 10001:10001
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=5m --timeout=30s --start-period=15m CMD ["exporter", "status", "/data/public"]
ENTRYPOINT ["exporter"]
CMD ["run"]
