"""Is this command a test, and does that one end well whatever happened before it?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bkgen.check.shell import AndOr, Compound, Node, Simple, commands

_PROGRAMS = frozenset({"pytest", "py.test", "tox", "nox", "ctest", "bats", "gotestsum", "lm_eval", "lm-eval"})
_MODULES = frozenset({"pytest", "unittest", "tox", "nox", "lm_eval"})
_SUBCOMMANDS = {
    "go": {"test"}, "cargo": {"test", "nextest"}, "npm": {"test"}, "yarn": {"test"}, "pnpm": {"test"},
    "make": {"test", "tests", "check"}, "bazel": {"test"}, "dotnet": {"test"}, "mvn": {"test", "verify"},
}  # fmt: skip
_RUNNERS = frozenset({"uv", "poetry", "pipenv", "hatch", "pdm", "rye"})
_INTERPRETERS = frozenset({"bash", "sh", "zsh", "dash", "source", "."})
_TRANSPARENT = frozenset(
    {"command", "exec", "time", "nohup", "sudo", "stdbuf", "setsid", "xvfb-run", "unbuffer"}
)
_TAKES_VALUE = {"timeout": {"-k", "--kill-after", "-s", "--signal"}, "nice": {"-n", "--adjustment"}}
_ONLY_ASKS = frozenset({"--version", "-V", "--help", "-h", "--collect-only", "--co", "--fixtures"})
_SCRIPT = re.compile(r"(?:.*[_.-])?(?:run|test|tests|check)(?:[_.-].*)?\.(?:sh|py|bash)", re.IGNORECASE)
_SURE_SCRIPT = re.compile(
    r"run(?:[_-](?:all[_-])?tests?.*)?\.(?:sh|bash|py)|tests?\.(?:sh|bash|py)|test_.*\.py|.*_test\.(?:py|sh)"
)
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def unwrapped(words: Sequence[str]) -> list[str]:
    """The command without what only starts it: env, timeout, nice, `uv run`, `coverage run` and the like."""
    rest = list(words)
    while rest:
        name = rest[0].rsplit("/", 1)[-1]
        if name == "command" and rest[1:2] in (["-v"], ["-V"]):
            return rest
        if name == "env":
            rest = _without_options(rest[1:], {"-u", "--unset", "-C", "--chdir"})
            while rest and _ASSIGNMENT.match(rest[0]):
                rest = rest[1:]
        elif name == "timeout":
            rest = _without_options(rest[1:], _TAKES_VALUE[name])[1:]
        elif name in _TAKES_VALUE or name in _TRANSPARENT:
            rest = _without_options(rest[1:], _TAKES_VALUE.get(name, set()))
        elif name in _RUNNERS and rest[1:2] == ["run"]:
            rest = _without_options(
                rest[2:], {"--with", "--python", "-p", "--extra", "--group", "--env-file"}
            )
        elif name == "coverage" and rest[1:2] == ["run"]:
            rest = ["python", *_without_options(rest[2:], set(), keep="-m")]
        else:
            return rest
    return rest


def _without_options(words: list[str], with_value: set[str], keep: str = "") -> list[str]:
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != keep:
        if words[index] == "--":
            return words[index + 1 :]
        index += 2 if words[index] in with_value else 1
    return words[index:]


def is_test(words: Sequence[str]) -> bool:
    """The command, program first, is one whose exit status says whether tests passed."""
    rest = unwrapped(words)
    if not rest or not _ONLY_ASKS.isdisjoint(rest):
        return False
    name = rest[0].rsplit("/", 1)[-1]
    if _PYTHON.fullmatch(name):
        return _is_python_test(rest[1:])
    if name in _INTERPRETERS:
        script = next((word for word in rest[1:] if not word.startswith("-")), "")
        return _SCRIPT.fullmatch(script.rsplit("/", 1)[-1]) is not None
    if name in _SUBCOMMANDS:
        return not _SUBCOMMANDS[name].isdisjoint(rest[1:])
    return name in _PROGRAMS or ("/" in rest[0] and _SCRIPT.fullmatch(name) is not None)


def is_surely_test(words: Sequence[str]) -> bool:
    """A test, and by more than a name such as `run-server.sh` that only sounds like one."""
    if not is_test(words):
        return False
    rest = unwrapped(words)
    scripts = [word.rsplit("/", 1)[-1] for word in rest if _SCRIPT.fullmatch(word.rsplit("/", 1)[-1])]
    by_name = rest[0].rsplit("/", 1)[-1] in _INTERPRETERS or "/" in rest[0] or _starts_file(rest)
    return not by_name or not scripts or _SURE_SCRIPT.fullmatch(scripts[0]) is not None


def _starts_file(words: list[str]) -> bool:
    return _PYTHON.fullmatch(words[0].rsplit("/", 1)[-1]) is not None and "-m" not in words


def _is_python_test(arguments: list[str]) -> bool:
    for index, word in enumerate(arguments):
        if word == "-m":
            module = arguments[index + 1 : index + 2]
            if module == ["coverage"]:
                return is_test(["coverage", *arguments[index + 2 :]])
            return bool(module) and module[0].split(".")[0] in _MODULES
        if word == "-c":
            return False
        if not word.startswith("-"):
            return _SCRIPT.fullmatch(word.rsplit("/", 1)[-1]) is not None
    return False


def runs_test(nodes: Iterable[Node], *, surely: bool = False, wrapping: frozenset[str] = frozenset()) -> str:
    """The first test among commands at any depth, as its program's name; empty where there is none.

    `wrapping` are names of functions that count as tests.
    """
    known = is_surely_test if surely else is_test
    for node in nodes:
        inner = ((node, None),) if isinstance(node, Simple) else commands(node.body)
        for simple, _ in inner:
            if known(simple.texts) or (simple.texts and simple.texts[0] in wrapping):
                return " ".join(simple.texts[:3])
    return ""


def wrapping_functions(functions: Mapping[str, Compound]) -> frozenset[str]:
    """The functions that end as the test does which is the last thing in them."""
    found = set()
    for name, function in functions.items():
        node = function.body[0].nodes[0]
        body = node.body if isinstance(node, Compound) and node.kind in {"group", "subshell"} else ()
        last = body[-1] if body else None
        if last is None or last.operators or last.background or last.pipelines[0].negated:
            continue
        if any(isinstance(one, Simple) and is_surely_test(one.texts) for one in last.nodes):
            found.add(name)
    return frozenset(found)


def always_passes(node: Node) -> bool:
    """The command's status is 0, whatever came before: true, `:`, echo, `exit 0`, or a group that ends so."""
    if isinstance(node, Compound):
        return node.kind in {"group", "subshell"} and bool(node.body) and _last_passes(node.body[-1])
    words = node.texts
    if not words:
        return False
    name = words[0].rsplit("/", 1)[-1]
    return name in {"true", ":", "echo", "printf"} or (name in {"exit", "return"} and words[1:] == ["0"])


def _last_passes(and_or: AndOr) -> bool:
    return always_passes(and_or.pipelines[-1].nodes[-1])
