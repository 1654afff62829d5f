"""Integer expressions of grid and `requires` recipes: written as Python, checked here, stored as postfix tokens.

The runtime evaluates the tokens over 64-bit integers. `//` is division of non-negative numbers, comparisons give 0 or
1, `and` and `or` evaluate both sides, `cdiv(a, b)` is the quotient rounded up.
"""

import ast
import re
from collections.abc import Iterator, Mapping

from .describe import UserError, Value

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
FUNCTIONS = ("cdiv", "min", "max")
DOTTED = re.compile(r"[a-z_]\w*(?:\.\w+)+")


def postfix(expression: str, vocabulary: Mapping[str, str], config: Mapping[str, Value]) -> str:
    """Compile an expression to postfix tokens, config values put in.

    "cdiv(seqlen_q, block_m)" with block_m = 128 gives "seqlen_q 128 cdiv".
    Raises UserError for a name that is in neither, or a form that recipes do not have.
    """
    plain = DOTTED.sub(lambda m: m[0].replace(".", "__"), expression)  # q.stride.2 is no Python name
    names = {name.replace(".", "__"): name for name in vocabulary}

    def walk(node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Constant(value=int(value)):
                yield str(value)
            case ast.Name(id=name) if name in config and not isinstance(config[name], str):
                yield str(int(config[name]))
            case ast.Name(id=name) if name in names:
                yield names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                yield from (*walk(left), *walk(right), BINARY[type(op)])
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARE:
                yield from (*walk(left), *walk(right), COMPARE[type(op)])
            case ast.BoolOp(op=op, values=[first, *rest]):
                yield from walk(first)
                for operand in rest:
                    yield from (*walk(operand), "and" if isinstance(op, ast.And) else "or")
            case ast.Call(func=ast.Name(id=function), args=[left, right]) if function in FUNCTIONS:
                yield from (*walk(left), *walk(right), function)
            case _:
                raise UserError(
                    f"expression {expression!r}: {ast.unparse(node)!r} is no number, known name or operation"
                )

    return " ".join(walk(ast.parse(plain, mode="eval").body))
