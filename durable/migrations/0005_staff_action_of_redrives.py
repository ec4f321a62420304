"""What was kept of redrives and discards is told in the words of the wider audit, and the right to see it goes along."""

from typing import Any

from django.db import connections, migrations, models, router
from django.db.models import OuterRef, Subquery, Value


def reword(apps: Any, schema_editor: Any) -> None:
    """One statement for each mode; where the row is gone, its workflow can not be told any more."""
    actions = apps.get_model('durable', 'StaffAction').objects.using(schema_editor.connection.alias)
    row = apps.get_model('durable', 'OutboxRow').objects.filter(pk=OuterRef('outbox_row_id'))
    place = {
        'workflow_id': Subquery(row.values('workflow_id')[:1]),
        'ordinal': Subquery(row.values('ordinal')[:1]),
    }
    for then in ('fail', 'cancel'):
        old = actions.filter(verb='', mode=f'discard_{then}')
        old.update(verb=Value('discard'), mode=Value(then), **place)
    actions.filter(verb='').update(verb=Value('redrive'), **place)


def reword_back(apps: Any, schema_editor: Any) -> None:
    """Other verbs than these two have no place in the older table, and are dropped."""
    actions = apps.get_model('durable', 'StaffAction').objects.using(schema_editor.connection.alias)
    actions.exclude(verb__in=('redrive', 'discard')).delete()
    for then in ('fail', 'cancel'):
        actions.filter(verb='discard', mode=then).update(mode=Value(f'discard_{then}'))


def hand_on_the_permission(apps: Any, schema_editor: Any) -> None:
    """Whoever could see redrives can see staff actions. Django does this by itself since 6.1.

    Its tables may be on another alias than ours, or not be there at all.
    """
    try:
        Permission = apps.get_model('auth', 'Permission')
        ContentType = apps.get_model('contenttypes', 'ContentType')
    except LookupError:
        return
    alias = router.db_for_write(Permission)
    if alias != schema_editor.connection.alias:
        there = connections[alias].introspection.table_names()
        if Permission._meta.db_table not in there:
            return
    elif not router.allow_migrate_model(alias, Permission):
        return
    types = ContentType.objects.using(alias).filter(app_label='durable')
    if not types.filter(model='staffaction').exists():
        types.filter(model='redrive').update(model='staffaction')
    kind = types.filter(model='staffaction').first()
    held = Permission.objects.using(alias).filter(content_type__app_label='durable')
    if kind is not None and not held.filter(codename='view_staffaction').exists():
        held.filter(codename='view_redrive').update(
            content_type=kind, codename='view_staffaction', name='Can view staff action'
        )


class Migration(migrations.Migration):
    dependencies = [
        ('durable', '0004_staff_action'),
    ]

    operations = [
        migrations.RunPython(reword, reword_back),
        migrations.RunPython(hand_on_the_permission, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['verb', '-at', '-id'], name='durable_staffaction_verb'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['workflow', '-at'], name='durable_staffaction_workflow'),
        ),
    ]
