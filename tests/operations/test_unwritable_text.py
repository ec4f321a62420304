"""Text that no database takes, wherever an operator gives it: wrong input with its name, not trouble with the store."""

from __future__ import annotations

from typing import Any

import pytest

from durable import get_workflow
from durable.errors import KeyInvalid, OptionInvalid, PayloadError, WorkflowNotFound
from durable.flow.looks import look
from durable.operations import (
    DeadLetterFilter,
    RedriveMode,
    discard,
    discard_many,
    pause,
    preview_redrive,
    redrive,
    redrive_many,
    resume,
    terminate,
    unblock,
)
from tests.flow.state import everything
from tests.operations.scenes import dead, history

pytestmark = pytest.mark.django_db


def held() -> Any:
    """A held dead letter of a workflow of its own."""
    return dead(history("activity_scheduled 1"))


UNWRITABLE = ["a\0b", "a\ud800b"]


@pytest.mark.parametrize("text", UNWRITABLE, ids=ascii)
@pytest.mark.parametrize("name", ["workflow_type", "activity", "queue"])
def test_a_filter_that_no_database_takes_is_wrong_input_and_no_trouble_with_the_store(name: str, text: str) -> None:
    meant = DeadLetterFilter(**{name: text})  # type: ignore[arg-type]
    row = held()
    for call in (
        lambda: redrive_many(meant),
        lambda: discard_many(meant, reason="done"),
        lambda: preview_redrive(meant),
        lambda: look.dead_letters_matching(meant, limit=1),
    ):
        with pytest.raises(OptionInvalid, match=f"{name}='a.*b' is not allowed: {name} is text without NUL") as refused:
            call()
        str(refused.value).encode()
    row.refresh_from_db()
    assert row.status == "dead"


@pytest.mark.parametrize(
    "wrong", [{"workflow_id": "no id"}, {"workflow_ids": ("a\0",)}, {"cause": "a\ud800"}], ids=ascii
)
def test_a_filter_that_can_not_be_meant_names_the_value(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionInvalid) as refused:
        redrive_many(DeadLetterFilter(**wrong))
    str(refused.value).encode()


@pytest.mark.parametrize("text", UNWRITABLE, ids=ascii)
def test_every_text_that_an_operator_gives_is_refused_by_its_name(text: str) -> None:
    row = held()
    one = (row.workflow_id, row.ordinal)
    handle = get_workflow(row.workflow_id)
    calls: list[Any] = [
        lambda: redrive_many([row], reason=text),
        lambda: redrive_many([row], actor=text),
        lambda: redrive(*one, reason=text),
        lambda: redrive(*one, actor=text),
        lambda: redrive(*one, mode=RedriveMode.FORCED, reason=text),
        lambda: discard_many([row], reason=text),
        lambda: discard(*one, reason="done", actor=text),
        lambda: discard(*one, reason=text),
        lambda: pause(row.workflow_id, reason=text),
        lambda: pause(row.workflow_id, actor=text),
        lambda: resume(row.workflow_id, reason=text),
        lambda: resume(row.workflow_id, actor=text),
        lambda: terminate(row.workflow_id, reason=text),
        lambda: terminate(row.workflow_id, reason="done", actor=text),
        lambda: unblock(row.workflow_id, reason=text),
        lambda: unblock(row.workflow_id, actor=text),
        lambda: handle.signal(text),
        lambda: handle.signal("go", text),
        lambda: handle.signal("go", {text: 1}),
        lambda: handle.signal("go", dedup=text),
        lambda: handle.cancel(reason=text),
        lambda: look.listing(workflow_type=text),
        lambda: look.listing(key=text),
    ]
    before = everything()
    for call in calls:
        with pytest.raises((OptionInvalid, KeyInvalid, PayloadError)) as refused:
            call()
        str(refused.value).encode()
    with pytest.raises(WorkflowNotFound) as not_there:
        get_workflow(text)
    str(not_there.value).encode()
    assert everything() == before
