"""Whom to ask about which repository with which token, out of the environment."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from bkgen.build import normalise_repository
from bkgen.changes import printable
from bkgen.errors import UserError

DEFAULT_API = "https://api.github.com"
_HOSTS = frozenset({"github.com", "www.github.com", "ssh.github.com"})


def api_of(environ: Mapping[str, str], host: str, token: str | None) -> str:
    """The API's address for a repository on `host`. UserError where nobody may or can be asked."""
    api = environ.get("GITHUB_API_URL", "").strip().rstrip("/")
    if not api and host not in _HOSTS:
        # The token of one's own GitHub is not shown to the public one.
        raise UserError.single(
            "github-api-unknown",
            f"the repository is on {printable(host)}, and GITHUB_API_URL does not say where its API is",
            f"set GITHUB_API_URL, for GitHub Enterprise to https://{printable(host)}/api/v3",
        )
    problem = _problem(api or DEFAULT_API, token)
    if problem:
        raise UserError.single(
            "github-api-url",
            f"GITHUB_API_URL cannot be used: {problem}",
            f"set it to the API's address, such as {DEFAULT_API}",
        )
    return api or DEFAULT_API


def _problem(api: str, token: str | None) -> str | None:
    try:
        parts = urlsplit(api)
        _ = parts.port
    except ValueError:
        return "it is no address"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "it must begin with https:// and a host"
    if not re.fullmatch(r"[!-~]+", api) or parts.username is not None or parts.query or parts.fragment:
        return "it holds more than a host and a path"
    if parts.scheme == "http" and token is not None and not _is_loopback(parts.hostname):
        return "a token is not sent over plain HTTP"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def repository_of(url: str | None) -> tuple[str, str]:
    """Host and `owner/name` of a repository's URL. UserError where it has none."""
    if not url:
        raise UserError.single(
            "github-repository",
            "BUILDKITE_REPO does not say which repository's checks to ask for",
            "run this in a Buildkite job, or set BUILDKITE_REPO to the repository's URL",
        )
    parts = normalise_repository(url).split("/")
    if len(parts) < 3 or not all(re.fullmatch(r"[A-Za-z0-9_.-]+", part) for part in parts[-2:]):
        raise UserError.single(
            "github-repository",
            f"BUILDKITE_REPO is '{printable('/'.join(parts))}', which is no HOST/OWNER/NAME",
            "set it to the repository's URL on GitHub",
        )
    return parts[0], "/".join(parts[-2:])


def token_of(environ: Mapping[str, str]) -> str | None:
    """`BKGEN_GITHUB_TOKEN`, else `GITHUB_TOKEN`, else None. UserError for one that fits in no header."""
    for name in ("BKGEN_GITHUB_TOKEN", "GITHUB_TOKEN"):
        token = environ.get(name, "").strip()
        if token and not re.fullmatch(r"[!-~]+", token):
            raise UserError.single(
                "github-token",
                f"{name} holds blanks or odd characters in its middle, so it is no token",
                "set it to the token alone",
            )
        if token:
            return token
    return None
