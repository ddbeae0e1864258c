"""Calls a function's handler with an event, as Lambda would: python -m tests.stack.calling MODULE SECONDS EVENT.
Prints its answer as JSON on the last line."""

from __future__ import annotations

import importlib
import json
import os
import sys


class Context:
    """What the handlers ask of a context."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return self._seconds * 1000


if __name__ == "__main__":
    module, seconds, event = sys.argv[1:]
    print(json.dumps(importlib.import_module(module).handler(json.loads(event), Context(int(seconds)))), flush=True)
    # Lambda ends a process without a word, too.
    os._exit(0)
