"""`trimtab demo`: a generated workload with and without steering, with the real server as a process.

The server runs in embedded mode, and is sent real AdmissionReviews over TLS. A model of the stock scheduler
binds each Pod, and the server hears of it as it would through a watch. The same arrivals are then placed
without steering, and by an online choice that knows true use.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from webhook.demo import report, workload
from webhook.demo.replay import Run, Step, ideal, scheduled
from webhook.demo.report import Result
from webhook.demo.server import ServerError, Webhook
from webhook.demo.workload import Workload


def run(*, nodes: int, pods: int, seed: int, output: str) -> int:
    """Run the demo and write its result to stdout; return the exit code."""
    errors = Console(stderr=True)
    generated = workload.generate(nodes, pods, seed)
    try:
        with _progress(errors) as progress:
            result = _replay(generated, seed, progress)
    except (ServerError, OSError) as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False)
        return 1
    if output == "json":
        sys.stdout.write(report.as_json(result) + "\n")
    else:
        report.show(result, Console())
    return 0


def _replay(generated: Workload, seed: int, progress: Progress) -> Result:
    shown = len(generated.pods) // 2
    stock_run = scheduled(generated, seed, _step(progress, "stock scheduler", generated), shown=shown)
    started = time.monotonic()
    steered = _steered(generated, seed, _step(progress, "steered by Trimtab", generated), shown)
    seconds = time.monotonic() - started
    best = ideal(generated, _step(progress, "ideal", generated))
    return Result(seed, generated, stock_run, steered, best, seconds)


def _steered(generated: Workload, seed: int, step: Step, shown: int) -> Run:
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-demo-") as directory,
        Webhook(generated.cluster(), Path(directory)) as steering,
    ):
        return scheduled(generated, seed, step, shown=shown, steering=steering)


@contextmanager
def _progress(errors: Console) -> Iterator[Progress]:
    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield progress


def _step(progress: Progress, description: str, generated: Workload) -> Step:
    task = progress.add_task(description, total=len(generated.pods))
    return lambda: progress.advance(task)
