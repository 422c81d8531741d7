"""A Daytona sandbox as an environment: made for it and deleted with it, or one that is attached to."""

from ._environment import DaytonaEnvironment as DaytonaEnvironment

__all__ = ["DaytonaEnvironment"]
