"""A small suite with the engine's tables on an alias of their own; `tests/house/test_second_alias.py` runs it."""
