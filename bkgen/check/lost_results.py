"""Calls of pytest.main whose result nobody looks at."""

from __future__ import annotations

import ast
from collections.abc import Iterator

DROPPED = (
    "the result of pytest.main is dropped: the program ends with 0 although tests failed",
    "write sys.exit(pytest.main(…))",
)
"""What is said of one, and what helps."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module, ast.ClassDef)


def lost_results(tree: ast.Module, *, in_tests: bool = True) -> Iterator[ast.Call]:
    """The calls of `pytest.main` as statements, or kept under a name that is never read.

    Without `in_tests` those in a test function are left out: a plugin's tests run pytest to look at its work.
    """
    names = _names_of_main(tree)
    for scope in (node for node in ast.walk(tree) if isinstance(node, _SCOPES)):
        if not in_tests and getattr(scope, "name", "").startswith("test"):
            continue
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
