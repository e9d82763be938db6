"""Names that stand for secrets, and values that must not be written out under them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from bkgen.verify.finding import Finding, Path, error
from bkgen.verify.values import MATRIX_TOKEN

# Source: Buildkite's agent, the variables whose literal values it refuses in an upload.
_OF_AGENT = (
    "_PASSWORD",
    "_SECRET",
    "_TOKEN",
    "_PRIVATE_KEY",
    "_SSH_KEY",
    "_ACCESS_KEY",
    "_SECRET_KEY",
    "_CONNECTION_STRING",
    "_API_KEY",
)
_ALONE = frozenset(
    {"token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "pat", "apikey"}
)
_KEYS = frozenset(
    {"api", "access", "account", "auth", "deploy", "encryption", "gpg", "private", "secret", "signing", "ssh"}
)
# PAD_TOKEN and the like are a tokenizer's, and TIME_TO_FIRST_TOKEN is a measure.
_OF_MODEL = frozenset(
    {
        "bos",
        "cls",
        "eos",
        "first",
        "image",
        "last",
        "mask",
        "next",
        "pad",
        "per",
        "sep",
        "special",
        "stop",
        "unk",
    }
)
# What may follow without making it another thing: DEPLOY_TOKEN_PROD is a secret, TOKEN_COUNT is not.
_WHICH = frozenset(
    {"b64", "base64", "new", "old", "prod", "production", "read", "ro", "rw", "staging", "write"}
)
_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
_VARIABLE_ALONE = r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})"
_PATH = r"(?:~|\.{0,2})/[\w./-]+"
_PATTERN = r".*[*?()\[\]|^/\s].*"
_SECRET_MIN = 6


def _is_of_agent(name: str) -> bool:
    return name.endswith(_OF_AGENT)


@lru_cache(maxsize=1024)
def is_secret_name(name: str) -> bool:
    """A name that Buildkite's agent takes for a secret's, or whose last words say that it is."""
    if _is_of_agent(name):
        return True
    words = [word.lower() for word in re.findall(_WORD, name)]
    while words and (words[-1] in _WHICH or words[-1].isdigit()):
        words.pop()
    if not words:
        return False
    before = words[-2] if len(words) > 1 else ""
    if words[-1] == "token":
        return before not in _OF_MODEL
    return words[-1] in _ALONE or (words[-1] == "key" and before in _KEYS)


def secret_finding(name: str, value: object, path: Path, *, interpolate: bool) -> Iterator[Finding]:
    """The finding for a variable that `is_secret_name`, and has its value written out.

    A value is never repeated in the message. A bare variable is no literal, unless the upload fills it in.
    """
    text = value if isinstance(value, str) else str(value)
    if len(text.encode("utf-8", "replace")) < _SECRET_MIN or MATRIX_TOKEN.search(text):
        return
    alone = re.fullmatch(_VARIABLE_ALONE, text)
    if alone:
        # A variable that is itself named like a secret is found wherever the upload fills it in.
        if interpolate and not is_secret_name(alone[1] or alone[2]):
            yield uploaded_secret(name, path)
        return
    if not _is_of_agent(name) and _is_no_secret(name, text):
        return
    message = f"{name} is named like a secret, and its value is written out"
    hint = "use the step's secrets, or a secretKeyRef in the pod; rename it if it is none"
    yield error("env-secret-literal", path, message, hint)


def _is_no_secret(name: str, text: str) -> bool:
    """The place of a secret is none, and neither is a pattern, which `pat` may stand for as well."""
    is_pattern = "pat" in name.lower().split("_") and re.fullmatch(_PATTERN, text)
    return bool(is_pattern or re.fullmatch(_PATH, text))


def uploaded_secret(name: str, path: Path) -> Finding:
    """The finding for a secret that the upload fills in; `name` is its variable's."""
    message = f"{name} is filled in at upload: the secret's value goes into the build"
    hint = "read it in the job: secrets, or secretKeyRef in the pod; in a command write $$ for the dollar"
    return error("env-secret-uploaded", path, message, hint)
