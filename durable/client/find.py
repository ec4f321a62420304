"""Finding workflows by id or business key."""

from __future__ import annotations

import uuid
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from durable.client.handle import Handle
from durable.client.places import outside_workflows, synchronous
from durable.conf import settings
from durable.errors import KeyInvalid, WorkflowNotFound
from durable.errors.showing import shown
from durable.flow.looks import look
from durable.kernel.definitions.definition import WorkflowDefinition
from durable.kernel.definitions.options import check_text

R = TypeVar("R")


def get_workflow(workflow_id: uuid.UUID | str) -> Handle[Any]:
    """The handle of a workflow, by its id as a UUID or as text. Does not query the database; the handle's calls do.

    Raises `WorkflowNotFound` for text that is not an id, as the handle's calls do for an id that no workflow has, and
    `KeyInvalid` for what is neither a UUID nor text.
    """
    if isinstance(workflow_id, uuid.UUID):
        return Handle(workflow_id)
    if not isinstance(workflow_id, str):
        raise KeyInvalid("workflow id", workflow_id, "it has to be a UUID, or the text of one")
    try:
        return Handle(uuid.UUID(workflow_id))
    except ValueError:
        raise WorkflowNotFound(f"{shown(workflow_id)}: that is not the text of a UUID") from None


def get_by_key(definition: WorkflowDefinition[Any, R], key: str) -> Handle[R]:
    """The live workflow of a type that holds the key, else the latest that did. Raises `WorkflowNotFound`."""
    name = definition.fn.__name__
    synchronous(f"{name}.get(...)", f"{name}.aget(...)")
    check_text("key", key, settings.max_key_length)
    return Handle(look.by_key(definition.name, key).id, hint=definition.result_hint)


async def aget_by_key(definition: WorkflowDefinition[Any, R], key: str) -> Handle[R]:
    """`get_by_key`, on the connection of the async caller."""
    outside_workflows(f"{definition.fn.__name__}.aget(...)")
    return await sync_to_async(get_by_key, thread_sensitive=True)(definition, key)
