# SPDX-License-Identifier: Apache-2.0
"""
A mail sender: the queue starts at most 20 mails per second, because the mail server allows no more. Errors that may pass are
tried again after a growing time; an address that does not exist is not tried again.

    HOLDFAST_SERVER=http://127.0.0.1:8000 python3 mailer.py
"""
import threading
from dataclasses import dataclass

from holdfast import Client, Context, FailJob, Hooks, Job, NewJob, ReleaseJob, Worker

QUEUE = "mail-example"


@dataclass
class Mail:
    to: str
    subject: str


class MailServer:
    """Stands for a real one: the first call for each address of busy.example and closed.example gets a temporary error."""

    def __init__(self) -> None:
        self.seen: set = set()

    def deliver(self, mail: Mail) -> "tuple[int, str]":
        domain = mail.to.split("@")[1]
        if domain == "unknown.example":
            return 550, "no such mailbox"
        if domain in ("busy.example", "closed.example") and mail.to not in self.seen:
            self.seen.add(mail.to)
            return (451, "try again later") if domain == "busy.example" else (421, "service not available")
        return 250, "queued"


class Outcomes(Hooks):
    """Counts, and says when every mail has been sent or refused."""

    def __init__(self, mails: int) -> None:
        self.counts = {"sent": 0, "refused": 0, "retried": 0, "postponed": 0}
        self.open = mails
        self.ended = threading.Event()

    def count(self, name, ends=False):
        self.counts[name] += 1
        self.open -= ends
        if self.open == 0:
            self.ended.set()

    def done(self, job, reply):
        self.count("sent", True)

    def failed(self, job, error, reply):
        self.count("refused", True) if reply.state == "dead" else self.count("retried")

    def released(self, job, reply):
        self.count("postponed")


def main() -> None:
    addresses = ["ann@example.org", "bob@busy.example", "carol@unknown.example", "dave@closed.example"]
    addresses += [f"reader{n}@example.org" for n in range(20)]
    client, server, outcomes = Client(), MailServer(), Outcomes(len(addresses))
    client.request("PUT", f"/v1/queues/{QUEUE}", {"claim_rate": {"count": 20, "window_ms": 1000, "per": "queue"},
                                                 "max_attempts": 4, "backoff_ms": [50, 100, 200]})
    worker = Worker(client, concurrency=10, hooks=outcomes)

    @worker.job(QUEUE, payload=Mail)
    def send(job: Job[Mail], ctx: Context) -> dict:
        status, text = server.deliver(job.payload)
        ctx.log(f"{status} {text}")
        if status == 421:
            raise ReleaseJob(text, delay_ms=50)  # the fault of the server: no attempt is counted
        if status >= 500:
            raise FailJob(text, kind="business", retry=False)
        if status >= 400:
            raise FailJob(text)
        return {"status": status}

    with worker:
        # The unique key keeps a mail from being sent twice if this program is started twice.
        client.enqueue_many(QUEUE, [NewJob(Mail(to, "News"), unique=to, kind="newsletter") for to in addresses])
        outcomes.ended.wait()
    client.close()
    print("done:", outcomes.counts)


if __name__ == "__main__":
    main()
