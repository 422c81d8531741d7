"""This machine as an environment: no isolation at all."""

from ._environment import LocalEnvironment as LocalEnvironment
