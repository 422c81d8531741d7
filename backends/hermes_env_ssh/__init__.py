"""Any host with an SSH server as an environment."""

from ._environment import SshEnvironment as SshEnvironment
