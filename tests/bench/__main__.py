"""`make bench`: every measurement, or the ones named, as one JSON object on standard output."""

import json
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

from . import admission, batch, events, planning

BENCHES: dict[str, Callable[[], Any]] = {
    "admission": admission.measured,
    "batches": batch.measured,
    "decision": planning.measured,
    "events": events.measured,
}


def main() -> None:
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        sys.exit(f"bench: expected some of {', '.join(BENCHES)}; found {', '.join(unknown)}")
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
    }
    print(json.dumps({"machine": machine} | {name: BENCHES[name]() for name in wanted}, indent=2))


if __name__ == "__main__":
    main()
