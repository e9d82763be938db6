"""Python files of the suites that start pytest themselves and lose what it says."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from bkgen.check.files import Disk
from bkgen.errors import Diagnostic, Position

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)


def python_problems(directories: Iterable[str], disk: Disk) -> Iterator[Diagnostic]:
    """Calls of `pytest.main` in the suites' directories whose result nobody looks at."""
    for directory in directories:
        for path in disk.below(directory, (".py",)):
            yield from _in_file(path, disk.text(path) or "")


def _in_file(path: str, text: str) -> Iterator[Diagnostic]:
    if "pytest" not in text:
        return
    try:
        tree = ast.parse(text.encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield Diagnostic(
            "python-unreadable",
            f"Python {version} cannot read the file: {getattr(error, 'msg', error)}",
            "mend it; a lost exit status in it would go unseen",
            Position(path, line, getattr(error, "offset", None) or 1),
            severity="warning",
        )
        return
    for call in lost_results(tree):
        yield Diagnostic(
            "python-pytest-main",
            "the result of pytest.main is dropped: the program ends with 0 although tests failed",
            "write sys.exit(pytest.main(…))",
            Position(path, call.lineno, call.col_offset + 1),
        )


def lost_results(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of `pytest.main` as statements, or kept under a name that is never read."""
    names = _names_of_main(tree)
    for scope in (node for node in ast.walk(tree) if isinstance(node, _SCOPES)):
        read = {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for statement in _own_statements(scope):
            value = getattr(statement, "value", None)
            if not isinstance(value, ast.Call) or ast.unparse(value.func) not in names:
                continue
            if isinstance(statement, ast.Expr) or not _targets(statement) <= read:
                yield value


def _names_of_main(tree: ast.Module) -> set[str]:
    names = {"pytest.main"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                f"{alias.asname}.main" for alias in node.names if alias.name == "pytest" and alias.asname
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "pytest":
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "main"}
    return names


def _own_statements(scope: ast.AST) -> Iterator[ast.AST]:
    """What stands in `scope` itself, not in a function inside it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _targets(statement: ast.AST) -> set[str]:
    """The plain names a value is kept under; none for a `return`, an attribute or an item of something."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.NamedExpr)):
        targets = [statement.target]
    else:
        return set()
    return {target.id for target in targets if isinstance(target, ast.Name)}
