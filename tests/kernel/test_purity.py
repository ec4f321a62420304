"""What a look at workflow code finds. Faults R4."""
# ruff: noqa: ASYNC210, ASYNC230, ASYNC251, DTZ003, DTZ005, DTZ011, PTH123, SIM115, T201 - the impure calls are what is looked for

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import random
import threading
import time
import uuid
from datetime import datetime
from pathlib import Path
from random import choice as pick
from random import random as roll
from time import sleep as nap
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.apps import apps
from django.apps.registry import apps as registered
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Manager, Model, QuerySet
from django.utils import timezone

from durable.decorators.activities import activity
from durable.kernel.definitions import purity

findings: Any = purity.findings
get_model = registered.get_model


async def clock():
    return time.time()


async def monotonic():
    return time.monotonic()


async def sleeper():
    nap(1)


async def aliased_datetime():
    return dt.datetime.now(tz=dt.UTC)


async def utcnow():
    return datetime.utcnow()


async def today():
    return dt.date.today()


async def django_now():
    return timezone.now()


async def rolls():
    return random.random()


async def rolls_by_name():
    return roll()


async def picks():
    return pick([1, 2])


async def ids():
    return uuid.uuid4()


async def opens():
    with open("x") as file:
        return file.read()


async def threads():
    threading.Thread(target=print).start()


async def to_thread():
    return await asyncio.to_thread(len, [])


async def imports_inside():
    from secrets import token_hex

    return token_hex()


async def imports_what_is_not_there():
    import httpx  # type: ignore[import-not-found]

    return httpx.get("https://example.org")


async def reads_rows():
    return User.objects.filter(pk=1).count()


async def prints():
    print("hello")


def helper_with_a_clock():
    return time.time_ns()


async def uses_a_helper():
    return helper_with_a_clock()


async def by_name_as_text():
    return await get_model("auth.User").objects.aget(pk=1)


async def by_the_registry():
    return apps.get_model("auth", "User").objects.filter(pk=1).count()


async def by_a_variable():
    Model = apps.get_model("auth", "User")
    return Model.objects.get(pk=1)


async def by_another_manager(model):
    return await model._default_manager.afirst()


async def by_a_query(rows):
    return await rows.acount()


async def by_a_row(row):
    await row.arefresh_from_db()
    await row.items.aadd(1)


async def by_the_user_model():
    return get_user_model().objects.first()


async def data_of_the_same_names(data):
    data.objects.append(1)
    found = data.objects.get("a")
    return found, data.result().objects.values(), await data.execute()


REACHED = {
    by_name_as_text: ["get_model('auth.User').objects.aget(...)"],
    by_the_registry: ["apps.get_model('auth', 'User').objects.filter(...)"],
    by_a_variable: ["Model.objects.get(...)"],
    by_another_manager: ["model._default_manager.afirst(...)"],
    by_a_query: ["rows.acount(...)"],
    by_a_row: ["row.arefresh_from_db(...)", "row.items.aadd(...)"],
    by_the_user_model: ["get_user_model().objects.first(...)"],
    data_of_the_same_names: [],
}


@pytest.mark.parametrize("fn", REACHED, ids=lambda fn: fn.__name__)
def test_a_query_is_found_however_the_model_was_reached(fn):
    found = findings(fn)
    assert [finding.call for finding in found] == REACHED[fn]
    assert all("activity" in finding.advice for finding in found)


def test_every_async_method_of_the_orm_is_known():
    of_rows = {Model, QuerySet, Manager, User(pk=1).groups.__class__, ContentType(pk=1).permission_set.__class__}
    own = {
        name
        for kind in of_rows
        for name in dir(kind)
        if name.startswith("a") and inspect.iscoroutinefunction(getattr(kind, name, None))
    }
    assert own - {"aget_by_natural_key"} <= purity.ASYNC_ORM  # that one is of auth
    assert {"aget", "aadd", "asave", "abulk_create"} <= own


@pytest.mark.parametrize(
    ("function", "call", "advice"),
    [
        (clock, "time.time(...)", "durable.now()"),
        (monotonic, "time.monotonic(...)", "durable.now()"),
        (sleeper, "nap(...)", "durable.sleep"),
        (aliased_datetime, "dt.datetime.now(...)", "durable.now()"),
        (utcnow, "datetime.utcnow(...)", "durable.now()"),
        (today, "dt.date.today(...)", "durable.now()"),
        (django_now, "timezone.now(...)", "durable.now()"),
        (rolls, "random.random(...)", "durable.random()"),
        (rolls_by_name, "roll(...)", "durable.random()"),
        (picks, "pick(...)", "durable.random()"),
        (ids, "uuid.uuid4(...)", "durable.uuid4()"),
        (opens, "open(...)", "activity"),
        (threads, "threading.Thread(...)", "one thread"),
        (to_thread, "asyncio.to_thread(...)", "one thread"),
        (imports_inside, "token_hex(...)", "durable.random()"),
        (imports_what_is_not_there, "httpx.get(...)", "activity"),
        (reads_rows, "User.objects.filter(...)", "activity"),
        (prints, "print(...)", "durable.logger"),
        (uses_a_helper, "time.time_ns(...)", "durable.now()"),
    ],
)
def test_an_impure_call_is_found_with_its_line_and_advice(function: Any, call, advice):
    found = [finding for finding in findings(function) if finding.call == call]
    assert found, findings(function)
    assert advice in found[0].advice
    text = Path(found[0].file).read_text().splitlines()[found[0].line - 1]
    assert call.removesuffix("(...)") in text


async def chains():
    async_to_sync(clock)()
    datetime.now().date()
    User.objects.filter(pk=1).order_by("pk").first()
    Path("notes").open()


def test_a_chain_of_calls_is_one_finding():
    assert [finding.call for finding in findings(chains)] == [
        "async_to_sync(...)", "datetime.now(...)", "User.objects.filter(...)",
        "Path('notes').open(...)",
    ]  # fmt: skip


def test_the_function_that_holds_the_call_is_named():
    assert [finding.function for finding in findings(uses_a_helper)] == ["helper_with_a_clock"]


async def innocent(at: datetime, time: Any):
    deadline = at + dt.timedelta(seconds=3)
    rng = random.Random(7)
    await asyncio.sleep(1)
    await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
    time.time()
    return datetime.fromisoformat(deadline.isoformat()), sorted([rng.random()]), uuid.UUID(int=3)


def test_pure_code_is_let_alone_also_where_a_parameter_hides_a_module():
    assert findings(innocent) == []


def test_an_activity_called_as_a_function_is_found(isolated_registry):
    @activity
    def charge():
        return None

    async def flow():
        charge()
        await charge.execute()

    assert [finding.call for finding in findings(flow)] == ["charge(...)"]


def test_code_without_source_has_no_findings():
    space: dict[str, Any] = {}
    exec("import time\nasync def made(): time.time()", space)
    assert findings(space["made"]) == []
