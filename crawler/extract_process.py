"""The child side of `extractor.py`: calls one user's function for page after page, in order.

Started as `python -m crawler.extract_process FD PARENT SPEC TRACE`. The function is imported before the child says that
it is ready, so that a slow import counts against no page. It may be killed at any moment.
"""

from __future__ import annotations

import os
import sys

import msgspec

from crawler.errors import NotImportable, UsageError
from crawler.extract import Function, Request, extracted, load
from crawler.fetched import Extracted
from crawler.parser_process import confine, serve


def main(fd: int, parent: int, spec: str, *, trace: bool) -> None:
    """Serve until the socket ends. A function that cannot be had is what every page is answered with."""
    confine(parent)
    if not trace:
        # What a function or its libraries print, a line a page, is nothing for the log of a crawl.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    function: Function | None = None
    refusal = Extracted()
    try:
        function = load(spec)
    except UsageError as error:
        refusal = Extracted(refused=str(error), importable=not isinstance(error, NotImportable))
        if trace and error.__cause__ is not None:
            sys.excepthook(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)

    def answer(request: Request) -> Extracted:
        if function is None:
            return refusal
        return Extracted() if not request.url else extracted(function, request, trace=trace)

    serve(fd, msgspec.msgpack.Decoder(Request), answer)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], trace=sys.argv[4] == "1")
