"""Write the site as files that any web server can serve: one folder a host."""

from __future__ import annotations

import json
import random
import shutil
import statistics
from dataclasses import astuple
from pathlib import Path

from bench.site.plan import Extra, Plan, Shape
from bench.site.render import Renderer, escape
from bench.site.text import Text

_ROBOTS = """\
# robots for {host}
User-agent: badbot
Disallow: /

User-agent: *
Disallow: /private/
Disallow: /search
Disallow: /*?print=
Allow: /

Sitemap: {origin}/sitemap.xml
"""


def site(shape: Shape, folder: Path) -> Path:
    """The folder of the site, made there unless it has been made before.

    It holds a folder a host, `urls.txt` (every page that a polite crawler must reach, the seed first) and
    `truth.json` (counts). A folder that was not finished is made anew.
    """
    home = folder / "-".join(["site", *(f"{number:g}" for number in astuple(shape))])
    if not (home / "truth.json").exists():
        shutil.rmtree(home, ignore_errors=True)
        _write(shape, home)
    return home


def _write(shape: Shape, home: Path) -> None:
    rng = random.Random(shape.seed)
    text = Text(rng)
    plan = Plan(shape, rng, text)
    renderer = Renderer(plan, text, rng)

    def put(host: int, name: str, data: str | bytes) -> int:
        path = home / plan.hosts[host] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        body = data.encode() if isinstance(data, str) else data
        path.write_bytes(body)
        return len(body)

    def put_extra(extra: Extra, data: str | bytes) -> None:
        put(extra.host, extra.target.removeprefix("/"), data)

    sizes = [put(page.host, page.file, renderer.page(page)) for page in plan.pages]
    tiny = "<!DOCTYPE html><html><head><title>{}</title></head><body><p>" + text.paragraphs[1] * 8
    tiny += "</p><a href='/'>home</a></body></html>"
    for extra in plan.private:
        put_extra(extra, tiny.format("private"))
    for extra in plan.nofollow:
        put_extra(extra, tiny.format("nofollow only"))
    for extra in plan.images:
        put_extra(extra, b"\x89PNG\r\n\x1a\n" + rng.randbytes(rng.randrange(20_000, 80_000)))
    for extra in (*plan.papers, *plan.downloads):
        put_extra(extra, b"%PDF-1.4\n" + rng.randbytes(rng.randrange(50_000, 150_000)))
    for host, name in enumerate(plan.hosts):
        put(host, "private/login.html", tiny.format("login"))
        put(host, "robots.txt", _ROBOTS.format(host=name, origin=plan.origin(host)))
        put(host, "sitemap.xml", _sitemap(plan, host))
    (home / "urls.txt").write_text("".join(f"{plan.url(page)}\n" for page in plan.pages))
    truth = {
        "seed": plan.seed,
        "pages": shape.pages,
        "html_bytes": sum(sizes),
        "median_bytes": statistics.median(sizes),
        "content_links_per_page": renderer.links / shape.pages,
        "max_depth": max(page.depth for page in plan.pages),
    }
    (home / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")  # last: it marks the folder as finished


def _sitemap(plan: Plan, host: int) -> str:
    rows = "".join(
        f"<url><loc>{escape(plan.url(page))}</loc><lastmod>2026-0{1 + page.number % 9}-11</lastmod></url>\n"
        for page in plan.of_host[host]
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n'
    )
