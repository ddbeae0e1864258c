"""`make demo`: serve a small site on loopback, crawl it with the real command, prove that nothing was lost."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from crawler.demo.site import running

OUT = Path("demo-crawl")


def main() -> int:
    """Exit code of the first command that failed, else 0."""
    with running() as site:
        print(f"Serving a test site of {len(site.truth.fetched)} URLs on three hosts of this machine.\n", flush=True)
        mine = ["--rate", "0", "--allow-private", "--contact", "demo@example.com"]
        code = shown("crawl", *site.seeds, "--out", str(OUT), *mine, "--fresh", "--yes")
        code = code or shown("verify", "--state", str(OUT))
    if code == 0:
        print("\nNow crawl a site of your own, at one request per second:")
        print("  .venv/bin/crawler crawl https://example.com --contact you@example.com")
    return code


def shown(*arguments: str) -> int:
    """Run a command of this program after showing it as a user would type it."""
    print(f"$ crawler {shlex.join(arguments)}", flush=True)
    return subprocess.run([sys.executable, "-m", "crawler", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
