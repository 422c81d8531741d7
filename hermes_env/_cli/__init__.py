"""The command line, installed as `hermes-env`; needs the extra ``cli``."""
