# The image of the upload step: bkgen, git, and nothing that takes time to start.
#
# setup-cluster.sh builds it from the root of the repository and imports it into K3s's containerd. By hand:
#
#   docker build --file harness/bkgen.Dockerfile .
#
# Versions are pinned by tag and by bkgen-requirements.txt. To pin the very bytes of the base image, give
# --build-arg PYTHON_IMAGE=name:tag@sha256:… .
ARG PYTHON_IMAGE=python:3.12.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /opt/bkgen
ENV PATH=/opt/bkgen/bin:${PATH} \
    PIP_DISABLE_PIP_VERSION_CHECK=1
# Before bkgen itself, so that a change to bkgen does not fetch them again.
COPY harness/bkgen-requirements.txt ./
RUN pip install --no-cache-dir --requirement bkgen-requirements.txt
ARG HATCHLING_VERSION=1.33.0
RUN python -m venv /opt/builder \
    && /opt/builder/bin/pip install --no-cache-dir "hatchling==${HATCHLING_VERSION}"
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY bkgen bkgen
COPY templates templates
RUN /opt/builder/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /dist . \
    && pip install --no-cache-dir --no-deps /dist/*.whl \
    && pip check \
    && python -m compileall -q /opt/bkgen/lib

FROM ${PYTHON_IMAGE}
# Debian keeps only the newest version of each package, so that a pin breaks the build within weeks.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    # The base image comes without Python's own bytecode, and user 1000 cannot write it: each start would
    # compile what it imports anew.
    && python -m compileall -q /usr/local/lib/python3.12 \
    && useradd --uid 1000 --create-home bkgen \
    && git config --system --add safe.directory /workspace/build/buildkite \
    # A private repository: mount the secret with .git-credentials there. Only "get" is answered, for the
    # secret cannot be written.
    && git config --system credential.helper \
        "!f() { test \"\$1\" = get && git credential-store --file=/run/secrets/git/.git-credentials get; }; f"
COPY --from=build /opt/bkgen /opt/bkgen
ENV PATH=/opt/bkgen/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# By number: Kubernetes can only then tell that it is not root. bkgen fetches the base branch into the
# checkout, so the pod must name the same user (podSpec.securityContext.runAsUser: 1000); agent-stack-k8s
# then hands the checkout over to it.
USER 1000:1000
WORKDIR /workspace
# agent-stack-k8s puts the agent in this place; outside it, this is what the image is for.
CMD ["bkgen", "--help"]
