"""Plain data into dataclasses, strictly: a complaint names file, line and key, what is allowed, and
the nearest name.

A YAML file keeps the line of each of its keys and values, so that every later complaint can point
at one.
"""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from robot_rl.types import ConfigError

T = TypeVar("T")
Place = tuple[str | int, ...]
"""Where in the data: `("arms", 0, "limits", "max_force")`."""
Problem = tuple[Place, str]
Check = Callable[[Any], Iterable[Problem]]


@dataclass(frozen=True)
class Source:
    """A file that was read, and the line of each place that it holds."""

    path: Path
    lines: Mapping[Place, int]

    def complaints(self, problems: Iterable[Problem]) -> str:
        """`FILE:LINE: key what is wrong`, one per line; the line is that of the nearest thing
        around the place.
        """
        return "\n".join(
            f"{self.path}:{_line(self.lines, place)}: {dotted(place)}{text}"
            for place, text in problems
        )


_MOST_CHARACTERS = 200
"""Of a name that is compared with others: the time for it grows with the square."""

# No coercion: "0.3" is not a number and 1 is not a bool. JSON mode lets a list stand for a tuple,
# an int for a float.
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`a, b, c (did you mean 'b'?)`: what every complaint about a name ends with. A very long one
    is near to none.
    """
    names = sorted(allowed)
    listing = ", ".join(names) or "nothing"
    close = (
        difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        if len(name) <= _MOST_CHARACTERS
        else []
    )
    return f"{listing} (did you mean {close[0]!r}?)" if close else listing


def to_json(config: Any) -> dict[str, Any]:
    """A config dataclass as plain data that JSON can hold: what is saved with a run and sent to a
    process.
    """
    data = asdict(config)
    for place, message in plain_problems(data):
        raise ConfigError(f"{type(config).__name__}: {dotted(place)}{message}")
    plain: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    return plain


def plain_problems(data: Any, place: Place = ()) -> Iterator[Problem]:
    """The values that JSON cannot hold: numbers that are not finite, arrays, functions, keys that
    are no text.
    """
    if isinstance(data, float) and not math.isfinite(data):
        yield place, f"= {data}: wanted a finite number"
    elif isinstance(data, Mapping):
        for key, value in data.items():
            if not isinstance(key, str):
                yield place, f"has the key {key!r}: wanted a text"
            else:
                yield from plain_problems(value, (*place, key))
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from plain_problems(value, (*place, i))
    elif data is not None and not isinstance(data, str | int | float | bool):
        kind = type(data).__name__
        yield (
            place,
            (
                f"= {data!r}: wanted a text, number, bool, list or mapping, not {kind}: JSON cannot"
                " hold it"
            ),
        )


def from_json(cls: type[T], data: Mapping[str, Any], source: str = "config") -> T:
    """The dataclass `cls` from plain data. Raises ConfigError with every complaint, one per line."""
    with _said_of(source):
        value, problems = _validate(cls, dict(data))
    if problems:
        raise ConfigError(
            "\n".join(f"{source}: {dotted(place)}{message}" for place, message in problems)
        )
    return value


def problems_of(cls: Any, data: Any) -> list[Problem]:
    """What keeps plain data from being a `cls` (a dataclass, or any type), by place: nothing, if it
    is one.

    A value that a dataclass itself refuses stands at the first of its keys that the refusal names.
    """
    try:
        return _validate(cls, data)[1]
    except ConfigError as error:
        return list(refusals(error, data))


def refusals(error: ConfigError, data: Any) -> Iterator[Problem]:
    """What somebody says of values among `data`, line by line, each at the keys that it names."""
    for line in str(error).splitlines():
        yield place_in(line, data), f"is refused: {line}"


def place_in(message: str, data: Any) -> Place:
    """The place of the keys of `data` that a message names: `looks: tint is 3` is about `("looks",
    "tint")`.
    """
    if not isinstance(data, Mapping):
        return ()
    named = [key for key in data if re.search(rf"\b{re.escape(str(key))}\b", message)]
    key = min(named, key=lambda key: message.index(str(key)), default=None)
    return () if key is None else (key, *place_in(message, data[key]))


def apply_overrides(config: T, changes: Mapping[str, Any], source: str = "defaults") -> T:
    """A config dataclass with values replaced by dotted key: `{"agent.discount": 0.97}`."""
    for key, value in changes.items():
        config = _replaced(config, key.split("."), value, f"{source}: {key}")
    return config


def _replaced(config: Any, keys: list[str], value: Any, where: str) -> Any:
    if keys[0] not in _names(config):
        raise ConfigError(
            f"{where}: {keys[0]!r} is not a known key; allowed: {nearest(keys[0], _names(config))}"
        )
    if len(keys) > 1:
        value = _replaced(getattr(config, keys[0]), keys[1:], value, where)
    else:
        with _said_of(where):
            value, problems = _validate(get_type_hints(type(config))[keys[0]], value)
        if problems:
            raise ConfigError(
                "\n".join(f"{where} {dotted(place)}{message}" for place, message in problems)
            )
    with _said_of(where):
        return replace(config, **{keys[0]: value})


@contextmanager
def _said_of(source: str) -> Iterator[None]:
    """What a dataclass says of its own values, with where they come from."""
    try:
        yield
    except ConfigError as error:
        if str(error).startswith(source):
            raise
        raise ConfigError(
            "\n".join(f"{source}: {line}" for line in str(error).splitlines())
        ) from error


def from_yaml(
    cls: type[T],
    path: Path,
    check: Check = lambda value: (),
    complete: Callable[[dict[str, Any]], None] = lambda data: None,
    **given: Any,
) -> tuple[T, Source]:
    """The dataclass `cls` from a YAML file, and where in the file each value stands.

    `given` fields are not the file's; `complete` may add to the plain data before it is looked at;
    `check` yields complaints of its own about the value.
    """
    data, lines = read_yaml(path)
    source = Source(path, lines)
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}:1: a mapping is wanted; keys: {', '.join(sorted(_names(cls) - given.keys()))}"
        )
    problems: list[Problem] = [
        ((key,), "is not for this file to say") for key in sorted(given.keys() & data.keys())
    ]
    complete(data)
    value, more = _validate(cls, data | given, tuple(given))
    problems += more
    if not problems:
        problems = list(check(value))
    if problems:
        raise ConfigError(source.complaints(problems))
    return value, source


def _validate(cls: type[T], data: Any, given: tuple[str, ...] = ()) -> tuple[T, list[Problem]]:
    """The value, and the list of what is wrong with it (then there is no value)."""
    try:
        return _adapter(cls).validate_json(json.dumps([data]))[0], []  # type: ignore[arg-type]
    except ValidationError as error:
        return None, [_problem(cls, dict(item), given) for item in error.errors()]  # type: ignore[return-value]


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    """Made once: it takes longer than what it validates. A tuple around the class, because pydantic
    takes no config for a bare standard dataclass.
    """
    return TypeAdapter(tuple[cls], config=_STRICT)


def _problem(cls: type, item: dict[str, Any], given: tuple[str, ...]) -> Problem:
    """One complaint of pydantic's, in this project's words."""
    place: Place = tuple(item["loc"])[1:]
    if item["type"] == "unexpected_keyword_argument":
        allowed = _names(_type_at(cls, place[:-1])) - set(given if len(place) == 1 else ())
        return place, f"is not a known key; allowed: {nearest(str(place[-1]), allowed)}"
    if item["type"] == "missing":
        return place, "is missing"
    return place, f"= {json.dumps(item['input'])}: {_lower(item['msg'])}"


def _lower(message: str) -> str:
    message = message.replace(
        "Input should be a valid dictionary or object to field from", "wanted a mapping for"
    )
    message = re.sub(
        r"^Tuple should have at most (\d+) items? after validation, not (\d+)",
        r"wanted \1 items",
        message,
    )
    message = message.replace("be an object", "be a mapping").replace(
        "be a valid array", "be a list"
    )  # JSON's words
    return message.replace("Input should be", "wanted").replace("Input should", "it should")


def _names(cls: Any) -> set[str]:
    """Field names of a dataclass or of an instance of one; none for anything else."""
    return {field.name for field in fields(cls)} if is_dataclass(cls) else set()


def _type_at(cls: Any, place: Place) -> Any:
    """The type that stands at a place of `cls`: through fields, tuples and optional values."""
    for key in place:
        hints = get_type_hints(cls) if is_dataclass(cls) else {}
        cls = hints.get(str(key)) if isinstance(key, str) else next(iter(get_args(cls)), None)
        cls = (
            next((arg for arg in get_args(cls) if is_dataclass(arg)), cls)
            if type(None) in get_args(cls)
            else cls
        )
    return cls


def dotted(place: Place) -> str:
    """`arms[0].limits.max_force `, with what it is about behind it."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).lstrip(".")
    return f"{text} " if text else ""


def _line(lines: Mapping[Place, int], place: Place) -> int:
    """Line of a place, or of the nearest thing around it that the file does hold."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


class _Loader(yaml.SafeLoader):
    """YAML's safe types, where 1e-3 is a number too (YAML 1.1 wants 1.0e-3 and reads a text
    otherwise).
    """


_NUMBER = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def read_yaml(path: Path) -> tuple[Any, dict[Place, int]]:
    """Plain data of a YAML file and the line of each place. Duplicate keys, tags and dates are
    refused.
    """
    lines: dict[Place, int] = {}
    try:
        loader = _Loader(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.reader.ReaderError) as error:
        raise ConfigError(
            f"{path}: this is no text in UTF-8, or cannot be read: {error}"
        ) from error
    try:
        node = loader.get_single_node()
        return (_plain(loader, node, (), lines, path) if node else {}), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or error.context
        tab = "; indent with spaces, not with tabs" if "\\t" in str(problem) else ""
        raise ConfigError(f"{path}:{line}: not valid YAML: {problem}{tab}") from error
    finally:
        loader.dispose()


def _plain(
    loader: _Loader, node: yaml.Node, place: Place, lines: dict[Place, int], path: Path
) -> Any:
    """Plain data of a node; `lines` is written."""
    line = node.start_mark.line + 1
    lines.setdefault(place, line)
    if len(place) > 20:
        raise ConfigError(f"{path}:{line}: nested too deeply (an alias inside its own anchor?)")
    if isinstance(node, yaml.SequenceNode):
        return [
            _plain(loader, child, (*place, i), lines, path) for i, child in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, child in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            if key in result:
                first = lines[(*place, key)]
                raise ConfigError(
                    f"{path}:{line}: {dotted((*place, key))}is given twice (first on line {first})"
                )
            lines[(*place, key)] = line
            result[key] = _plain(loader, child, (*place, key), lines, path)
        return result
    value = loader.construct_object(node)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ConfigError(
        f"{path}:{line}: {dotted(place)}= {node.value}: wanted a text, number, bool, list or"
        " mapping"
    )
