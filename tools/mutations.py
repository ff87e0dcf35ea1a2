"""Changes of code that are named by function and operator, whatever its layout and its local names.

A mutation is an operator of `OPERATORS` and a place: a function (`fit`,
`Whitening.fit`), a class for what is in its body but in no method of it, or a module
(no name) for what is in no function or class. Where the operator applies at several
places of it, names choose one: `at`, which the place itself holds, and `near`, which
the statement holds that the place is in. They are names of functions, attributes,
arguments, constants or keys, and never those of local variables. Of places within one
another that hold `at`, the innermost counts. `nth` counts those that are left, from 1.

`to` is Python for what the place becomes, in which `_` is what was there.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
Scope = Definition | ast.Module


@dataclass(frozen=True)
class Mutation:
    """An operator, and the place that it changes."""

    function: str
    change: str
    at: str = ""
    near: str = ""
    nth: int = 0
    to: str = ""


@dataclass(frozen=True)
class Place:
    """A node of a syntax tree, the field of its parent that it is in, and the statement around it.

    Attributes:
        node: What is changed.
        parent: The node that has it in `field`, at `index` where that is a list.
        field: A field of the parent.
        index: The place in a list.
        statement: The innermost statement that holds the node.
        comparison: Which of a chain of comparisons, `a < b < c`, is meant.
        left_over: What is left of an operator without this operand.
        key: The key that a value of a dictionary has.
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
        for index, item in (
            enumerate(value) if isinstance(value, list) else [(None, value)]
        ):
            if isinstance(item, ast.AST) and not _is_docstring(item):
                around = item if isinstance(item, ast.stmt) else statement
                yield Place(item, node, field, index, around)


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


Finder = Callable[
    [Place], Iterator[Place]
]  # the places at a node where an operator applies
Editor = Callable[[Place, str], None]  # changes the tree there

BOUNDARIES: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPPOSITES: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
INVERSES: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


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
    """Puts a node into the places of the name `_`."""

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


def find_places(scope: Scope, mutation: Mutation) -> list[Place]:
    """The places of a function where an operator applies, and which hold the mutation's names."""

    def held(place: Place) -> set[str]:
        names = names_in(place.node, local)
        return names if place.key is None else names | names_in(place.key, local)

    finder, _ = OPERATORS[mutation.change]
    local = local_names(scope)
    places = [found for place in _nodes_of(scope) for found in finder(place)]
    if mutation.near:
        places = [
            place
            for place in places
            if mutation.near in names_in(place.statement, local)
        ]
    if mutation.at:
        places = [place for place in places if mutation.at in held(place)]
        found = {id(place.node) for place in places}
        places = [place for place in places if not found & _ids_within(place)]
    return places


def _ids_within(place: Place) -> set[int]:
    return {id(inner.node) for inner in _places_within(place.node, place.statement)}


def find_place(module: ast.Module, mutation: Mutation) -> Place:
    """The one place of a mutation in a module. Raises LookupError where it has none, or several."""
    places = find_places(find_scope(module, mutation.function), mutation)
    is_chosen = mutation.nth <= len(places) if mutation.nth else len(places) == 1
    if is_chosen:
        return places[max(mutation.nth, 1) - 1]
    lines = ", ".join(str(place.statement.lineno) for place in places)
    found = f"found {len(places)}, in lines {lines}" if places else "found none"
    wanted = f"place number {mutation.nth}" if mutation.nth else "one place"
    names = [
        f"{key} {name!r}"
        for key, name in vars(mutation).items()
        if key in ("at", "near")
    ]
    named = " ".join(name for name in names if not name.endswith("''"))
    raise LookupError(f"wanted {wanted} {named} for {mutation.change!r}, {found}")


def mutated(text: str, mutation: Mutation) -> str:
    """The text of a module after a mutation, as `ast.unparse` writes it. Raises LookupError."""
    module = ast.parse(text)
    _, edit = OPERATORS[mutation.change]
    edit(find_place(module, mutation), mutation.to)
    return ast.unparse(module)
