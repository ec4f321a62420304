"""The app's own workflow: what staff ask for of more dead letters than one page of the admin should wait for."""

from __future__ import annotations

from durable.activities import QUEUE, BulkJob, BulkProgress, change_some_dead_letters
from durable.kernel.authoring import context
from durable.kernel.authoring.definitions import workflow


@workflow(queue=QUEUE)
async def change_dead_letters(job: BulkJob) -> BulkProgress:
    """Redrive or discard all dead letters that match, oldest first, piece by piece and paced; answers the counts.

    The result of each piece says how far the whole is. Cancelling the workflow stops it between two pieces.
    """
    progress = BulkProgress()
    while not progress.over:
        progress = await change_some_dead_letters.execute(job, progress)
        if progress.pause and not progress.over:
            await context.sleep(progress.pause)
    return progress
