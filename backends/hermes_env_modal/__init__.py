"""A Modal sandbox as an environment: made for it and terminated with it, or one that is attached to."""

from ._environment import ModalEnvironment as ModalEnvironment

__all__ = ["ModalEnvironment"]
