"""Entry point of the CDK app, as cdk.json names it.

    make setup                                          # .venv with aws-cdk-lib
    npx aws-cdk@2 bootstrap                             # once an account and region
    aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com     # unless the account has had a cluster
    npx aws-cdk@2 deploy                                # needs Docker for the image, or -c image=URI
    npx aws-cdk@2 deploy -c fetchers=lambda             # needs no Docker
    npx aws-cdk@2 deploy -c stackName=News -c lease=300

`python -m infra.app` alone writes the same template to cdk.out: no account, no network, no Docker, no npm package; only
Node for the CDK library itself. Settings are listed in `config.py`; lasting ones go into the context of cdk.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from aws_cdk import App

from infra.config import ConfigError, stack_config
from infra.stack import CrawlerStack

CDK_JSON = Path(__file__).parents[1] / "cdk.json"


def main() -> int:
    """Synthesize; 2 when the context makes no sense."""
    # The cdk command hands its own context over in the environment, which wins; without it cdk.json is read here.
    app = App(
        context=json.loads(CDK_JSON.read_text())["context"],
        outdir=os.environ.get("CDK_OUTDIR", "cdk.out"),
        analytics_reporting=False,
    )
    try:
        config = stack_config(app.node.get_all_context())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    CrawlerStack(app, config)
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
