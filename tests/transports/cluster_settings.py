"""Settings of the workers and clusters that tests start as processes: the queue `reports` is sent to a cluster."""

from __future__ import annotations

import json
import os
from datetime import timedelta

from tests.chaos.plant_settings import *  # noqa: F403
from tests.chaos.plant_settings import DURABLE
from tests.settings import Q_CLUSTER

Q_CLUSTER = Q_CLUSTER | json.loads(os.environ.get("PLANT_CLUSTER", "{}"))
if "redis" in Q_CLUSTER:
    del Q_CLUSTER["orm"]
DURABLE = DURABLE | {
    "QUEUES": {
        "reports": {
            "transport": "django_q",
            "cluster": "default",
            "begin_for": timedelta(seconds=float(os.environ.get("PLANT_BEGIN", "900"))),
            **({"max_out": int(os.environ["PLANT_MAX_OUT"])} if "PLANT_MAX_OUT" in os.environ else {}),
        }
    }
}
