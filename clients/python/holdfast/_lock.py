# SPDX-License-Identifier: Apache-2.0
"""A lock of a whole module, which a forked process gets free: the thread that held it exists only in the parent."""
from __future__ import annotations

import os
import threading
from typing import Any


class ModuleLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        self._lock.release()
