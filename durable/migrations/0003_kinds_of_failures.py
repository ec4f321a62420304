from typing import Any

from django.db import migrations, models

_CLASS: dict[str, Any] = {"max_length": 200, "default": "", "db_default": "", "blank": True}
_GROUP: dict[str, Any] = {"max_length": 16, "default": "", "db_default": "", "blank": True}


class Migration(migrations.Migration):
    """By what lists tell failures apart. Constant defaults: no table is rewritten, old rows have none."""

    dependencies = [
        ("durable", "0002_permission_to_view_failures"),
    ]

    operations = [
        migrations.AddField(model_name=model, name=name, field=models.CharField(**options))
        for model in ("workflow", "outboxrow", "failedattempt")
        for name, options in (("error_class", _CLASS), ("error_group", _GROUP))
    ]
