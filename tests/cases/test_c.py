"""Answers of the kinds that make crawlers lose pages or leave their way, in whole crawls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manners.crawls import HTML, crawled, redirect, site
from tests.servers import Peer, reply, serve

PAGE = b"<a href=/leaf>leaf</a>" + b"x" * 1178
LOCATED = {
    "/nowhere": ("Location: http://", None),
    "/empty": ("Location:", None),
    "/none": ("X-Location: /p", None),
    "/app": ("Location: exampleapp://x", None),
    "/broken": ("Location: http://[::1", None),
    "/label": (f"Location: http://{'a' * 64}.example/", None),
    "/dots": ("Location: http://a..example/", None),
    "/port": ("Location: http://site.example:99999/", None),
    "/bytes": ("Location: /caf\xe9", "/caf%E9"),
    "/x/up": ("Location: ../p", "/p"),
    "/two": ("Location: /first\r\nLocation: /second", "/first"),
}
"""Redirects by path: their fields, and where they lead."""


@pytest.mark.case("C06", "A06")
async def test_redirects_that_lead_nowhere_are_answers_and_the_others_are_followed(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target in LOCATED:
            return reply(b"", LOCATED[target][0], status="302 Found")
        if target in ("/choice", "/same"):
            status = "300 Multiple Choices" if target == "/choice" else "304 Not Modified"
            return f"HTTP/1.1 {status}\r\nLocation: /not\r\nContent-Length: 0\r\n\r\n".encode()
        return reply(b"leaf", HTML)

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, *map(server.url, [*LOCATED, "/choice", "/same"]))
    targets = [to for _, to in LOCATED.values() if to]
    assert sorted(server.targets) == sorted(["/robots.txt", *LOCATED, "/choice", "/same", *targets])
    assert {row["outcome"] for row in rows.values()} == {"done"}
    for path, (_, to) in LOCATED.items():
        row = rows[server.url(path)]
        assert (row["status"], row["redirect_to"]) == (302, server.url(to) if to else None)
    assert {rows[server.url(path)]["status"] for path in ("/choice", "/same")} == {300, 304}


@pytest.mark.case("C08")
async def test_a_redirect_out_of_scope_is_not_followed_and_ten_to_one_page_fetch_it_once(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target.startswith("/out"):
            return redirect(other.url("/x"))
        return redirect("/home") if target.startswith("/to") else reply(b"<a href=sub>x</a>", HTML)

    async with serve(site(answer), host="127.0.0.2") as other, serve(site(answer)) as server:
        seeds = [server.url(f"/to/{number}") for number in range(10)]
        rows = await crawled(tmp_path, server.url("/out?u=x"), *seeds)
    assert other.connections == 0
    assert (rows[other.url("/x")]["outcome"], rows[other.url("/x")]["reason"]) == ("skipped", "scope-after-redirect")
    assert server.targets.count("/home") == 1
    assert {rows[seed]["redirect_to"] for seed in seeds} == {server.url("/home")}
    assert rows[server.url("/sub")]["outcome"] == "done", "links belong to the page that the redirect led to"


@pytest.mark.case("C01")
async def test_a_body_that_ends_early_is_asked_for_once_more_and_then_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.retry.backoff", lambda *_, **__: 0.05)

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            match head.split(b" ", 2)[1]:
                case b"/length":
                    await peer.send(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99999\r\n\r\n" + PAGE
                    )
                    return
                case b"/chunked":
                    fields = b"Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
                    await peer.send(b"HTTP/1.1 200 OK\r\n" + fields + b"4b0\r\n" + PAGE + b"\r\n")
                    return
                case b"/robots.txt":
                    await peer.send(reply(b"", status="404 Not Found"))
                case _:
                    await peer.send(reply(b"leaf", HTML))

    async with serve(script) as server:
        rows = await crawled(tmp_path, server.url("/length"), server.url("/chunked"))
    assert sorted(server.targets) == ["/chunked"] * 2 + ["/leaf"] + ["/length"] * 2 + ["/robots.txt"]
    for path in ("/length", "/chunked"):
        row = rows[server.url(path)]
        assert (row["status"], row["bytes"], row["truncated"], row["attempts"]) == (200, len(PAGE), True, 2)
    assert rows[server.url("/leaf")]["truncated"] is False


@pytest.mark.case("C05")
@pytest.mark.parametrize(
    "fields",
    [["Content-Security-Policy: " + "x" * 9000], [f"X-{number}: 1" for number in range(200)], ["no colon"]],
    ids=["9 kB", "200 fields", "no colon"],
)
async def test_a_large_or_faulty_header_section_means_neither_no_page_nor_no_rules(
    tmp_path: Path, fields: list[str]
) -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            robots = b"/robots.txt" in head
            body = b"User-agent: *\nDisallow: /private\n" if robots else b"<a href=/private>x</a>"
            await peer.send(reply(body, HTML, *fields))

    async with serve(script) as server:
        rows = await crawled(tmp_path, server.url("/"))
    assert server.targets == ["/robots.txt", "/"]
    assert rows[server.url("/")]["status"] == 200
    assert rows[server.url("/private")]["reason"] == "robots"


@pytest.mark.case("C17")
async def test_links_redirects_and_sitemaps_into_metadata_addresses_are_refused(tmp_path: Path) -> None:
    """With permission for private networks, which this server needs; these addresses are refused all the same."""
    inside = ["http://169.254.169.254/", "http://0xa9fea9fe/x", "http://[::ffff:169.254.169.254]/y"]

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            match head.split(b" ", 2)[1]:
                case b"/robots.txt":
                    await peer.send(reply(b"Sitemap: http://169.254.169.254/s.xml\nSitemap: /s.xml\n"))
                case b"/s.xml":
                    await peer.send(reply(b"<urlset><url><loc>http://169.254.169.254/z</loc></url></urlset>"))
                case b"/go":
                    await peer.send(redirect("http://169.254.169.254/latest/meta-data/"))
                case _:
                    links = "".join(f"<a href='{url}'>x</a>" for url in [*inside, "/go"])
                    await peer.send(reply(links.encode(), HTML))

    async with serve(script) as server:
        rows = await crawled(tmp_path, server.url("/"), scope="any")
    refused = {url for url, row in rows.items() if (row["outcome"], row["reason"]) == ("skipped", "private-address")}
    assert refused == {
        "http://169.254.169.254/",
        "http://169.254.169.254/x",
        "http://[::ffff:a9fe:a9fe]/y",
        "http://169.254.169.254/z",
        "http://169.254.169.254/latest/meta-data/",
    }
    assert {row["status"] for row in rows.values() if row["outcome"] == "done"} == {200, 302}
