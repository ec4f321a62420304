from django.db import migrations, models

CAUSES = [
    "worker_died",
    "lease_lost",
    "ack_abandoned",
    "unknown_handler",
    "undecodable_input",
    "transport_down",
    "transport_lost",
    "retries_exhausted",
    "application_error",
    "timeout",
    "heartbeat_timeout",
]


class Migration(migrations.Migration):
    """Names a cause, and the cluster that a process belongs to."""

    dependencies = [("durable", "0006_message_kinds")]

    operations = [
        migrations.AddField(
            model_name="worker",
            name="cluster",
            field=models.CharField(blank=True, db_default="", default="", max_length=100),
        ),
        migrations.AlterField(
            model_name="outboxrow",
            name="cause",
            field=models.CharField(blank=True, choices=[(c, c) for c in CAUSES], default="", max_length=40),
        ),
        migrations.AlterField(
            model_name="failedattempt",
            name="cause",
            field=models.CharField(choices=[(c, c) for c in CAUSES], max_length=40),
        ),
    ]
