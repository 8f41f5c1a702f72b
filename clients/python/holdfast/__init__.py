# SPDX-License-Identifier: Apache-2.0
"""Client and worker for Holdfast, a durable job queue. README.md is the manual."""
from ._json import RawJson
from .aio import AsyncClient
from .client import Client
from .errors import (AbortedError, FailJob, HoldfastError, JobCancelledError, LeaseLostError, NoConnectionError,
                     PayloadError, Problem, ProblemError, ReleaseJob, UnknownOutcomeError, WorkerStoppedError)
from .trace import Tracing
from .types import (Enqueued, Job, JobList, JobView, Lease, LeaseReply, Moved, NewJob, SetKey)
from .worker import Context, Hooks, Worker

__version__ = "0.1.0"

__all__ = [
    "AbortedError", "AsyncClient", "Client", "Context", "Enqueued", "FailJob", "HoldfastError", "Hooks", "Job", "JobCancelledError", "JobList", "JobView",
    "Lease", "LeaseLostError", "LeaseReply", "Moved", "NewJob", "NoConnectionError", "PayloadError", "Problem",
    "ProblemError", "RawJson", "ReleaseJob", "SetKey", "Tracing", "UnknownOutcomeError", "Worker",
    "WorkerStoppedError",
]
