"""The CDK app: one stack, a construct a concern, composed and granted in `stack.py`."""

import os

# Runs before aws_cdk starts its Node process, which would print a page about the end of Node 20's life on each synth.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
