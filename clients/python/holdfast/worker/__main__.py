# SPDX-License-Identifier: Apache-2.0
"""``python -m holdfast.worker module:app`` runs the Worker ``app`` of a module until it is stopped by a signal."""
from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from typing import List, Optional

from . import STOP_MS, Worker


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m holdfast.worker", description="Runs a worker until SIGTERM or SIGINT; the "
                                     "second signal stops it at once.")
    parser.add_argument("app", metavar="MODULE:NAME", help="the Worker: a module, which is also looked for in the current folder, "
                        "and a name in it (default: app)")
    parser.add_argument("--server", metavar="URL", help="the address of the server; default: that of the Worker")
    parser.add_argument("--token-file", metavar="FILE", help="a file with the access token; it is read for each request")
    parser.add_argument("--concurrency", type=int, metavar="N", help="handlers that run at the same time")
    parser.add_argument("--prefetch", type=int, metavar="N", help="jobs that wait in this process for a free handler")
    parser.add_argument("--name", help="the name in GET /v1/workers")
    parser.add_argument("--stop-timeout", type=float, metavar="SECONDS", default=STOP_MS / 1000,
                        help="after this time a stop tells the running handlers to stop (%(default)g)")
    parser.add_argument("--drain", action="store_true", help="process the jobs that are ready, then stop")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(%(default)s)")
    return parser


def _app(text: str) -> Worker:
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    found = importlib.import_module(module)
    for part in (name or "app").split("."):
        found = getattr(found, part)
    if not isinstance(found, Worker):
        raise TypeError(f"{text} is not a Worker but {type(found).__name__}")
    return found


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def main(words: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(words)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logger = logging.getLogger("holdfast")
    try:
        worker = _app(options.app)
        path = options.token_file
        worker.configure(url=options.server, token=(lambda: _read(path)) if path else None, concurrency=options.concurrency,
                         prefetch=options.prefetch, name=options.name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        logger.error("%s: %s", options.app, error, exc_info=not isinstance(error, ValueError))
        return 2
    logger.info("worker %s starts", worker.name)
    worker.run(stop_timeout_ms=options.stop_timeout * 1000, drain=options.drain)
    logger.info("worker %s has stopped", worker.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
