"""A Docker container as an environment: made for it and removed with it, or one that exists already."""

from ._environment import DockerEnvironment as DockerEnvironment

__all__ = ["DockerEnvironment"]
