# The image of the tests: compilers for the host's GPUs, Python 3.12, uv, git. No engine and nothing of the
# repository: those change with every commit and are installed by setup-env.sh.
#
# setup-cluster.sh builds it and imports it into K3s's containerd. By hand:
#
#   docker build --file harness/ci-base.Dockerfile --build-arg GPU_ARCH_LIST=9.0 harness
#
# Versions are pinned by tag. To pin the very bytes, give name:tag@sha256:… for either image below.
ARG BASE_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG UV_IMAGE=ghcr.io/astral-sh/uv:0.9.30

FROM ${UV_IMAGE} AS uv

FROM ${BASE_IMAGE}

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive

# Versions of Debian packages are not pinned: the archive keeps only the newest of each, so that a pin
# breaks the build within weeks. The tag of the base image says which release they come from.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        build-essential \
        ca-certificates \
        ccache \
        cmake \
        curl \
        git \
        git-lfs \
        iproute2 \
        jq \
        lsof \
        ninja-build \
        openssh-client \
        pciutils \
        procps \
        python3 \
        python3-dev \
        python3-venv \
        tzdata \
    && rm -rf /var/lib/apt/lists/*

COPY --from=uv /uv /uvx /usr/local/bin/

# The build stops here when a newer base image brings another Python.
RUN python3 -c 'import sys; assert sys.version_info[:2] == (3, 12), sys.version' \
    && uv venv --python /usr/bin/python3 /opt/venv
ENV VIRTUAL_ENV=/opt/venv \
    PATH=/opt/venv/bin:${PATH} \
    UV_LINK_MODE=copy

# The one directory in which the agent checks out. It belongs to whoever the checkout container ran as, and
# git refuses to look at another user's repository.
RUN git config --system --add safe.directory /workspace/build/buildkite

# The base image asks for every GPU of the host. A pod that requests GPUs gets its own in place of this one,
# and a pod that requests none sees none.
ENV NVIDIA_VISIBLE_DEVICES=void

# What extensions are compiled for; each vendor's tools read their own name.
ARG GPU_ARCH_LIST=
ENV TORCH_CUDA_ARCH_LIST=${GPU_ARCH_LIST} \
    PYTORCH_ROCM_ARCH=${GPU_ARCH_LIST}

# Root, on purpose. agent-stack-k8s checks the repository out as root and hands it over to another user only
# if the pod names one (podSpec.securityContext.runAsUser); with a USER here and none in the pod, a test
# could not write into its own checkout. The virtual environment belongs to user 1000, so that a pod may
# name that one.
RUN chown -R 1000:1000 /opt/venv
WORKDIR /workspace
