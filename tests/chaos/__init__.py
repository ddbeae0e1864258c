"""The practice run: crawls whose workers are killed again and again, and what must be true of them afterwards.

`python -m tests.chaos` runs it at full size on every backend and prints the figures; `tests/test_chaos.py` runs it
short.
"""
