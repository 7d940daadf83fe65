"""What can be changed in a file of Python: one small mistake at a time, as its text.

Left alone is what no test should know: imports, annotations, docstrings, prose, how a class is made, `__all__`.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_TYPES = frozenset({"Annotated", "Literal", "NewType", "ParamSpec", "TypeVar", "cast"})
_PROSE = re.compile(r"[A-Za-z`'’,.:] +[A-Za-z`'({]")


@dataclass(frozen=True)
class Mutation:
    """Other code for a part of a file (None: a `pass`).

    `first` and `last` are the lines of the statement around it, of a compound one only its head.
    """

    what: str
    line: int
    first: int
    last: int
    start: int
    end: int
    other: ast.expr | None

    @property
    def text(self) -> str:
        """What is put there."""
        return f"({ast.unparse(self.other)})" if self.other else "pass"

    def applied(self, source: bytes) -> bytes:
        """The whole file with the mistake in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """All mutations of a file, in the order of its lines."""
    found = _Finder(source)
    found.visit(ast.parse(source))
    return sorted(found.mutations, key=lambda each: (each.line, each.start, each.what))


class _Finder(ast.NodeVisitor):
    """Walks over a module; keeps the mutations of each node that runs."""

    def __init__(self, source: bytes) -> None:
        self.mutations: list[Mutation] = []
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._span = (1, 1)
        self._in_function = False

    def _swap(self, what: str, node: ast.expr | ast.stmt, other: ast.expr | None) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        self.mutations.append(Mutation(what, node.lineno, *self._span, start, end, other))

    def visit(self, node: ast.AST) -> None:
        """Notes which statement a node belongs to, and goes on."""
        outer = self._span
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno or node.lineno
            self._span = (node.lineno, max(node.lineno, last))
        super().visit(node)
        self._span = outer

    # What is left alone.

    def visit_Import(self, node: ast.Import) -> None:
        """Nothing."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Nothing."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nothing: Python 3.11 does not say where its parts are."""

    def visit_Module(self, node: ast.Module) -> None:
        """All but the docstring."""
        self._visit_body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """What is in the class."""
        self._visit_body(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Decorators, defaults and the body."""
        if any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list):
            return
        for each in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(each)
        outer, self._in_function = self._in_function, True
        self._visit_body(node.body)
        self._in_function = outer

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Decorators, defaults and the body."""
        self.visit_FunctionDef(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Not inside `Literal[…]` and its like."""
        if not (isinstance(node.value, ast.Name) and (node.value.id in _TYPES or node.value.id[:1].isupper())):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Only the value."""
        if node.value is not None and not (isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"):
            self.visit(node.value)

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for index, each in enumerate(body):
            is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            if not (index == 0 and is_text):
                self.visit(each)

    # Statements.

    def visit_If(self, node: ast.If) -> None:
        """The other way round, but never `if TYPE_CHECKING`."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """The other way round."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """The other way round."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Each of its conditions the other way round."""
        for each in node.ifs:
            self._negate(each)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)) and not (
            isinstance(test, ast.Compare) and len(test.ops) == 1
        ):
            self._swap("negate a condition", test, ast.UnaryOp(ast.Not(), test))

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing."""
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._swap("return None", node.value, ast.Constant(None))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Delete the call."""
        if isinstance(node.value, ast.Call | ast.Await):
            self._swap("delete a statement", node, None)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Delete the statement."""
        self._swap("delete a statement", node, None)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        """Delete the statement."""
        self._swap("delete a statement", node, None)

    def visit_Break(self, node: ast.Break) -> None:
        """Delete the statement."""
        self._swap("delete a statement", node, None)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Delete the statement."""
        self._swap("delete a statement", node, None)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Delete what is set in another object; a local name that is missing is noticed at once."""
        if any(isinstance(each, ast.Name) and each.id in {"__all__", "__slots__"} for each in node.targets):
            return
        if self._in_function and all(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
            self._swap("delete a statement", node, None)
        self.generic_visit(node)

    # Expressions.

    def visit_Compare(self, node: ast.Compare) -> None:
        """Each operator in turn."""
        for index, each in enumerate(node.ops):
            other = copy.copy(node)
            other.ops = [*node.ops[:index], _COMPARED[type(each)](), *node.ops[index + 1 :]]
            self._swap("swap a comparison", node, other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """`and` for `or`."""
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._swap("swap and, or", node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Without `not`, without the sign."""
        if isinstance(node.op, ast.Not | ast.USub):
            self._swap("drop an operator", node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Its opposite; `|` of types is left alone."""
        of_types = isinstance(node.op, ast.BitOr) and any(
            isinstance(each, ast.Name) and each.id[:1].isupper() for each in (node.left, node.right)
        )
        if of_types:
            return
        if type(node.op) in _CALCULATED and not isinstance(node.left, ast.JoinedStr):
            self._swap("swap an operator", node, ast.BinOp(node.left, _CALCULATED[type(node.op)](), node.right))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Each named argument left out in turn: its default."""
        if isinstance(node.func, ast.Name) and node.func.id in _TYPES:
            return
        for each in node.keywords:
            if each.arg not in {None, "help", "rich_help_panel", "metavar"}:
                other = copy.copy(node)
                other.keywords = [kept for kept in node.keywords if kept is not each]
                self._swap(f"drop {each.arg}=", node, other)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Not texts of a help page."""
        if node.arg not in {"help", "rich_help_panel", "metavar"}:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Another value of its type."""
        for other in _others(node.value):
            self._swap(f"{node.value!r:.30} becomes {other!r:.30}", node, ast.Constant(other))


def _others(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        if not _PROSE.search(value):
            yield value + "XX"
    elif isinstance(value, bytes):
        yield value + b"XX"
