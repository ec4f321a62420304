"""The way of a ticket."""

from __future__ import annotations

import durable
from durable import ActivityError, workflow
from tests.host.desk.activities import book, look_up, print_out, refuse


@workflow(name="desk.handle")
async def handle(ticket: int) -> str:
    """Look it up, be refused, wait for an approval, book, print."""
    title = await look_up.execute(ticket)
    durable.logger.info("ticket_found", title=title)
    try:
        await refuse.execute(ticket)
    except ActivityError as error:
        durable.logger.warning("not_insured", error=error.message)
    who: str = await durable.wait_for_signal("approval")
    await book.execute(ticket, f"approved by {who}")
    return await print_out.execute(ticket)
