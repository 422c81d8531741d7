"""The suite as a pytest plugin, on demand: ``pytest -p hermes_env_conformance.plugin --hermes-backend NAME``."""

from __future__ import annotations

import pytest

from hermes_env import BackendNotFound, BackendUnavailable, load_backend, options_from_arguments

from . import _report
from ._choice import choose_laws, make_suite
from ._collect import ENTRY, Collector
from ._corpus import PROFILES
from ._record import Recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    """What can be given on pytest's command line."""
    group = parser.getgroup("hermes_env conformance")
    group.addoption("--hermes-backend", metavar="NAME", help="run the laws against this backend")
    group.addoption(
        "--hermes-option", action="append", default=[], metavar="K=V", help="option of the backend; never a secret"
    )
    group.addoption("--hermes-profile", choices=PROFILES, default="default")
    group.addoption("--hermes-chapter", action="append", default=[], metavar="CHAPTER")
    group.addoption("--hermes-report", metavar="DIR", help="write the JSON report and its schema there")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the suite when a backend was named."""
    Recorder.of(config)
    backend = config.getoption("--hermes-backend")
    if backend is None:
        return
    try:
        options = options_from_arguments(load_backend(backend), backend, config.getoption("--hermes-option"))
        chosen = choose_laws(config.getoption("--hermes-chapter"), ())
        suite = make_suite(backend, options=options, profile=config.getoption("--hermes-profile"))
    except (BackendNotFound, BackendUnavailable, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(Collector(suite, chosen))
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args.clear()
    config.args.append(str(ENTRY))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report when one was asked for."""
    directory = session.config.getoption("--hermes-report")
    if directory is not None:
        _report.write(_report.build(Recorder.of(session.config)), directory)
