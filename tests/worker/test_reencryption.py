"""Re-encryption beside a worker that runs: both go on, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from durable.conf import settings as configured
from durable.flow.operator import reencrypt
from durable.kernel.payloads.birthplace import PAYLOAD_KEYS
from durable.models import Event, OutboxRow, Workflow
from tests.crypto.conftest import NEW, OLD
from tests.worker.conftest import DELIVERY_BACKOFF, Plant
from tests.worker.plant import workflows

CODEC = {"CODEC": "durable.crypto.EncryptingCodec", "DELIVERY_BACKOFF": DELIVERY_BACKOFF}
COUNT = 12


@pytest.mark.django_db(transaction=True)
def test_a_running_worker_loses_nothing(plant: Plant, settings: Any, second_connection: Callable[..., Any]) -> None:
    settings.DURABLE = {**CODEC, "ENCRYPTION_KEYS": {"old": OLD}}
    started = [plant.start(workflows.journey, f"w{number}") for number in range(COUNT)]
    for workflow_id in started:
        plant.signal(workflow_id, "go", "came")
    settings.DURABLE = {**CODEC, "ENCRYPTION_KEYS": {"new": NEW, "old": OLD}}
    over = threading.Event()

    def rewrite() -> tuple[int, int]:
        payloads = unreadable = 0
        while True:
            last_round = over.is_set()
            for workflow_id in reencrypt.workflows_after(None):
                done = reencrypt.reencrypt(workflow_id)
                payloads, unreadable = payloads + done.payloads, unreadable + done.unreadable
            if last_round:
                return payloads, unreadable

    rewriting = second_connection(rewrite)
    try:
        for _ in range(500):  # a timer is due a moment later than the first of these ends
            plant.burst()
            if not Workflow.objects.live().exists():
                break
    finally:
        over.set()
    payloads, unreadable = rewriting.result(timeout=60)
    assert unreadable == 0
    assert payloads > 0
    assert set(Workflow.objects.values_list("status", flat=True)) == {"completed"}
    assert len(started) == Workflow.objects.count()
    booked = [label for label in plant.labels() if label.endswith("came")]
    assert sorted(booked) == sorted(f"w{number} came" for number in range(COUNT))
    settings.DURABLE = {**CODEC, "ENCRYPTION_KEYS": {"new": NEW}}
    codec = configured.codec()
    texts: list[str] = [*Workflow.objects.values_list("input", flat=True)]
    texts += filter(None, Workflow.objects.values_list("result", flat=True))
    texts += OutboxRow.objects.values_list("input", flat=True)
    texts += [event.data[key] for event in Event.objects.all() for key in PAYLOAD_KEYS & event.data.keys()]
    assert len(texts) > 4 * COUNT
    assert all(codec.is_current(text) for text in texts)
