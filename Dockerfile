# The crawl worker. `cdk deploy` builds it for ARM64; by hand, for whatever this machine is:
#   docker build -t crawler . && docker run --rm crawler --help

FROM python:3.12-slim-bookworm AS build
RUN python -m venv /opt/crawler
COPY requirements/fetcher.lock /tmp/fetcher.lock
RUN /opt/crawler/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /tmp/fetcher.lock
COPY crawler /opt/crawler/lib/python3.12/site-packages/crawler
# Files come with the modes that a checkout gave them, and the worker is another user than their owner.
RUN chmod -R a+rX /opt/crawler && /opt/crawler/bin/python -m compileall -q /opt/crawler/lib

FROM python:3.12-slim-bookworm
COPY --from=build /opt/crawler /opt/crawler
# Temporary files go to /spool; on Fargate all else is read-only, and the volume takes its owner from the VOLUME line.
RUN groupadd --gid 10001 crawler \
 && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin crawler \
 && install -d -o crawler -g crawler /spool
VOLUME ["/spool"]
ENV PATH=/opt/crawler/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TMPDIR=/spool
USER 10001:10001
WORKDIR /spool
ENTRYPOINT ["python", "-m", "crawler"]
CMD ["work"]
