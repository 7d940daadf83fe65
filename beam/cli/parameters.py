"""Declarations of a command's parameters, and a fast parser for plain command lines.

Importing Typer would take a third of a command's start. So Typer parses only the other command lines: help, mistakes,
abbreviations. Both parsers use the same declarations.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

# How a parameter may be annotated.
TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "int | None": int | None,
    "float | None": float | None,
    "str": str,
    "str | None": str | None,
    "list[str]": list[str],
    "list[str] | None": list[str] | None,
}
_NUMBER_TYPES = {"int": int, "int | None": int, "float | None": float}


class Declaration:
    """The declaration of a parameter, which stands as the parameter's default in a command's signature. `settings` are
    keyword arguments of Typer's `Option` or `Argument`."""

    __slots__ = ("default", "is_option", "names", "settings")

    def __init__(
        self, default: Any, names: tuple[str, ...], settings: dict[str, Any], *, is_option: bool = True
    ) -> None:
        self.default = default
        self.is_option = is_option
        self.names = names
        self.settings = settings


def option(default: Any, *names: str, **settings: Any) -> Any:
    """Declare an option with these names. Without names, the option is named after the parameter; a flag must have
    names.

    A `default` of `...` means that the option is required.
    """
    return Declaration(default, names, settings)


def argument(default: Any, **settings: Any) -> Any:
    """Declare an argument. A `default` of `...` means that the argument is required."""
    return Declaration(default, (), settings, is_option=False)


def group(name: str) -> Callable[..., Any]:
    """Return a function like `option`, for the options that the help shows under this heading."""
    return lambda default, *names, **settings: option(default, *names, rich_help_panel=name, **settings)


class Parameter:
    """One parameter of a command: its name in the function, its annotation, and its declaration."""

    __slots__ = ("annotation", "declared", "name", "names")

    def __init__(self, name: str, annotation: str, declared: Declaration) -> None:
        self.name = name
        self.annotation = annotation
        self.declared = declared
        self.names = declared.names or ((f"--{name.replace('_', '-')}",) if declared.is_option else ())

    @property
    def is_flag(self) -> bool:
        return self.annotation == "bool"

    @property
    def is_list(self) -> bool:
        return self.annotation.startswith("list")

    def value(self, given: Sequence[str]) -> Any:
        """Return the parameter's value for the given words. Raises ValueError for invalid words."""
        declared = self.declared
        if not given and declared.default is ...:
            raise ValueError(self.name)
        if self.is_flag:
            return bool(given) or declared.default
        if self.is_list:
            return list(given) if given or declared.default is not None else None
        if not given:
            return declared.default
        number = _NUMBER_TYPES.get(self.annotation)
        if number is None:
            return given[-1]
        found = number(given[-1])
        least, most = declared.settings.get("min"), declared.settings.get("max")
        is_finite = found - found == 0  # nan and inf would pass every limit
        if not is_finite or (least is not None and found < least) or (most is not None and found > most):
            raise ValueError(self.name)
        return found


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...] | None:
    """Return the parameters of a command's function; None if they were declared for Typer alone."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    found = []
    for name, declared in zip(names, defaults, strict=True):
        annotation = function.__annotations__[name]
        if not isinstance(declared, Declaration) or annotation not in TYPES:
            return None
        found.append(Parameter(name, annotation, declared))
    return None if code.co_kwonlyargcount else tuple(found)


def parse_options(
    parameters: Iterable[Parameter], words: Sequence[str], *, interspersed: bool = True
) -> tuple[dict[str, list[str]], list[str]] | None:
    """Return the values given for each option, by the parameter's name, and the words that belong to no option. Return
    None if this is not a plain command line.

    Without `interspersed`, options end at the first word that belongs to no option.
    """
    named = {name: parameter for parameter in parameters for name in parameter.names}
    given: dict[str, list[str]] = {}
    left: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--" and interspersed:
            return given, left + list(words[position:])
        if word[:1] != "-" or word == "-":
            if not interspersed:
                return given, list(words[position - 1 :])
            left.append(word)
            continue
        name, equals, value = word.partition("=")
        parameter = named.get(name)
        if parameter is None or (equals and (parameter.is_flag or name[:2] != "--")):
            return None
        if not parameter.is_flag and not equals:
            if position == len(words) or words[position][:1] == "-":
                return None
            value = words[position]
            position += 1
        given.setdefault(parameter.name, []).append(value)
    return given, left


def parse_values(
    parameters: Iterable[Parameter], given: dict[str, list[str]], left: Sequence[str]
) -> dict[str, Any] | None:
    """Return the value of each parameter, by the parameter's name. Options get their words from `given`, and arguments
    get their words from `left`. Return None if a word is invalid, missing or left over."""
    found: dict[str, Any] = {}
    left = list(left)
    try:
        for parameter in parameters:
            words = given.get(parameter.name, [])
            if not parameter.names:
                count = len(left) if parameter.is_list else 1
                words, left = left[:count], left[count:]
            found[parameter.name] = parameter.value(words)
    except ValueError:
        return None
    return None if left else found
