"""The laws that every environment must keep, and the means to prove that one does.

Derive from `ConformanceSuite` in a test file of your own, call `run`, or use the command line::

    python -m hermes_env_conformance NAME [--profile quick|default|full]
"""

from . import _needed as _needed
from ._choice import make_suite as make_suite
from ._explain import explain_law as explain_law
from ._law import Law as Law
from ._oracle import Digest as Digest
from ._oracle import InsideOracle as InsideOracle
from ._oracle import Oracle as Oracle
from ._report import ConformanceReport as ConformanceReport
from ._report import schema as schema
from ._run import run as run
from ._suite import CHAPTERS as CHAPTERS
from ._suite import LAWS as LAWS
from ._suite import ConformanceSuite as ConformanceSuite
