"""Digests of arguments give nothing away: each run has a key of its own, which nobody is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from durable import testing
from durable.kernel.codec import digest
from durable.kernel.history.events import DIGEST_KEY
from durable.kernel.payloads import birthplace
from durable.models import Event
from tests.canary.shifting import Shifting
from tests.flow import cases
from tests.flow.driver import Driver, history, workflow

pytestmark = pytest.mark.django_db(transaction=True)


def begun(driver: Driver) -> Any:
    workflow_id = driver.start(cases.sequence, 2)
    driver.turn()
    return workflow_id


def data(workflow_id: Any, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = Event.objects.get(workflow_id=workflow_id, seq=seq).data
    return found


def test_two_runs_that_call_the_same_have_different_digests(driver: Driver) -> None:
    first, second = (data(begun(driver), 2) for _ in range(2))
    assert first["activity"] == second["activity"]
    assert first["digest"] != second["digest"]
    assert digest('{"n":0}') not in (first["digest"], second["digest"])


@override_settings(DURABLE={"CODEC": f"{__name__}.Shifting"})
def test_the_key_is_stored_through_the_codec(driver: Driver) -> None:
    workflow_id = begun(driver)
    key = json.loads(Shifting().unwrap(data(workflow_id, 1)[DIGEST_KEY], birthplace.digest_key(workflow_id)))
    scheduled = data(workflow_id, 2)
    plain = next(r for r in (f'{{"n":{n}}}' for n in range(3)) if digest(r, bytes.fromhex(key)) == scheduled["digest"])
    assert (len(key), plain) == (32, '{"n":0}')


def test_a_cold_worker_matches_by_the_same_key() -> None:
    driver = Driver(cached=0)
    workflow_id = begun(driver)
    driver.run()
    assert workflow(workflow_id).status == "completed"


@pytest.mark.parametrize("cached", [0, 1000])
def test_a_history_that_began_before_there_were_keys_goes_on_unkeyed(cached: int) -> None:
    driver = Driver(cached=cached)
    workflow_id = driver.start(cases.sequence, 2)
    started = Event.objects.get(workflow_id=workflow_id, seq=1)
    del started.data[DIGEST_KEY]
    started.save(force_update=True)
    driver.turn()
    assert data(workflow_id, 2)["digest"] == digest('{"n":0}')
    driver.run()
    assert workflow(workflow_id).status == "completed"


def test_a_key_that_is_damaged_blocks_and_fails_nothing() -> None:
    driver = Driver(cached=0)
    workflow_id = begun(driver)
    started = Event.objects.get(workflow_id=workflow_id, seq=1)
    started.data[DIGEST_KEY] = '"abc"'
    started.save(force_update=True)
    driver.run()
    assert "The key of the workflow's digests cannot be read" in workflow(workflow_id).blocked_reason
    assert "workflow_blocked" in history(workflow_id)


def test_an_exported_history_replays(driver: Driver) -> None:
    workflow_id = begun(driver)
    assert testing.replay_here(testing.export_history(workflow_id), cases.sequence).drift == 0


def pages(workflow_id: Any, *codenames: str) -> str:
    user, _ = User.objects.get_or_create(username="staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="durable", codename__in=codenames))
    client = Client()
    client.force_login(user)
    addresses = [reverse("admin:durable_workflow_change", args=[workflow_id])]
    addresses += [reverse("admin:durable_workflow_event", args=[workflow_id, seq]) for seq in (1, 2)]
    answers = [client.get(address) for address in addresses]
    assert {answer.status_code for answer in answers} == {200}
    return "".join(answer.text for answer in answers)


def shown(workflow_id: Any, capsys: pytest.CaptureFixture[str]) -> str:
    call_command("durable", "show", str(workflow_id))
    call_command("durable", "show", str(workflow_id), "--json")
    return capsys.readouterr().out


def test_the_key_is_shown_to_nobody_and_the_digest_to_those_who_see_payloads(
    driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    workflow_id = begun(driver)
    key, known = json.loads(data(workflow_id, 1)[DIGEST_KEY]), data(workflow_id, 2)["digest"]
    everything = pages(workflow_id, "view_workflow", "view_payload")
    assert known in everything
    assert known not in pages(workflow_id, "view_workflow")
    told = shown(workflow_id, capsys)
    assert known in told
    for text in (everything, told):
        assert key not in text
        assert DIGEST_KEY not in text


@override_settings(DURABLE={"REDACT_PAYLOADS": True})
def test_redaction_hides_digests_from_everybody(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    workflow_id = begun(driver)
    known = data(workflow_id, 2)["digest"]
    assert known not in pages(workflow_id, "view_workflow", "view_payload")
    assert known not in shown(workflow_id, capsys)


def test_a_key_that_cannot_be_told_from_damaged_data_is_not_shown(driver: Driver) -> None:
    workflow_id = begun(driver)
    key = json.loads(data(workflow_id, 1)[DIGEST_KEY])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE durable_event SET data = %s WHERE seq = 1", [f'{{"digest_key": "{key}'])
    assert key not in pages(workflow_id, "view_workflow", "view_payload")
