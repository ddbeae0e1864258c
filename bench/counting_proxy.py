"""Count the AWS requests that pass between clients and an endpoint, by operation, without touching either."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import aiohttp
import yarl
from aiohttp import web

from crawler.cost.usage import Units, Usage, least, of_answer, of_request

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "expect"})
_SERVICES = {"DynamoDB": "DynamoDB", "AmazonSQS": "SQS", "s3": "S3"}
_SUB_RESOURCES = (
    ("POST", "uploads", "CreateMultipartUpload"),
    ("POST", "uploadId", "CompleteMultipartUpload"),
    ("POST", "delete", "DeleteObjects"),
    ("PUT", "partNumber", "UploadPart"),
    ("DELETE", "uploadId", "AbortMultipartUpload"),
    ("GET", "list-type", "ListObjectsV2"),
)


class Call(NamedTuple):
    """A request as its service understands it. `body` is its JSON, {} where it has none. `used` is what it is billed
    as, by the rules that the crawler counts itself by, and by what passed here."""

    service: str
    operation: str
    body: dict[str, Any]
    used: Usage = Usage()


class CountingProxy:
    """An HTTP proxy in front of `upstream` for the time of an `async with`; `calls` holds what passed."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self.calls: list[Call] = []
        self.endpoint = ""

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """Requests by service and operation."""
        return Counter((call.service, call.operation) for call in self.calls)

    async def __aenter__(self) -> CountingProxy:
        self._client = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))
        self._runner = web.AppRunner(_application(self._pass_on), access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()
        await self._client.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        number = len(self.calls)
        self.calls.append(_sent(_call(request, body), request, body))
        # The Host header stays as the client signed it.
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        url = yarl.URL(self._upstream + request.raw_path, encoded=True)
        async with self._client.request(request.method, url, headers=headers, data=io.BytesIO(body)) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP]
            answered = await answer.read()
            self.calls[number] = _answered(self.calls[number], answered)
            response = web.Response(status=answer.status, body=answered)
            response.headers.clear()
            response.headers.extend(kept)
            return response


def _application(handler: Any) -> web.Application:
    application = web.Application(client_max_size=1 << 30)
    application.router.add_route("*", "/{path:.*}", handler)
    return application


def _call(request: web.Request, body: bytes) -> Call:
    target = request.headers.get("X-Amz-Target", "")
    if target:
        service, _, operation = target.partition(".")
        return Call(_SERVICES.get(service.split("_")[0], service), operation, json.loads(body or b"{}"))
    scope = re.search(r"/(\w+)/aws4_request", request.headers.get("Authorization", ""))
    service = scope[1] if scope else "unsigned"
    if service == "s3":
        return Call("S3", _s3_operation(request), {})
    action = parse_qs(body.decode("latin-1")).get("Action", [request.method])[0]
    return Call(_SERVICES.get(service, service), action, {})


def _sent(call: Call, request: web.Request, body: bytes) -> Call:
    """The request with what it is billed as, answered or not."""
    name = f"{call.service.lower()}.{call.operation}"
    return call._replace(used=Usage({name: 1}, _summed(of_request(name, body, request.headers))))


def _answered(call: Call, answered: bytes) -> Call:
    """The request with what its answer adds."""
    told = json.loads(answered) if call.service == "DynamoDB" else {}
    if "__type" in told:  # as the client library spells a refusal
        told["Error"] = {"Code": told["__type"].rpartition("#")[2]}
    (name,) = call.used.requests
    units = of_answer(name, len(answered), told, least(call.operation, call.body))
    return call._replace(used=call.used + Usage({}, _summed(units)))


def _summed(units: Units) -> dict[str, int]:
    sums = Counter[str]()
    for unit, count in units:
        sums[unit] += count
    return dict(sums)


def _s3_operation(request: web.Request) -> str:
    """The operation's name by method, sub-resource and whether the path names an object or only a bucket."""
    for method, parameter, name in _SUB_RESOURCES:
        if request.method == method and parameter in request.query:
            return name
    of = "Object" if request.path.strip("/").count("/") else "Bucket"
    return f"{request.method.capitalize()}{of}"
