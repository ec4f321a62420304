from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("durable", "0003_heartbeat_timeout")]

    operations = [
        migrations.AlterField("outboxrow", "attempt_budget", models.PositiveIntegerField(null=True)),
        migrations.AlterField("workitem", "attempt_budget", models.PositiveIntegerField(null=True)),
    ]
