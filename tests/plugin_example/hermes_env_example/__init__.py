"""Backend `example` for hermes_env: commands at a low priority, in a home directory of their own."""

from ._environment import ExampleEnvironment as ExampleEnvironment

__all__ = ["ExampleEnvironment"]
