"""Every table, as of the first release. From here on migrations are only added: see `tests/store/test_migrations.py`."""

import django.db.models.deletion
import durable.models.fields
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='OutboxRow',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('run', models.PositiveIntegerField()),
                ('ordinal', models.PositiveIntegerField()),
                ('activity', models.CharField(max_length=200)),
                ('input', models.TextField()),
                ('options', durable.models.fields.JsonTextField(default=dict)),
                ('namespace', models.CharField(blank=True, default='', max_length=100)),
                ('queue', models.CharField(default='default', max_length=100)),
                ('node', models.CharField(blank=True, max_length=100, null=True)),
                ('lane', models.CharField(blank=True, max_length=200, null=True)),
                ('waiting', durable.models.fields.MarkField(db_default=False)),
                ('status', models.CharField(choices=[('pending', 'pending'), ('claimed', 'claimed'), ('done', 'done'), ('dead', 'dead'), ('cancelled', 'cancelled')], max_length=9)),
                ('paused', durable.models.fields.MarkField(default=False)),
                ('suspect', durable.models.fields.MarkField(default=False)),
                ('priority', models.SmallIntegerField(default=0)),
                ('visible_after', durable.models.fields.MomentField()),
                ('created_at', durable.models.fields.MomentField()),
                ('claimed_at', durable.models.fields.MomentField(null=True)),
                ('deliveries', models.PositiveIntegerField(default=0)),
                ('delivery_failures', models.PositiveIntegerField(default=0)),
                ('delivery_budget', models.PositiveIntegerField()),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('attempt_budget', models.PositiveIntegerField()),
                ('last_heartbeat', models.TextField(null=True)),
                ('failure_delivered', models.BooleanField(default=False)),
                ('cause', models.CharField(blank=True, choices=[('worker_died', 'worker_died'), ('lease_lost', 'lease_lost'), ('ack_abandoned', 'ack_abandoned'), ('unknown_handler', 'unknown_handler'), ('undecodable_input', 'undecodable_input'), ('transport_down', 'transport_down'), ('retries_exhausted', 'retries_exhausted'), ('application_error', 'application_error'), ('timeout', 'timeout')], default='', max_length=40)),
                ('error_class', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('error_group', models.CharField(blank=True, db_default='', default='', max_length=16)),
                ('dead_lettered_at', durable.models.fields.MomentField(null=True)),
                ('redrive_count', models.PositiveIntegerField(default=0)),
                ('discarded_at', durable.models.fields.MomentField(null=True)),
            ],
            options={
                'verbose_name': 'outbox row',
                'verbose_name_plural': 'outbox rows',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('queues', durable.models.fields.JsonTextField(default=list)),
                ('started_at', durable.models.fields.MomentField()),
                ('beat_at', durable.models.fields.MomentField()),
                ('version', models.CharField(max_length=64)),
                ('wakes_by', models.CharField(blank=True, default='', max_length=40)),
            ],
            options={
                'verbose_name': 'worker',
                'verbose_name_plural': 'workers',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='DeadLetter',
            fields=[
            ],
            options={
                'verbose_name': 'dead letter',
                'verbose_name_plural': 'dead letters',
                'permissions': [('redrive_deadletter', 'Can redrive a dead letter'), ('force_redrive_deadletter', 'Can force the redrive of a dead letter that was judged'), ('discard_deadletter', 'Can discard a dead letter')],
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('durable.outboxrow',),
        ),
        migrations.CreateModel(
            name='Workflow',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('type', models.CharField(max_length=200)),
                ('key', models.CharField(blank=True, max_length=1000, null=True)),
                ('single', models.BooleanField(default=False)),
                ('status', models.CharField(choices=[('running', 'running'), ('paused', 'paused'), ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('timed_out', 'timed out')], max_length=10)),
                ('run', models.PositiveIntegerField(default=1)),
                ('run_seq', models.PositiveIntegerField(default=1)),
                ('history_seq', models.PositiveIntegerField(db_default=1)),
                ('input', models.TextField()),
                ('result', models.TextField(null=True)),
                ('failure', durable.models.fields.JsonTextField(null=True)),
                ('error_class', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('error_group', models.CharField(blank=True, db_default='', default='', max_length=16)),
                ('parent_run', models.PositiveIntegerField(null=True)),
                ('parent_ordinal', models.PositiveIntegerField(null=True)),
                ('parent_close', models.CharField(blank=True, db_default='', max_length=10)),
                ('children', models.PositiveIntegerField(db_default=0)),
                ('patches', durable.models.fields.JsonTextField(null=True)),
                ('queue', models.CharField(default='default', max_length=100)),
                ('priority', models.SmallIntegerField(default=0)),
                ('custom_status', models.CharField(blank=True, default='', max_length=1000)),
                ('progress', models.FloatField(null=True)),
                ('status_data', durable.models.fields.JsonTextField(null=True)),
                ('waits_for', durable.models.fields.JsonTextField(null=True)),
                ('last_seq', models.PositiveIntegerField(default=1)),
                ('history_bytes', models.BigIntegerField(db_default=0)),
                ('wake_at', durable.models.fields.MomentField(null=True)),
                ('timers', durable.models.fields.JsonTextField(default=list)),
                ('blocked_reason', models.TextField(blank=True, default='')),
                ('blocked_version', models.CharField(blank=True, default='', max_length=64)),
                ('poison_turns', models.PositiveSmallIntegerField(default=0)),
                ('deadline_at', durable.models.fields.MomentField(null=True)),
                ('created_at', durable.models.fields.MomentField()),
                ('closed_at', durable.models.fields.MomentField(null=True)),
                ('terminated', models.BooleanField(db_default=False)),
                ('parent', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='durable.workflow')),
            ],
            options={
                'verbose_name': 'workflow',
                'verbose_name_plural': 'workflows',
                'permissions': [('view_payload', 'Can see inputs, results and signal payloads'), ('view_failure', 'Can see what errors said, and why a workflow is blocked'), ('cancel_workflow', 'Can ask a workflow to cancel'), ('terminate_workflow', 'Can terminate a workflow'), ('signal_workflow', 'Can send a signal to a workflow'), ('pause_workflow', 'Can pause and resume a workflow'), ('reopen_workflow', 'Can reopen a workflow that has ended'), ('unblock_workflow', 'Can unblock a workflow')],
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='StaffAction',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('verb', models.CharField(db_default='', max_length=20)),
                ('ordinal', models.PositiveIntegerField(null=True)),
                ('actor_text', models.CharField(blank=True, default='', max_length=300)),
                ('through', models.CharField(db_default='', max_length=20)),
                ('mode', models.CharField(blank=True, default='', max_length=20)),
                ('reason', models.TextField(blank=True, default='')),
                ('was_judged', models.BooleanField(null=True)),
                ('job', models.UUIDField(blank=True, null=True)),
                ('data', durable.models.fields.JsonTextField(null=True)),
                ('request', models.UUIDField(blank=True, null=True)),
                ('at', durable.models.fields.MomentField()),
                ('actor', models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('outbox_row', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='staff_actions', to='durable.outboxrow')),
                ('workflow', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='durable.workflow')),
            ],
            options={
                'verbose_name': 'staff action',
                'verbose_name_plural': 'staff actions',
                'default_permissions': ('view',),
            },
        ),
        migrations.AddField(
            model_name='outboxrow',
            name='workflow',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='durable.workflow'),
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('run', models.PositiveIntegerField()),
                ('kind', models.CharField(choices=[('start', 'start'), ('completed', 'completed'), ('failed', 'failed'), ('signal', 'signal'), ('cancel', 'cancel')], max_length=20)),
                ('ordinal', models.PositiveIntegerField(null=True)),
                ('payload', models.TextField()),
                ('visible_at', durable.models.fields.MomentField()),
                ('created_at', durable.models.fields.MomentField()),
                ('parked', durable.models.fields.MarkField(default=False)),
                ('dedup', models.CharField(blank=True, max_length=200, null=True)),
                ('workflow', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='durable.workflow')),
            ],
            options={
                'verbose_name': 'message',
                'verbose_name_plural': 'messages',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('pk', models.CompositePrimaryKey('workflow_id', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
                ('seq', models.PositiveIntegerField()),
                ('type', models.CharField(max_length=40)),
                ('ordinal', models.PositiveIntegerField(null=True)),
                ('data', durable.models.fields.JsonTextField(default=dict)),
                ('recorded_at', durable.models.fields.MomentField()),
                ('workflow', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='durable.workflow')),
            ],
            options={
                'verbose_name': 'event',
                'verbose_name_plural': 'events',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='WorkItem',
            fields=[
                ('outbox_row', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, serialize=False, to='durable.outboxrow')),
                ('lock_token', models.UUIDField()),
                ('locked_until', durable.models.fields.MomentField()),
                ('worker', models.CharField(max_length=200)),
                ('queue', models.CharField(blank=True, db_default='', max_length=100)),
                ('begun_at', durable.models.fields.MomentField(null=True)),
                ('cancel_requested_at', durable.models.fields.MomentField(null=True)),
                ('heartbeat', models.TextField(null=True)),
                ('attempts', models.PositiveIntegerField()),
                ('attempt_budget', models.PositiveIntegerField()),
                ('delivery_failures', models.PositiveIntegerField()),
                ('delivery_budget', models.PositiveIntegerField()),
                ('single', models.BooleanField()),
                ('workflow', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='durable.workflow')),
            ],
            options={
                'verbose_name': 'work item',
                'verbose_name_plural': 'work items',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='FailedAttempt',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('worker', models.CharField(blank=True, default='', max_length=200)),
                ('started_at', durable.models.fields.MomentField(null=True)),
                ('ended_at', durable.models.fields.MomentField()),
                ('cause', models.CharField(choices=[('worker_died', 'worker_died'), ('lease_lost', 'lease_lost'), ('ack_abandoned', 'ack_abandoned'), ('unknown_handler', 'unknown_handler'), ('undecodable_input', 'undecodable_input'), ('transport_down', 'transport_down'), ('retries_exhausted', 'retries_exhausted'), ('application_error', 'application_error'), ('timeout', 'timeout')], max_length=40)),
                ('error', durable.models.fields.JsonTextField(null=True)),
                ('error_class', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('error_group', models.CharField(blank=True, db_default='', default='', max_length=16)),
                ('outbox_row', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='failed_attempts', to='durable.outboxrow')),
            ],
            options={
                'verbose_name': 'failed attempt',
                'verbose_name_plural': 'failed attempts',
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['outbox_row', 'number'], name='durable_failed_attempt_of_row')],
            },
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('wake_at__isnull', False)), fields=['wake_at'], name='durable_workflow_wake'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('key__isnull', False)), fields=['key', 'type', '-id'], name='durable_workflow_key'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(fields=['status', '-id'], name='durable_workflow_status'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(fields=['type', '-id'], name='durable_workflow_type'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('error_group', ''), _negated=True), fields=['error_group', '-id'], name='durable_workflow_error'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('blocked_reason', ''), _negated=True), fields=['id'], name='durable_workflow_blocked'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('status__in', ('failed', 'timed_out'))), fields=['closed_at'], name='durable_workflow_failed'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('closed_at__isnull', False)), fields=['closed_at', 'id'], name='durable_workflow_closed'),
        ),
        migrations.AddIndex(
            model_name='workflow',
            index=models.Index(condition=models.Q(('parent__isnull', False)), fields=['parent'], name='durable_workflow_children'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.UniqueConstraint(condition=models.Q(('key__isnull', False), ('status__in', ('running', 'paused'))), fields=('type', 'key'), name='durable_one_live_workflow_per_key'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['running', 'paused', 'completed', 'failed', 'cancelled', 'timed_out'])), name='durable_workflow_status_is_known'),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_at__isnull', True), ('status__in', ('running', 'paused'))), models.Q(('closed_at__isnull', False), ('status__in', ('cancelled', 'completed', 'failed', 'timed_out'))), _connector='OR'), name='durable_workflow_closed_at_iff_terminal'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['outbox_row', '-at'], name='durable_staffaction_row'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['-at', '-id'], name='durable_staffaction_at'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['verb', '-at', '-id'], name='durable_staffaction_verb'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(fields=['workflow', '-at'], name='durable_staffaction_workflow'),
        ),
        migrations.AddIndex(
            model_name='staffaction',
            index=models.Index(condition=models.Q(('request__isnull', False)), fields=['request'], name='durable_staffaction_request'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(models.OrderBy(models.F('priority'), descending=True), models.F('visible_after'), models.F('id'), condition=models.Q(('paused', False), ('status', 'pending'), ('suspect', False), ('waiting', False)), name='durable_outbox_claim'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(models.F('queue'), models.OrderBy(models.F('priority'), descending=True), models.F('visible_after'), models.F('id'), condition=models.Q(('paused', False), ('status', 'pending'), ('suspect', False), ('waiting', False)), name='durable_outbox_claim_queue'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(models.F('visible_after'), models.F('id'), condition=models.Q(('paused', False), ('status', 'pending'), ('suspect', True), ('waiting', False)), name='durable_outbox_suspects'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('paused', True), ('status', 'pending')), fields=['workflow'], name='durable_outbox_paused'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'pending'), ('waiting', True)), fields=['lane', 'visible_after', 'id'], name='durable_outbox_waiting'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'claimed')), fields=['claimed_at', 'id'], name='durable_outbox_sweep'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['-dead_lettered_at', '-id'], name='durable_outbox_dead_letters'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['activity', '-dead_lettered_at', '-id'], name='durable_dead_letters_act'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['cause', '-dead_lettered_at', '-id'], name='durable_dead_letters_cause'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['error_group', '-dead_lettered_at', '-id'], name='durable_dead_letters_error'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['queue', '-dead_lettered_at', '-id'], name='durable_dead_letters_queue'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['failure_delivered', '-dead_lettered_at', '-id'], name='durable_dead_letters_told'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['attempts', '-dead_lettered_at', '-id'], name='durable_dead_letters_tries'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['deliveries', '-dead_lettered_at', '-id'], name='durable_dead_letters_given'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('redrive_count', 0), ('status', 'dead')), fields=['-dead_lettered_at', '-id'], name='durable_dead_letters_first'),
        ),
        migrations.AddIndex(
            model_name='outboxrow',
            index=models.Index(condition=models.Q(('redrive_count__gt', 0), ('status', 'dead')), fields=['-dead_lettered_at', '-id'], name='durable_dead_letters_again'),
        ),
        migrations.AddConstraint(
            model_name='outboxrow',
            constraint=models.UniqueConstraint(fields=('workflow', 'run', 'ordinal'), name='durable_one_row_per_run_and_ordinal'),
        ),
        migrations.AddConstraint(
            model_name='outboxrow',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'claimed', 'done', 'dead', 'cancelled'])), name='durable_outbox_status_is_known'),
        ),
        migrations.AddConstraint(
            model_name='outboxrow',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'dead'), _negated=True), ('dead_lettered_at__isnull', False), _connector='OR'), name='durable_dead_letter_has_its_time'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['workflow', 'visible_at', 'id'], name='durable_message_of_workflow'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('parked', False), models.Q(('kind', 'start'), _negated=True)), fields=['visible_at', 'id'], name='durable_message_due'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('parked', False), ('kind', 'start')), fields=['visible_at', 'id'], name='durable_message_start'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('dedup__isnull', False)), fields=('workflow', 'dedup'), name='durable_message_once'),
        ),
        migrations.AddIndex(
            model_name='workitem',
            index=models.Index(fields=['locked_until'], name='durable_work_item_expiry'),
        ),
    ]
