"""Run commands and move file bytes in any execution environment, and prove that every byte arrived.

Names are imported when they are first used, so that ``import hermes_env`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_EXPORTS = {
    "BackendInfo": "_registry",
    "BackendNotFound": "_errors",
    "BackendOptions": "_options",
    "BackendUnavailable": "_errors",
    "BaseEnvironment": "_base",
    "Capabilities": "_capabilities",
    "Change": "files",
    "Channel": "_launch",
    "CommandCancelled": "_errors",
    "CommandEnvironment": "_command_env",
    "CommandFailed": "_errors",
    "CommandTimeout": "_errors",
    "Emit": "_launch",
    "EndMarks": "_marks",
    "EnvironmentGone": "_errors",
    "EnvironmentPool": "_pool",
    "ExecResult": "_result",
    "FORKLESS_KILL": "_kill_script",
    "FileChanged": "_errors",
    "HeredocEnvironment": "_heredoc",
    "FileStat": "files",
    "Files": "files",
    "HermesEnvError": "_errors",
    "InvalidArgument": "_errors",
    "KILL_SCRIPT": "_kill_script",
    "Keeper": "_keeper",
    "KillReport": "_kill_script",
    "Launch": "_launch",
    "LAUNCHER_PARTS": "_shell",
    "LazyOptions": "_hooks",
    "MakeDir": "files",
    "Move": "files",
    "OutcomeUnknown": "_errors",
    "PayloadTooLarge": "_errors",
    "PoolExhausted": "_errors",
    "PoolStats": "_pool",
    "Probe": "_probe",
    "Process": "_process",
    "Remove": "files",
    "RollbackFailed": "_errors",
    "Session": "_session",
    "SessionLost": "_errors",
    "StagingError": "_errors",
    "StagedEnvironment": "_staged",
    "StdinLike": "_launch",
    "StdinMode": "_capabilities",
    "StdinSource": "_launch",
    "Stream": "_launch",
    "SupportsPump": "_launch",
    "TransferResult": "files",
    "TransportError": "_errors",
    "Unsupported": "_errors",
    "VerificationError": "_errors",
    "Write": "files",
    "WriteResult": "files",
    "attach": "_registry",
    "check_variables": "_validate",
    "kill_until_found": "_killer",
    "list_backends": "_registry",
    "load_backend": "_registry",
    "open_environment": "_registry",
    "owner_is_gone": "_owner",
    "owner_labels": "_owner",
    "reap": "_registry",
    "options_from_arguments": "_options",
    "options_from_environment": "_options",
    "parse_kill_report": "_kill_script",
    "sdk_errors": "_sdk_errors",
    "within": "_staged_call",
}

if TYPE_CHECKING:
    from ._base import BaseEnvironment as BaseEnvironment
    from ._capabilities import Capabilities as Capabilities
    from ._capabilities import StdinMode as StdinMode
    from ._command_env import CommandEnvironment as CommandEnvironment
    from ._errors import BackendNotFound as BackendNotFound
    from ._errors import BackendUnavailable as BackendUnavailable
    from ._errors import CommandCancelled as CommandCancelled
    from ._errors import CommandFailed as CommandFailed
    from ._errors import CommandTimeout as CommandTimeout
    from ._errors import EnvironmentGone as EnvironmentGone
    from ._errors import FileChanged as FileChanged
    from ._errors import HermesEnvError as HermesEnvError
    from ._errors import InvalidArgument as InvalidArgument
    from ._errors import OutcomeUnknown as OutcomeUnknown
    from ._errors import PayloadTooLarge as PayloadTooLarge
    from ._errors import PoolExhausted as PoolExhausted
    from ._errors import RollbackFailed as RollbackFailed
    from ._errors import SessionLost as SessionLost
    from ._errors import StagingError as StagingError
    from ._errors import TransportError as TransportError
    from ._errors import Unsupported as Unsupported
    from ._errors import VerificationError as VerificationError
    from ._heredoc import HeredocEnvironment as HeredocEnvironment
    from ._hooks import LazyOptions as LazyOptions
    from ._keeper import Keeper as Keeper
    from ._kill_script import FORKLESS_KILL as FORKLESS_KILL
    from ._kill_script import KILL_SCRIPT as KILL_SCRIPT
    from ._kill_script import KillReport as KillReport
    from ._kill_script import parse_kill_report as parse_kill_report
    from ._killer import kill_until_found as kill_until_found
    from ._launch import Channel as Channel
    from ._launch import Emit as Emit
    from ._launch import Launch as Launch
    from ._launch import StdinLike as StdinLike
    from ._launch import StdinSource as StdinSource
    from ._launch import Stream as Stream
    from ._launch import SupportsPump as SupportsPump
    from ._marks import EndMarks as EndMarks
    from ._options import BackendOptions as BackendOptions
    from ._options import options_from_arguments as options_from_arguments
    from ._options import options_from_environment as options_from_environment
    from ._owner import owner_is_gone as owner_is_gone
    from ._owner import owner_labels as owner_labels
    from ._pool import EnvironmentPool as EnvironmentPool
    from ._pool import PoolStats as PoolStats
    from ._probe import Probe as Probe
    from ._process import Process as Process
    from ._registry import BackendInfo as BackendInfo
    from ._registry import attach as attach
    from ._registry import list_backends as list_backends
    from ._registry import load_backend as load_backend
    from ._registry import open_environment as open_environment
    from ._registry import reap as reap
    from ._result import ExecResult as ExecResult
    from ._sdk_errors import sdk_errors as sdk_errors
    from ._session import Session as Session
    from ._shell import LAUNCHER_PARTS as LAUNCHER_PARTS
    from ._staged import StagedEnvironment as StagedEnvironment
    from ._staged_call import within as within
    from ._validate import check_variables as check_variables
    from .files import Change as Change
    from .files import Files as Files
    from .files import FileStat as FileStat
    from .files import MakeDir as MakeDir
    from .files import Move as Move
    from .files import Remove as Remove
    from .files import TransferResult as TransferResult
    from .files import Write as Write
    from .files import WriteResult as WriteResult

__all__ = sorted(_EXPORTS)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
