"""A function's folder for temporary files.

Lambda ends a process that takes too long, or too much memory, and starts another in its place, beside all that the
first had in /tmp. What a call was cut off from would lie there for good, in the way of all that follow.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "crawler-function-"


def own_folder() -> None:
    """Let temporary files of this process lie in a folder of its own, and remove those of processes that are gone.

    Only under Lambda's runtime: elsewhere several processes share a folder, and none replaces another.
    """
    if "AWS_LAMBDA_RUNTIME_API" not in os.environ:
        return
    root, ours = Path(tempfile.gettempdir()), str(os.getpid())
    for folder in root.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX)
        if owner == ours or not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)
    own = root / f"{PREFIX}{ours}"
    own.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(own)
