"""Requests, each in a transaction of its own."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from durable import get_workflow
from tests.host.desk.models import Ticket
from tests.host.desk.workflows import handle


@csrf_exempt
@require_POST
def open_ticket(request: HttpRequest) -> HttpResponse:
    """Write a ticket and start its workflow; with `?fail=1` fail afterwards."""
    ticket = Ticket.objects.create(title=request.POST["title"])
    handle_of_it = handle.options(key=f"ticket-{ticket.pk}").start(ticket.pk)
    Ticket.objects.filter(pk=ticket.pk).update(workflow=handle_of_it.id)
    if "fail" in request.GET:
        raise RuntimeError("after the start")
    return JsonResponse({"number": ticket.pk, "workflow": str(handle_of_it.id)})


@csrf_exempt
@require_POST
def approve(request: HttpRequest, number: int) -> HttpResponse:
    """Signal the workflow, and write on the ticket that this has happened; with `?fail=1` fail afterwards."""
    ticket = Ticket.objects.get(pk=number)
    assert ticket.workflow is not None
    get_workflow(ticket.workflow).signal("approval", request.POST["who"])
    Ticket.objects.filter(pk=number).update(note="approved")
    if "fail" in request.GET:
        raise RuntimeError("after the signal")
    return JsonResponse({"number": number})
