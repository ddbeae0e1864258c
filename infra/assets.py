"""The functions' code as the CDK stages it.

The cdk command builds what is missing, which takes some seconds and a package registry. Without it the app must work
offline: what was not built by `make assets` is staged without its libraries then, enough to read the template by.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

from infra import bundle
from infra.bundle import Kind

__all__ = ["PYTHON", "Kind", "code"]

PYTHON = lambda_.Runtime(f"python{bundle.PYTHON}", lambda_.RuntimeFamily.PYTHON)


def code(kind: Kind) -> lambda_.Code:
    """Package and libraries of a kind of function. The hash is that of what goes in, so that a deployment without
    changes uploads nothing."""
    folder = bundle.built(kind)
    if not folder.exists() and "CDK_CLI_VERSION" in os.environ:
        bundle.build(kind)
    if not folder.exists():
        _say_once()
        folder = bundle.bare()
    return lambda_.Code.from_asset(str(folder), asset_hash=folder.name, asset_hash_type=AssetHashType.CUSTOM)


@cache
def _say_once() -> None:
    print("functions are staged without their libraries: this is for reading (make assets)", file=sys.stderr)
