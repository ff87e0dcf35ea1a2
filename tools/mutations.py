"""Changes of code that are named by function and operator.

A mutation does not depend on the layout of code, nor on the names of local variables. It
is an operator of `OPERATORS` in a function. If the operator applies at several places of
the function, names choose one: `at` is a name in the place itself, and `near` is a name
in the statement around it. A name is that of a function, an attribute, an argument, a
constant or a key.

The module has four parts: places of a syntax tree, the names in them, the operators, and
the choice of one place.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Scope = Definition | ast.Module


@dataclass(frozen=True)
class Mutation:
    """An operator, and the place that it changes.

    Attributes:
        function: `fit`, or `Whitening.fit`. A class is its body without its methods. An
            empty name is the module without its functions and classes.
        change: The name of an operator.
        at: A name that the place holds. If places within one another hold it, the
            innermost is meant.
        near: A name that the statement around the place holds.
        nth: Which of the places that are left is meant, from 1; 0 if there is only one.
        to: Python code that the place becomes; `_` in it is the code that was there.
    """

    function: str
    change: str
    at: str = ""
    near: str = ""
    nth: int = 0
    to: str = ""


@dataclass(frozen=True)
class Place:
    """A node of a syntax tree, and where it is.

    Attributes:
        node: The node that is changed.
        parent: The node that has it.
        field: The field of the parent that it is in.
        index: Its index if the field is a list.
        statement: The innermost statement that holds the node.
        comparison: Which of a chain of comparisons, `a < b < c`, is meant.
        left_over: For an operand, the expression without it.
        key: For a value of a dictionary, its key.
    """

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    statement: ast.AST
    comparison: int = 0
    left_over: ast.AST | None = None
    key: ast.AST | None = None

    def put(self, node: ast.AST) -> None:
        """Replace the node by another one."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    def drop(self) -> None:
        """Remove the node from the list that it is in."""
        del getattr(self.parent, self.field)[self.index]


def _children(node: ast.AST, statement: ast.AST) -> Iterator[Place]:
    """The nodes directly within a node, but for the types of variables, arguments and results."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        is_list = isinstance(value, list)
        for index, item in enumerate(value if is_list else [value]):
            if isinstance(item, ast.AST) and not _is_docstring(item):
                around = item if isinstance(item, ast.stmt) else statement
                yield Place(item, node, field, index if is_list else None, around)


def _places_within(node: ast.AST, statement: ast.AST) -> Iterator[Place]:
    """Every node within a node, in the order of the text."""
    for place in _children(node, statement):
        yield place
        yield from _places_within(place.node, place.statement)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _nodes_of(scope: Scope) -> Iterator[Place]:
    """The nodes of a function; of a class or module what is in no function or class of it."""
    for place in _children(scope, scope):
        if isinstance(scope, Function) or not isinstance(place.node, Definition):
            yield place
            yield from _places_within(place.node, place.statement)


def find_scope(module: ast.Module, function: str) -> Scope:
    """The function, class or module of a name. Raises LookupError."""
    scope: Scope = module
    for name in filter(None, function.split(".")):
        found = [n for n in scope.body if isinstance(n, Definition) and n.name == name]
        if not found:
            raise LookupError(f"found no function or class {function}")
        scope = found[-1]
    return scope


def local_names(scope: Scope) -> set[str]:
    """The arguments and variables of a function; none of a class or a module."""
    if not isinstance(scope, Function):
        return set()
    names: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, Definition) and node is not scope:
            names.add(node.name)
    return names


def names_in(node: ast.AST, local: set[str]) -> set[str]:
    """The names that a node holds, but for local ones: `np.round` has `np`, `round`, `np.round`.

    A constant is a name, too, if it has no blank in it: what has one is a message.
    """
    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name | ast.Attribute):
            parts = _dotted(inner, local)
            names |= {".".join(parts[start:]) for start in range(len(parts))}
        elif isinstance(inner, ast.keyword) and inner.arg:
            names.add(inner.arg)
        elif isinstance(inner, ast.Constant) and " " not in str(inner.value):
            names.add(str(inner.value))
    return names


def _dotted(node: ast.expr, local: set[str]) -> list[str]:
    """`a.b.c` as its parts, without a local variable at its front."""
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value, local), node.attr]
    return [node.id] if isinstance(node, ast.Name) and node.id not in local else []


# Operators: where each applies (a finder), and how it changes the code there (an editor)

Finder = Callable[[Place], Iterator[Place]]  # the places at a node
Editor = Callable[[Place, str], None]  # of a place, and the code `to`


def _both_ways(exchanges: dict[type, type]) -> dict[type, type]:
    return exchanges | {new: old for old, new in exchanges.items()}


BOUNDARIES = _both_ways({ast.Lt: ast.LtE, ast.Gt: ast.GtE})
OPPOSITES = _both_ways(
    {
        ast.Lt: ast.GtE,
        ast.Gt: ast.LtE,
        ast.Eq: ast.NotEq,
        ast.In: ast.NotIn,
        ast.Is: ast.IsNot,
    }
)
INVERSES = _both_ways({ast.Add: ast.Sub, ast.Mult: ast.Div, ast.And: ast.Or})


def _conditions(place: Place) -> Iterator[Place]:
    """The conditions of `if`, `while` and conditional expressions, and those in comprehensions."""
    is_test = place.field == "test" and not isinstance(place.parent, ast.Assert)
    if is_test or place.field == "ifs":
        yield place


def _comparisons(place: Place) -> Iterator[Place]:
    if isinstance(place.node, ast.Compare):
        for number in range(len(place.node.ops)):
            yield replace(place, comparison=number)


def _boundaries(place: Place) -> Iterator[Place]:
    for found in _comparisons(place):
        if type(found.node.ops[found.comparison]) in BOUNDARIES:
            yield found


def _operators(place: Place) -> Iterator[Place]:
    """Operators of two operands, and a sign or `not` before something that is no constant."""
    if (
        isinstance(place.node, ast.BinOp | ast.BoolOp)
        and type(place.node.op) in INVERSES
    ):
        yield place
    if isinstance(place.node, ast.UnaryOp) and not isinstance(
        place.node.operand, ast.Constant
    ):
        yield place


def _operands(place: Place) -> Iterator[Place]:
    """Each operand of an operator; the parent is the operator's own."""
    if isinstance(place.node, ast.BinOp):
        yield replace(place, node=place.node.left, left_over=place.node.right)
        yield replace(place, node=place.node.right, left_over=place.node.left)
    elif isinstance(place.node, ast.BoolOp):
        for value in place.node.values:
            others = [other for other in place.node.values if other is not value]
            left_over = (
                others[0] if len(others) == 1 else ast.BoolOp(place.node.op, others)
            )
            yield replace(place, node=value, left_over=left_over)


def _arguments(place: Place) -> Iterator[Place]:
    if isinstance(place.parent, ast.Call) and place.field in ("args", "keywords"):
        yield place


def _elements(place: Place) -> Iterator[Place]:
    """An element of a list, tuple or set, or a value of a dictionary."""
    is_made = isinstance(getattr(place.parent, "ctx", None), ast.Load | None)
    if isinstance(place.parent, ast.List | ast.Tuple | ast.Set) and is_made:
        yield place
    if isinstance(place.parent, ast.Dict) and place.field == "values":
        yield replace(place, key=place.parent.keys[place.index])


def _statements(place: Place) -> Iterator[Place]:
    if isinstance(place.node, ast.stmt):
        yield place


def _calls(place: Place) -> Iterator[Place]:
    if isinstance(place.node, ast.Call):
        yield place


def _constants(place: Place) -> Iterator[Place]:
    if isinstance(place.node, ast.Constant):
        yield place


VALUE_HOLDERS = (
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.NamedExpr,
    ast.Yield,
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def _values(place: Place) -> Iterator[Place]:
    """The expression of a return, yield or assignment, and the element of a comprehension."""
    if place.field == "value" and isinstance(
        place.parent, VALUE_HOLDERS + COMPREHENSIONS
    ):
        yield place
    if place.field == "elt":
        yield place


def _expressions(place: Place) -> Iterator[Place]:
    is_stored = isinstance(getattr(place.node, "ctx", None), ast.Store)
    if isinstance(place.node, ast.expr) and not is_stored:
        yield place


class _Insert(ast.NodeTransformer):
    """Puts a node wherever the name `_` is."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit_Name(self, name: ast.Name) -> ast.AST:
        return copy.deepcopy(self.node) if name.id == "_" else name


def _replace(place: Place, to: str) -> None:
    """Put other Python into the place of an expression, or of the value of `name=value`."""
    is_keyword = isinstance(place.node, ast.keyword)
    old = place.node.value if is_keyword else place.node
    new = _Insert(old).visit(ast.parse(to, mode="eval").body)
    if is_keyword:
        place.node.value = new
    else:
        place.put(new)


def _compare_by(table: dict[type, type]) -> Editor:
    def change(place: Place, _: str) -> None:
        operators = place.node.ops
        operators[place.comparison] = table[type(operators[place.comparison])]()

    return change


def _invert(place: Place, _: str) -> None:
    if isinstance(place.node, ast.UnaryOp):
        place.put(place.node.operand)
    else:
        place.node.op = INVERSES[type(place.node.op)]()


def _add_argument(place: Place, to: str) -> None:
    call = ast.parse(f"_({to})", mode="eval").body
    place.node.args += call.args
    place.node.keywords += call.keywords


def _drop_element(place: Place, _: str) -> None:
    if isinstance(place.parent, ast.Dict):
        del place.parent.keys[place.index]
    place.drop()


OPERATORS: dict[str, tuple[Finder, Editor]] = {
    "condition true": (_conditions, lambda place, _: place.put(ast.Constant(True))),
    "condition false": (_conditions, lambda place, _: place.put(ast.Constant(False))),
    "boundary moved": (_boundaries, _compare_by(BOUNDARIES)),
    "comparison negated": (_comparisons, _compare_by(OPPOSITES)),
    "operator inverted": (_operators, _invert),
    "operand removed": (_operands, lambda place, _: place.put(place.left_over)),
    "argument added": (_calls, _add_argument),
    "argument removed": (_arguments, lambda place, _: place.drop()),
    "element removed": (_elements, _drop_element),
    "statement removed": (_statements, lambda place, _: place.put(ast.Pass())),
    "call replaced by its argument": (
        _calls,
        lambda place, _: place.put(place.node.args[0]),
    ),
    "call replaced by its receiver": (
        _calls,
        lambda place, _: place.put(place.node.func.value),
    ),
    "constant changed": (_constants, _replace),
    "argument changed": (_arguments, _replace),
    "element changed": (_elements, _replace),
    "value changed": (_values, _replace),
    "expression changed": (_expressions, _replace),
}
WITH_TO = tuple(name for name in OPERATORS if name.endswith((" changed", " added")))


# The place of a mutation


def find_places(scope: Scope, mutation: Mutation) -> list[Place]:
    """The places of a function where the operator applies and that hold the names."""
    finder, _ = OPERATORS[mutation.change]
    local = local_names(scope)
    places: list[Place] = []
    for node in _nodes_of(scope):
        for place in finder(node):
            if mutation.near and mutation.near not in names_in(place.statement, local):
                continue
            if mutation.at and mutation.at not in _names_of(place, local):
                continue
            places.append(place)
    return _innermost(places) if mutation.at else places


def _names_of(place: Place, local: set[str]) -> set[str]:
    """The names that a place holds, with those of its key in a dictionary."""
    names = names_in(place.node, local)
    if place.key is not None:
        names |= names_in(place.key, local)
    return names


def _innermost(places: Sequence[Place]) -> list[Place]:
    """The places that have no other of the places within them."""
    nodes = {id(place.node) for place in places}
    innermost = []
    for place in places:
        inner_places = _places_within(place.node, place.statement)
        if not any(id(inner.node) in nodes for inner in inner_places):
            innermost.append(place)
    return innermost


def find_place(module: ast.Module, mutation: Mutation) -> Place:
    """The one place of a mutation in a module. Raises LookupError for none, and for several."""
    places = find_places(find_scope(module, mutation.function), mutation)
    if mutation.nth and mutation.nth <= len(places):
        return places[mutation.nth - 1]
    if not mutation.nth and len(places) == 1:
        return places[0]
    wanted = f"place number {mutation.nth}" if mutation.nth else "one place"
    if mutation.at:
        wanted += f" at {mutation.at!r}"
    if mutation.near:
        wanted += f" near {mutation.near!r}"
    lines = ", ".join(str(place.statement.lineno) for place in places)
    found = f"found {len(places)}, in lines {lines}" if places else "found none"
    raise LookupError(f"wanted {wanted} for {mutation.change!r}, {found}")


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a module after a mutation, as `ast.unparse` writes it. Raises LookupError."""
    module = ast.parse(text)
    _, edit = OPERATORS[mutation.change]
    edit(find_place(module, mutation), mutation.to)
    return ast.unparse(module)
