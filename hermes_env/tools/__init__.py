"""What an agent calls to read and change files in any environment, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_env.tools._diff import FileDiff as FileDiff
from hermes_env.tools._diff import unified_diff as unified_diff
from hermes_env.tools._hunks import HunkReport as HunkReport
from hermes_env.tools._overlay import Missing as Missing
from hermes_env.tools._overlay import Snapshot as Snapshot
from hermes_env.tools._overlay import State as State
from hermes_env.tools._overlay import Unreadable as Unreadable
from hermes_env.tools._plan import Plan as Plan
from hermes_env.tools._plan import make_plan as make_plan
from hermes_env.tools._plan import paths_of as paths_of
from hermes_env.tools._policy import CountedChange as CountedChange
from hermes_env.tools._policy import FilePolicy as FilePolicy
from hermes_env.tools._problem import ERROR_CODES as ERROR_CODES
from hermes_env.tools._problem import Candidate as Candidate
from hermes_env.tools._problem import EditError as EditError
from hermes_env.tools._problem import PatchParseError as PatchParseError
from hermes_env.tools._problem import Problem as Problem
from hermes_env.tools._replace import insert as insert
from hermes_env.tools._replace import str_replace as str_replace
from hermes_env.tools._result import FileChange as FileChange
from hermes_env.tools._splice import Edit as Edit
from hermes_env.tools._splice import Splice as Splice
from hermes_env.tools._text import TextInfo as TextInfo
from hermes_env.tools._text import describe as describe
from hermes_env.tools._v4a_extract import extract_patches as extract_patches
from hermes_env.tools._v4a_model import Operation as Operation
from hermes_env.tools._v4a_model import Patch as Patch
from hermes_env.tools._v4a_parser import StreamingParser as StreamingParser
from hermes_env.tools._v4a_parser import parse_patch as parse_patch
from hermes_env.tools._view import View as View
from hermes_env.tools._view import view_lines as view_lines

if TYPE_CHECKING:
    from hermes_env.tools._call import call as call
    from hermes_env.tools._filetools import FileTools as FileTools
    from hermes_env.tools._model import EditOutcome as EditOutcome
    from hermes_env.tools._observe import Diagnostics as Diagnostics
    from hermes_env.tools._observe import EditEvent as EditEvent
    from hermes_env.tools._observe import Observer as Observer
    from hermes_env.tools._read import ReadOutcome as ReadOutcome
    from hermes_env.tools._schemas import tool_schemas as tool_schemas
    from hermes_env.tools._store import HistoryEntry as HistoryEntry
    from hermes_env.tools._store import Retention as Retention
    from hermes_env.tools._undo import Recovered as Recovered
    from hermes_env.tools._undo import Recovery as Recovery

# These need pydantic, which costs 0.1 s: they are imported when they are first asked for.
_LAZY = {
    "Diagnostics": "_observe",
    "EditEvent": "_observe",
    "EditOutcome": "_model",
    "FileTools": "_filetools",
    "HistoryEntry": "_store",
    "Observer": "_observe",
    "ReadOutcome": "_read",
    "Recovered": "_undo",
    "Recovery": "_undo",
    "Retention": "_store",
    "call": "_call",
    "tool_schemas": "_schemas",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
