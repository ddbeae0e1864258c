"""How to read each row of the dashboard."""

from __future__ import annotations

from infra.alarms import RUNBOOK, THROTTLES
from infra.frontier import LANE_RETENTION

ALARMS = f"""### Is anything wrong?
Green: no. Red: the alarm's description says what it means, `{RUNBOOK}` what to do. **Janitor** is red for the first
minutes of a new stack."""

MOVING = """### Is it moving?
**To do** falls while **done** grows: all is well.

**To do** grows, **done** grows: pages bring more links than the workers take. Wait; or raise `maxWorkers`, or limit the
crawl with `--max-pages` or `--exclude`.

**To do** grows or stands while **done** is flat: nothing moves. **Waiting** high: are there workers? **In flight**
high: hosts or the archive do not answer. Only **delayed**: every host's turn is far.

**Delayed** high and **waiting** low: the hosts' pace sets the speed, more workers would not help.

Queues report a minute or two late; running crawls are counted at each look of the janitor."""

POLITE = """### Is it polite?
**Latency** rises with our load: the hosts suffer. Their gates widen by themselves; lower `--rate` if it goes on.

**Hosts held back** answered 429 or 503, asked to wait, or failed. A few are normal in a broad crawl.

**Given back** is what came before its host's turn: high beside few pages means few hosts for many URLs."""

HEALTHY = f"""### Is it healthy?
**Failures** of some per cent are the web. A sudden rise is one big host, or our own network.

**Dead pages** used up their attempts: `crawler dead list` says why. **Messages that kill workers** should be 0; the
janitor makes dead pages of them.

**Oldest message**: after {LANE_RETENTION.to_days():.0f} days SQS drops it.

**Trouble** should be 0 everywhere. *Stalled* is 1 while pages are left and none is finished. A *lost* worker was
killed; its pages come back. *Lost and found* pages were on no queue, and are again."""

WORKERS = """### Are there workers?
**Reports**: each process writes one a minute, a function one an invocation. None while URLs wait: workers do not start,
or die before they report.

**Memory** that only grows ends in a killed worker."""

FARGATE = """
**Tasks** follow the backlog a minute or two late, down to 0. **CPU** near 100 %: `cpu` is the limit. Far below with
URLs waiting: hosts are slow or paced."""

FUNCTIONS = """
**Functions** that *failed* are tried again by the queue. **Duration** near `functionTimeout`: they are cut off."""

TABLE = f"""### Does the table keep up?
**Consumed** is what DynamoDB bills, about two write units a URL.

**Throttled** and **refused** should be 0 but for minutes after a sudden start: on demand a table doubles its peak at
once and needs time for more. Workers wait and repeat; nothing is lost. Alarm above {THROTTLES} in five minutes."""

COST = """### What does it cost?
**Dollars** are SQS, DynamoDB and S3 requests at list price. Left out: Fargate or Lambda time, public addresses, what
is stored, logs and metrics. `crawler cost` adds what it can.

**AWS requests a page** near 1 is right; many times that: pages are tried or given back too often.

**Log bytes a page**: 200 at most; more is a worker that complains, see the saved queries in Logs Insights."""
