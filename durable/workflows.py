"""The app's own workflow: actions of staff on more dead letters than a page of the admin should wait for."""

from __future__ import annotations

from durable.activities import QUEUE, BulkJob, BulkProgress, change_some_dead_letters
from durable.decorators.workflows import workflow
from durable.kernel.context import workflow_context


@workflow(queue=QUEUE)
async def change_dead_letters(job: BulkJob) -> BulkProgress:
    """Redrives or discards all dead letters that match, oldest first, paced and in batches; returns the counts.

    The result of each batch has the progress of the job. Cancelling the workflow stops it between two batches.
    """
    progress = BulkProgress()
    while not progress.over:
        progress = await change_some_dead_letters.execute(job, progress)
        if progress.pause and not progress.over:
            await workflow_context.sleep(progress.pause)
    return progress
