"""Values that nobody else on the machine is to see come over standard input, and stand on no command line."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

import durable
from durable.kernel.definitions.registry import registry
from durable.models import Message, Workflow

pytestmark = pytest.mark.django_db


def given(monkeypatch: pytest.MonkeyPatch, text: str, *arguments: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    call_command("durable", *arguments, stdout=io.StringIO())


def test_a_dash_stands_for_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    with registry.isolated():

        @durable.workflow(name="vault.open")
        async def open_vault(pin: str, doors: int = 1) -> None: ...

        given(monkeypatch, '{"pin": "4711"}\n', "start", "vault.open", "--kwargs", "-")
        given(monkeypatch, '["4711", 2]', "start", "vault.open", "--args", "-")
        one, two = Workflow.objects.order_by("pk")
        assert [json.loads(each.input) for each in (one, two)] == [{"pin": "4711"}, {"pin": "4711", "doors": 2}]
        given(monkeypatch, '{"ok": true}', "signal", str(one.pk), "go", "--payload", "-")
        assert json.loads(json.loads(Message.objects.get(kind="signal").payload)["payload"]) == {"ok": True}
        with pytest.raises(CommandError, match="--payload is not JSON"):
            given(monkeypatch, "", "signal", str(one.pk), "go", "--payload", "-")
