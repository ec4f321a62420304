"""The command, run in this process, and workflows for it to see."""

from __future__ import annotations

import io
import json
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError

from durable.decorators.workflows import WorkflowType
from durable.kernel.definitions.registry import registry
from durable.models import Workflow


class Ran:
    """What a run of the command printed, and the code that it would exit with."""

    def __init__(self, *arguments: str) -> None:
        out = io.StringIO()
        self.code, self.said = 0, ""
        try:
            call_command("durable", *arguments, stdout=out)
        except CommandError as error:
            self.code, self.said = error.returncode, str(error)
        except SystemExit as end:
            self.code = int(str(end.code))
        self.out = out.getvalue()

    @property
    def data(self) -> Any:
        """What stands on stdout, as JSON."""
        return json.loads(self.out)


def started(**options: Any) -> Workflow:
    """A workflow as `start` leaves it."""
    definition = registry.workflow("shop.checkout")
    assert isinstance(definition, WorkflowType)
    return Workflow.objects.get(pk=definition.options(**options).start(42).id)
