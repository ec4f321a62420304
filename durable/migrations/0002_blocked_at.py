from django.db import migrations

import durable.models.fields


class Migration(migrations.Migration):
    dependencies = [("durable", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="blocked_at",
            field=durable.models.fields.MomentField(null=True),
        ),
    ]
