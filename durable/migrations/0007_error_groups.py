"""Indexes by which the lists find all that failed by one kind of error. They hold dead letters, and workflows that have
failed or are blocked, and nothing else.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("durable", "0006_history_bytes")]

    operations = [
        migrations.AddIndex(
            model_name="outboxrow",
            index=models.Index(
                fields=["error_group", "-dead_lettered_at", "-id"],
                condition=models.Q(status="dead"),
                name="durable_dead_letters_error",
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(
                fields=["error_group", "-id"],
                condition=models.Q(error_group="", _negated=True),
                name="durable_workflow_error",
            ),
        ),
    ]
