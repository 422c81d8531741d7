"""A Vercel Sandbox as an environment: made for it and destroyed with it, or one that is attached to."""

from ._environment import VercelEnvironment as VercelEnvironment

__all__ = ["VercelEnvironment"]
