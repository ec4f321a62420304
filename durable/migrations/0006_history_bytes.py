"""How long a history is, in bytes, stands with its workflow. Of those that are there already it is counted later, by the
next event of each: no statement here reads a history.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("durable", "0005_staff_action_of_redrives")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="history_bytes",
            field=models.BigIntegerField(db_default=0),
        ),
    ]
