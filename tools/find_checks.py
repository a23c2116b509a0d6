"""The checks in a module's source, and the source without one of them. What counts as a check stands in `_Finder`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

BUILDS_PROBLEMS = {"Problem", "refuse", "Ended", "Diagnostic"}
REPORTS = {"error", "not_built", "warning"}
"""Methods by which resolve and syntax report a mistake of a user."""

NOTHING = {"None": "None", "list[": "[]", "tuple[": "()"}
"""What a function returns that found no problem, by what its annotation holds."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check in a file: the bytes from begin to end, which `instead` replaces when it is deleted.

    code: of the diagnostic that it reports; empty elsewhere.
    """

    path: str
    line: int
    text: str
    begin: int
    end: int
    instead: str
    code: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.text}"

    def deleted(self, source: str) -> str:
        """Return the source without the check."""
        data = source.encode()
        return (data[: self.begin] + self.instead.encode() + data[self.end :]).decode()


def checks_of(texts: Mapping[str, str]) -> list[Check]:
    """Return the checks in the files of one package, by path and line."""
    trees = {path: ast.parse(text) for path, text in texts.items()}
    raising = {
        node.name
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    }
    codes = {
        node.name: code
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (code := _code(node))
    }
    found = []
    for path, tree in trees.items():
        finder = _Finder(path, texts[path], raising, codes)
        finder.visit(tree)
        found += sorted(finder.found, key=lambda check: (check.begin, -check.end))
    return found


class _Finder(ast.NodeVisitor):
    """Collects, none inside another one of the same effect:

    - an `if` whose body ends in a refusal: a raise, or a statement that makes a problem      -> if False
    - a `case` whose body ends in one                                                        -> guarded by False
    - a statement alone that calls what raises or reports, or adds problems                  -> pass
    - a function's last statement that returns a problem                                     -> return none
    - a call of `..._problem` or `..._problems` inside an expression                         -> None or []
    - a conditional expression, one side of which is a problem                               -> the other side
    - a pair of a condition and what is said of it, in a tuple of such pairs                 -> False
    """

    def __init__(self, path: str, source: str, raising: set[str], codes: Mapping[str, str]) -> None:
        self.path = path
        self.raising = raising
        self.codes = codes
        self.lines = source.encode().splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.data = source.encode()
        self.found: list[Check] = []

    def _add(self, node: ast.expr | ast.stmt | ast.pattern, instead: str, code: str = "") -> None:
        begin, end = self._span(node)
        text = " ".join(self.data[begin:end].decode().split())
        text = text if len(text) <= 100 else text[:97] + "..."
        self.found.append(Check(self.path, node.lineno, text, begin, end, instead, code))

    def _span(self, node: ast.expr | ast.stmt | ast.pattern) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def visit_If(self, node: ast.If) -> None:
        """Take an `if` that guards a refusal; else look inside."""
        if self._refuses(node.body[-1]):
            self._add(node.test, "False", _code(node.body[-1]))
            self._inside([*node.body[:-1], *node.orelse])
        elif _is_gate(node.test):
            self._inside([*node.body, *node.orelse])
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Take a problem that is returned where nothing returned before."""
        last = node.body[-1]
        returns = ast.unparse(node.returns) if node.returns is not None else ""
        none = next((text for begin, text in NOTHING.items() if begin in returns), "")
        if isinstance(last, ast.Return) and none and self._refuses(last):
            self._add(last, f"return {none}")
            self._inside(node.body[:-1])
        else:
            self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        """Take a case that ends in a refusal."""
        if node.guard is None and self._refuses(node.body[-1]):
            begin, end = self._span(node.pattern)
            self._add(node.pattern, f"{self.data[begin:end].decode()} if False", _code(node.body[-1]))
            self._inside(node.body[:-1])
        else:
            self.generic_visit(node)

    def _inside(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Take a call that stands alone and raises, reports or adds a problem."""
        if self._refuses(node):
            assert isinstance(node.value, ast.Call), "only calls refuse"
            self._add(node, "pass", _code(node) or self.codes.get(_name(node.value), ""))
        else:
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Take problems that are added to others."""
        if self._refuses(node):
            self._add(node, "pass")
        else:
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Take an expression that is a problem under a condition."""
        sides = [_builds(node.body), _builds(node.orelse)]
        if sum(sides) == 1:
            begin, end = self._span(node.orelse if sides[0] else node.body)
            self._add(node, self.data[begin:end].decode())
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Take a call that asks for problems."""
        name = _name(node)
        if name.endswith("_problem"):
            self._add(node, "None")
        elif name.endswith("_problems"):
            self._add(node, "[]")
        else:
            self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """Take the conditions of a tuple of (condition, text) pairs."""
        for pair in node.elts:
            if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 and _is_condition(pair.elts[0], pair.elts[1]):
                self._add(pair.elts[0], "False")
            else:
                self.visit(pair)

    def _refuses(self, statement: ast.stmt) -> bool:
        """Return whether a statement ends in a refusal."""
        match statement:
            case ast.Raise(exc=ast.Call() as call) if _name(call) == "AssertionError":
                return False  # our own bug, no mistake of a user
            case ast.Raise():
                return True
            case ast.Return(value=ast.expr() as value) | ast.AugAssign(value=value) | ast.Assign(value=value):
                return _builds(value) or (_asks(value) and not isinstance(statement, ast.Assign))
            case ast.Expr(value=ast.Call() as call):
                name = _name(call)
                alone = name in self.raising or name.startswith(("_check", "check", "require", "_require", "_end"))
                adds = name in ("append", "extend", "_add", "add") and any(_builds(a) or _asks(a) for a in call.args)
                return alone or adds or name in REPORTS or name == "_raise"
        return False


def _builds(node: ast.expr) -> bool:
    """Return whether an expression makes a problem."""
    return any(isinstance(n, ast.Call) and _name(n) in BUILDS_PROBLEMS for n in ast.walk(node))


def _asks(node: ast.expr) -> bool:
    """Return whether an expression is a call that asks for problems, or begins with one."""
    return isinstance(node, ast.Call) and _name(node).endswith(("_problem", "_problems"))


def _is_gate(test: ast.expr) -> bool:
    """Return whether a test lets further checks run only where nothing was found: without it, they run anyway."""
    match test:
        case ast.Compare(left=ast.expr() as left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return _asks(left)
    return False


def _is_condition(node: ast.expr, text: ast.expr) -> bool:
    is_text = isinstance(text, ast.JoinedStr) or (isinstance(text, ast.Constant) and isinstance(text.value, str))
    return is_text and isinstance(node, ast.Call | ast.Compare | ast.BoolOp | ast.Attribute)


def _name(call: ast.Call) -> str:
    """Return the name that is called, without what it hangs on."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _code(statement: ast.stmt) -> str:
    """Return the code of the diagnostic that a statement reports: its first text in kebab case."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and _name(node) == "not_built":
            return "[not-built-yet]"
        if isinstance(node, ast.Call) and _name(node) in REPORTS and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                return f"[{first.value}]"
    return ""
