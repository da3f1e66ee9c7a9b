"""Where in a Python file the values of a dataclass stand: the line of each argument, found without
running the file.

Of `TASK = Task(start=(StartPose(pose_base_tool=...),), scene=Use("peg_insert", {"depth_m":
0.025}))` the line of `("start", 0, "pose_base_tool")` and of `("scene", "options", "depth_m")`.
`replace(base, ...)` is followed into a `base` of the same file, as is every name that the file
assigns. What is computed has the line of what is around it.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from robot_rl.machine.validation import Place

DEEPEST = 10
"""Of values inside values: a name may stand for something that names it again."""


@dataclass(frozen=True)
class PythonFile:
    """The text of a Python file. `fields` are the names of each known dataclass's fields, by the
    class's name.
    """

    tree: ast.Module
    fields: Mapping[str, tuple[str, ...]]

    def lines(self, variable: str) -> dict[Place, int]:
        """The line of each place of what the file assigns to a variable; `()` is the variable
        itself.
        """
        found: dict[Place, int] = {(): 1}
        if (value := self._assigned(variable)) is not None:
            found[()] = value.lineno
            self._walk(value, (), found)
        return found

    def argument_line(self, name: str, line: int) -> int:
        """The line of the argument `name=...` of the innermost call around a line; the line itself,
        if there is none.

        Python says of a wrong argument where the call begins, which may be a hundred lines above.
        """
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        around = [call for call in calls if call.lineno <= line <= (call.end_lineno or line)]
        for call in sorted(around, key=lambda call: (call.lineno, call.col_offset), reverse=True):
            for keyword in call.keywords:
                if keyword.arg == name:
                    return keyword.lineno
        return line

    def _assigned(self, variable: str) -> ast.expr | None:
        """What the file assigns to a variable at its top level; the last, if several times."""
        value: ast.expr | None = None
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) and node.value else targets
            if isinstance(node, ast.Assign | ast.AnnAssign) and any(
                isinstance(target, ast.Name) and target.id == variable for target in targets
            ):
                value = node.value
        return value

    def _walk(self, node: ast.expr, place: Place, found: dict[Place, int], depth: int = 0) -> None:
        """Write down the lines of the values inside `node`, which stands at `place`."""
        if depth > DEEPEST:
            return
        if isinstance(node, ast.Name):
            value = self._assigned(node.id)
            if value is not None and not isinstance(value, ast.Name):
                self._walk(value, place, found, depth + 1)
        if isinstance(node, ast.Call) and _name(node.func) == "replace" and node.args:
            self._walk(node.args[0], place, found, depth + 1)
        for key, line, child in self._children(node):
            found[(*place, key)] = line
            self._walk(child, (*place, key), found, depth + 1)

    def _children(self, node: ast.expr) -> Iterator[tuple[str | int, int, ast.expr]]:
        """Key, line and expression of each value that an expression is made of."""
        match node:
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for i, item in enumerate(items):
                    yield i, item.lineno, item
            case ast.Dict(keys=keys, values=values):
                for key, item in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, key.lineno, item
            case ast.Call(func=func, args=args, keywords=keywords):
                for name, item in zip(self.fields.get(_name(func), ()), args, strict=False):
                    yield name, item.lineno, item
                for keyword in keywords:
                    if keyword.arg is not None:
                        yield keyword.arg, keyword.lineno, keyword.value


def _name(func: ast.expr) -> str:
    """`Task` of `Task(...)` and of `config.Task(...)`."""
    return func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
