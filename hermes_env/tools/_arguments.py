"""Arguments of the wrong type are an outcome as every other fault of a call: models write them too."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar, cast

from hermes_env.tools._problem import Problem
from hermes_env.tools._read import ReadOutcome

if TYPE_CHECKING:
    from hermes_env.tools._past import Past

_Tools = TypeVar("_Tools", bound="Past")
_Rest = ParamSpec("_Rest")
_Outcome = TypeVar("_Outcome")
Test = tuple[Callable[[object], bool], str]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_range(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return len(value) == 2 and all(_is_number(number) for number in value)


def _are_texts(value: object) -> bool:
    return value is None or (
        isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)
    )


_TEXT: Final[Test] = (lambda value: isinstance(value, str), "text")
_OPTIONAL_TEXT: Final[Test] = (lambda value: value is None or isinstance(value, str), "text or None")
_NUMBER: Final[Test] = (_is_number, "a whole number")
_OPTIONAL_NUMBER: Final[Test] = (lambda value: value is None or _is_number(value), "a whole number or None")
_FLAG: Final[Test] = (lambda value: isinstance(value, bool), "true or false")
_DIGESTS: Final[Test] = (_are_texts, "digests by path, all of them text")
_TESTS: Final[Mapping[str, Test]] = {
    **dict.fromkeys(("path", "old_string", "new_string", "insert_text", "patch", "compat", "eol"), _TEXT),
    **dict.fromkeys(("encoding", "if_sha256", "edit_id"), _OPTIONAL_TEXT),
    **dict.fromkeys(("offset", "insert_line"), _NUMBER),
    **dict.fromkeys(("limit", "expected_count"), _OPTIONAL_NUMBER),
    **dict.fromkeys(("replace_all", "lenient", "dry_run", "overwrite", "idempotent"), _FLAG),
    "content": (lambda value: isinstance(value, str | bytes), "text or bytes"),
    "view_range": (_is_range, "two whole numbers"),
}


def checked(
    method: Callable[Concatenate[_Tools, _Rest], _Outcome],
) -> Callable[Concatenate[_Tools, _Rest], _Outcome]:
    """Let a tool return ``invalid_argument`` for a value of the wrong type; a missing argument stays a TypeError."""
    tool, signature = method.__name__, inspect.signature(method)

    @functools.wraps(method)
    def call(tools: _Tools, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> _Outcome:
        given = dict(signature.bind(tools, *args, **kwargs).arguments)
        del given["self"]
        problem = _problem(tool, given)
        if problem is None:
            return method(tools, *args, **kwargs)
        if tool in {"read_file", "view"}:
            return cast("_Outcome", ReadOutcome.refused(str(given["path"]), problem))
        dry_run = given.pop("dry_run", False) is True
        return cast("_Outcome", tools.refuse_call(tool, given, problem, dry_run=dry_run))

    return call


def _problem(tool: str, given: Mapping[str, object]) -> Problem | None:
    for name, value in given.items():
        fits, what = _DIGESTS if (tool, name) == ("apply_patch", "if_sha256") else _TESTS[name]
        if not fits(value):
            shown = "None" if value is None else f"of type {type(value).__name__}"
            path = given.get("path")
            return Problem(
                "invalid_argument", f"{name} must be {what}, not {shown}", path if isinstance(path, str) else None
            )
    return None
