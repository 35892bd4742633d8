"""A webhook that does nothing: the same listener, TLS and decoder as Trimtab's, and `allowed: true`.

It is the baseline of every admission benchmark. Run as `python -m tests.bench.noop DIR`; it prints the
line that `trimtab serve` prints once it listens.
"""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from certs.files import ensure_files
from certs.tls import ServingContext
from webhook import review
from webhook.server import KEEPALIVE_S, MAX_BODY


async def mutate(request: web.Request) -> web.Response:
    decoded = review.decode(await request.read())
    return web.Response(body=review.allow(decoded.uid), content_type="application/json")


async def run(directory: Path) -> None:
    material = ensure_files(
        directory, dns_names=["localhost"], ip_addresses=["127.0.0.1"], now=datetime.now(UTC)
    )
    serving = ServingContext()
    serving.load(material.leaf)
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_post("/mutate", mutate)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEPALIVE_S)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=serving.context).start()
    print(f"listening on https://127.0.0.1:{runner.addresses[0][1]}/mutate", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1])))
