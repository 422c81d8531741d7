"""Environments that are broken on purpose, one kind of fault each: the suite must fail every one of them."""
