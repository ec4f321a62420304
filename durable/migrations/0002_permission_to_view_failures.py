from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("durable", "0001_initial"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="workflow",
            options={
                "default_permissions": ("view",),
                "permissions": [
                    ("view_payload", "Can see inputs, results and signal payloads"),
                    ("view_failure", "Can see what errors said, and why a workflow is blocked"),
                    ("cancel_workflow", "Can ask a workflow to cancel"),
                    ("terminate_workflow", "Can terminate a workflow"),
                    ("signal_workflow", "Can send a signal to a workflow"),
                    ("pause_workflow", "Can pause and resume a workflow"),
                    ("reopen_workflow", "Can reopen a workflow that has ended"),
                    ("unblock_workflow", "Can unblock a workflow"),
                ],
                "verbose_name": "workflow",
                "verbose_name_plural": "workflows",
            },
        ),
    ]
