from django.db import migrations, models

CAUSES = [
    "worker_died",
    "lease_lost",
    "ack_abandoned",
    "unknown_handler",
    "undecodable_input",
    "transport_down",
    "retries_exhausted",
    "application_error",
    "timeout",
    "heartbeat_timeout",
]


class Migration(migrations.Migration):
    """Names a cause; the tables stay as they are."""

    dependencies = [("durable", "0002_blocked_at")]

    operations = [
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
