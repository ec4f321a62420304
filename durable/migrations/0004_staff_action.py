"""`Redrive` becomes `StaffAction`. Nothing here reads or writes a row: on PostgreSQL it holds its lock for a moment."""

import django.db.models.deletion
from django.db import migrations, models

import durable.models.fields


class Migration(migrations.Migration):
    dependencies = [
        ('durable', '0003_kinds_of_failures'),
    ]

    operations = [
        migrations.RenameModel(old_name='Redrive', new_name='StaffAction'),
        migrations.AlterModelOptions(
            name='staffaction',
            options={
                'default_permissions': ('view',),
                'verbose_name': 'staff action',
                'verbose_name_plural': 'staff actions',
            },
        ),
        migrations.RemoveIndex(model_name='staffaction', name='durable_redrive_mode'),
        migrations.AddField(
            model_name='staffaction', name='verb', field=models.CharField(db_default='', max_length=20)
        ),
        migrations.AddField(
            model_name='staffaction',
            name='workflow',
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name='+',
                to='durable.workflow',
            ),
        ),
        migrations.AddField(
            model_name='staffaction', name='ordinal', field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name='staffaction', name='through', field=models.CharField(db_default='', max_length=20)
        ),
        migrations.AddField(
            model_name='staffaction', name='job', field=models.UUIDField(blank=True, null=True)
        ),
        migrations.AddField(
            model_name='staffaction', name='data', field=durable.models.fields.JsonTextField(null=True)
        ),
        migrations.AlterField(
            model_name='staffaction',
            name='mode',
            field=models.CharField(blank=True, default='', max_length=20),
        ),
        migrations.AlterField(
            model_name='staffaction',
            name='outbox_row',
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name='staff_actions',
                to='durable.outboxrow',
            ),
        ),
        migrations.AlterField(
            model_name='staffaction', name='was_judged', field=models.BooleanField(null=True)
        ),
    ]
