# docker build -t trimtab:0.1.0 .
#
# The base is named by its tag; for a build that can be repeated, add its digest:
#   docker build --build-arg BASE_DIGEST=sha256:<digest> -t trimtab:0.1.0 .
ARG BASE=python:3.11-slim-bookworm
ARG BASE_DIGEST=""

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY webhook webhook
COPY certs certs
RUN python -m pip wheel --no-deps --wheel-dir /wheels .
# The environment has no pip of its own: the builder's fills it from outside.
RUN python -m venv --without-pip /opt/trimtab \
    && python -m pip --python /opt/trimtab/bin/python install /wheels/trimtab-*.whl \
    && /opt/trimtab/bin/trimtab --help

FROM ${BASE}${BASE_DIGEST:+@${BASE_DIGEST}}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="trimtab" \
      org.opencontainers.image.description="A mutating admission webhook that steers Pod placement with the stock kube-scheduler" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# What only installs packages has no business where the server runs.
RUN python -m pip uninstall --yes --root-user-action=ignore setuptools wheel pip \
    && rm -rf /usr/local/lib/python3*/ensurepip
COPY --from=builder /opt/trimtab /opt/trimtab
ENV PATH=/opt/trimtab/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, because runAsNonRoot cannot tell whether a name is root.
USER 65532:65532
EXPOSE 10250 8081
ENTRYPOINT ["trimtab"]
CMD ["serve"]
