"""`durable export` and `durable replay`: histories as files, against today's code."""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

import durable
from durable import testing
from durable.flow.looks import sampling
from durable.kernel.definitions.registry import registry
from durable.management.commands.durable import Command
from durable.models import Event, StaffAction
from durable.testing import checking, fresh
from tests.conftest import ROOT
from tests.flow.state import everything
from tests.management.ran import Ran
from tests.operations.scenes import statements
from tests.testing import plant

pytestmark = pytest.mark.django_db

CANARY = "canary-4711"


@pytest.fixture
def ended() -> durable.Handle[Any]:
    """A checkout that has ended."""
    handle = plant.checkout.start(42)
    testing.run(handle)
    return handle


def exported(folder: Path, *options: str) -> list[str]:
    """The ids of the workflows in the files that the command has written."""
    ran = Ran("export", "--to", str(folder), *options)
    assert ran.code == 0, ran.said
    return sorted(file.stem for file in folder.glob("*.json"))


def changed(exported: dict[str, Any], **names: str) -> dict[str, Any]:
    """The history with other names of activities."""
    text = json.dumps(exported)
    for name, other in names.items():
        text = text.replace(f"plant.{name}", f"plant.{other}")
    return dict(json.loads(text))


class TestExport:
    def test_a_file_holds_the_history_and_what_wrote_it_for_its_owner_only(
        self, tmp_path: Path, ended: durable.Handle[Any]
    ) -> None:
        folder = tmp_path / "deep" / "histories"
        assert exported(folder, str(ended.id), str(ended.id)) == [str(ended.id)]
        (file,) = folder.iterdir()
        read = json.loads(file.read_text())
        assert read == testing.export_history(ended)
        assert (read["format"], read["engine"]) == (1, durable.__version__)
        assert read["python"].startswith("3.")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    def test_a_sample_has_each_kind_of_history_before_a_second_of_one(self, tmp_path: Path) -> None:
        slept = [plant.asleep.start(days) for days in (400, 400, 400)]
        tidy = plant.tidy.start()
        testing.drain()
        plant.slow.enqueue()  # a single activity has no code to replay
        expected = {str(slept[0].id), str(tidy.id)}
        assert set(exported(tmp_path / "two", "--sample", "2")) == expected
        assert set(exported(tmp_path / "three", "--sample", "3")) == expected | {str(slept[-1].id)}
        assert len(exported(tmp_path / "all")) == 4
        assert set(exported(tmp_path / "tidy", "--type", "plant.tidy")) == {str(tidy.id)}

    def test_other_activities_another_length_and_other_patches_are_other_kinds(self) -> None:
        long = [plant.lengthy.start(40) for _ in range(3)]
        short = plant.lengthy.start(2)
        other: list[durable.Handle[Any]] = [plant.parts.start(1), plant.checkout.start(1)]
        testing.drain()
        chosen = sampling.sample(live=False, workflow_type=None, count=4)
        assert set(chosen) == {long[0].id, short.id, other[0].id, other[1].id}
        from durable.models import Workflow

        Workflow.objects.filter(id=long[1].id).update(patches={"fraud-check": True})
        assert long[1].id in sampling.sample(live=False, workflow_type="plant.lengthy", count=3)

    def test_live_ones_only(self, tmp_path: Path, ended: durable.Handle[Any]) -> None:
        live = plant.asleep.start(400)
        testing.drain()
        assert exported(tmp_path, "--live") == [str(live.id)]

    @pytest.mark.parametrize("number", [1, 30])
    def test_a_sample_is_a_constant_number_of_statements(self, number: int) -> None:
        for _ in range(number):
            plant.lengthy.start(2)
        testing.drain()
        with statements() as said:
            assert len(sampling.sample(live=False, workflow_type=None, count=50)) == number
        assert len(said()) == 3

    def test_without_payloads_nothing_of_them_nor_of_people_is_in_the_file(self, tmp_path: Path) -> None:
        handle = plant.patient.options(key=CANARY).start()
        handle.signal("first", CANARY)
        testing.drain()
        handle.cancel(reason=CANARY)
        testing.drain()
        assert CANARY in json.dumps(testing.export_history(handle))
        exported(tmp_path, str(handle.id), "--without-payloads")
        (file,) = tmp_path.iterdir()
        assert CANARY not in file.read_text()
        events = json.loads(file.read_text())["events"]
        assert [event["data"]["name"] for event in events if event["type"] == "signal_received"] == ["first"]
        ran = Ran("replay", str(file))
        assert ran.code == 1
        assert "exported without payloads" in ran.out

    def test_payloads_stay_in_the_database_where_they_are_redacted(
        self, tmp_path: Path, ended: durable.Handle[Any], settings: Any
    ) -> None:
        settings.DURABLE = {"REDACT_PAYLOADS": True}
        ran = Ran("export", "--to", str(tmp_path / "none"), str(ended.id))
        assert (ran.code, "--without-payloads" in ran.said) == (2, True)
        assert not (tmp_path / "none").exists()
        assert exported(tmp_path / "names", str(ended.id), "--without-payloads") == [str(ended.id)]

    def test_who_exports_payloads_is_recorded_before_they_are_written(
        self, tmp_path: Path, ended: durable.Handle[Any], settings: Any
    ) -> None:
        settings.DURABLE = {"RECORD_VIEWS": True}
        exported(tmp_path, str(ended.id), "--actor", "kim")
        recorded = StaffAction.objects.get()
        assert (recorded.verb, recorded.actor_text, recorded.workflow_id) == ("view", "kim", ended.id)

    @pytest.mark.parametrize(
        ("options", "cure"),
        [
            (["--sample", "0"], "from 1 to 10,000"),
            (["--sample", "10001"], "from 1 to 10,000"),
            (["--type", "plant.unknown"], "nothing to export"),
            (["00000000-0000-7000-8000-000000000000", "--live"], "not both"),
            (["nonsense"], "not the text of a UUID"),
        ],
    )
    def test_wrong_usage_writes_nothing(self, tmp_path: Path, options: list[str], cure: str) -> None:
        ran = Ran("export", "--to", str(tmp_path / "none"), *options)
        assert (ran.code, cure in ran.said) == (2, True), ran.said
        assert not (tmp_path / "none").exists()

    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path: Path, ended: durable.Handle[Any]) -> None:
        (tmp_path / "file").write_text("")
        ran = Ran("export", "--to", str(tmp_path / "file"), str(ended.id))
        assert ran.code == 2
        assert str(tmp_path / "file") in ran.said

    def test_a_file_is_written_whole_or_not_at_all(
        self, tmp_path: Path, ended: durable.Handle[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        ran = Ran("export", "--to", str(tmp_path), str(ended.id))
        assert (ran.code, "No space left on device" in ran.said) == (2, True)
        assert os.listdir(tmp_path) == []  # noqa: PTH208 - hidden files too


class TestReplay:
    def test_histories_that_fit_exit_with_0(self, tmp_path: Path, ended: durable.Handle[Any]) -> None:
        exported(tmp_path)
        before = everything()
        ran = Ran("replay", str(tmp_path))
        assert (ran.code, ran.out) == (0, "1 of 1 histories fit this code.\n")
        assert everything() == before

    def test_each_that_does_not_fit_is_named_with_what_differs(
        self, tmp_path: Path, ended: durable.Handle[Any]
    ) -> None:
        good = testing.export_history(ended)
        for name, history in {
            "a": good,
            "b": changed(good, ship="load"),
            "c": good | {"type": "plant.gone"},
            "e": good,
        }.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(history))
        (tmp_path / "d.json").write_text("{not json")
        ran = Ran("replay", str(tmp_path))
        assert ran.code == 1
        lines = ran.out.splitlines()
        assert lines[0] == f"plant.checkout {ended.id}"
        assert lines[1].split()[:2] == ["position", "event"]
        assert "plant.load" in lines[2]
        assert "plant.ship" in lines[3]
        assert "No workflow named 'plant.gone' is registered" in ran.out
        assert "d.json" in ran.out
        assert lines[-1] == "2 of 5 histories fit this code."
        data = Ran("replay", str(tmp_path), "--json").data
        assert sorted(each["fits"] for each in data) == [False, False, False, True, True]
        (differs,) = [each for each in data if "position" in each]
        assert differs["workflow"] == str(ended.id)
        assert "plant.load" in differs["recorded"]
        assert "plant.ship" in differs["asked"]

    def test_what_only_a_fresh_process_does_otherwise_hides_no_other_history(
        self, tmp_path: Path, ended: durable.Handle[Any]
    ) -> None:
        plant.SEEN.add(7)
        handle = plant.remembering.start(7)
        testing.run(handle)
        good, bad = testing.export_history(ended), testing.export_history(handle)
        for name, history in {"a": bad, "b": good, "c": bad, "d": changed(good, ship="load")}.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(history))
        data = Ran("replay", str(tmp_path), "--json").data
        plant.SEEN.clear()
        assert [each["fits"] for each in data] == [False, True, False, False]
        assert [each["error"].rpartition(".")[2] for each in data if not each["fits"]] == ["NonDeterminism"] * 3

    def test_long_histories_are_not_all_in_memory_at_once(
        self, tmp_path: Path, ended: durable.Handle[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        good = json.dumps(testing.export_history(ended))
        for name in "abcde":
            (tmp_path / f"{name}.json").write_text(good)
        sent: list[int] = []

        def counting(jobs: Any, *, hash_seed: int) -> dict[int, Exception]:
            sent.append(len(jobs))
            return {}

        monkeypatch.setattr(fresh, "replay_each", counting)
        monkeypatch.setattr(checking, "_AT_ONCE", int(len(good) * 2.5))  # no setting: few histories are many
        assert Ran("replay", str(tmp_path)).code == 0
        assert sent == [2, 2, 2, 2, 1, 1]

    def test_live_workflows_are_read_and_nothing_is_written(self) -> None:
        async def before() -> None:
            await durable.wait_for_signal("go")

        async def after() -> None:
            await plant.ship.execute(1)

        with registry.isolated():
            handle = durable.workflow(name="changing")(before).start()
            handle.signal("go")
            testing.drain()
            live = durable.workflow(name="waiting")(before).start()
            testing.drain()
        with registry.isolated():
            durable.workflow(name="changing")(after)
            durable.workflow(name="waiting")(after)
            rows = everything()
            ran = Ran("replay", "--live", "--type", "waiting")
        assert ran.code == 1
        assert f"waiting {live.id}" in ran.out
        assert str(handle.id) not in ran.out
        assert everything() == rows

    @pytest.mark.parametrize(
        ("change", "said"),
        [({"type": "workflow_teleported"}, "does not know"), ({"data": "[]"}, "its data is no JSON object")],
        ids=["of a newer engine", "damaged"],
    )
    def test_a_live_workflow_whose_history_cannot_be_read_is_named_and_hides_no_other(
        self, change: dict[str, str], said: str
    ) -> None:
        unread, fits = plant.asleep.start(400), plant.asleep.start(400)
        testing.drain()
        Event.objects.filter(workflow_id=unread.id, seq=1).update(**change)
        ran = Ran("replay", "--live")
        assert ran.code == 1
        named, why, last = ran.out.splitlines()
        assert (named, said in why) == (str(unread.id), True)
        assert last == "1 of 2 histories fit this code."
        data = Ran("replay", "--live", "--json").data
        assert {each["workflow"] or each["origin"]: each["fits"] for each in data} == {
            str(unread.id): False,
            str(fits.id): True,
        }

    def test_a_path_is_a_path_though_its_name_begins_as_json_does(
        self, tmp_path: Path, ended: durable.Handle[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "{a}.json").write_text(json.dumps(testing.export_history(ended)))
        monkeypatch.chdir(tmp_path)
        ran = Ran("replay", "{a}.json")
        assert (ran.code, ran.out) == (0, "1 of 1 histories fit this code.\n")

    def test_results_and_the_projects_own_errors_are_not_shown_where_payloads_are_redacted(
        self, tmp_path: Path, settings: Any
    ) -> None:
        handle = plant.transfer.start(CANARY)
        testing.run(handle)
        history = testing.export_history(handle)
        history["events"][-1]["data"]["result"] = json.dumps("another one")
        (tmp_path / "a.json").write_text(json.dumps(history))

        async def before() -> None:
            await durable.wait_for_signal("go")

        async def after() -> None:
            raise KeyError(CANARY)

        with registry.isolated():
            waiting = durable.workflow(name="waiting")(before).start()
            testing.drain()
            (tmp_path / "b.json").write_text(json.dumps(testing.export_history(waiting)))
        with registry.isolated():
            durable.workflow(name="waiting")(after)
            registry.add_workflow(plant.transfer)
            open_texts = Ran("replay", str(tmp_path)).out
            settings.DURABLE = {"REDACT_PAYLOADS": True}
            redacted = Ran("replay", str(tmp_path)).out
        assert "another one" in open_texts
        assert CANARY in open_texts
        assert "another one" not in redacted
        assert CANARY not in redacted
        assert "0 of 2 histories fit" in redacted

    def test_nothing_to_replay_is_wrong_usage_unless_it_is_expected(self, tmp_path: Path) -> None:
        assert (Ran("replay", str(tmp_path)).code, Ran("replay", "--live").code) == (2, 2)
        assert Ran("replay", "--live", "--allow-empty").code == 0

    @pytest.mark.parametrize(
        "options", [[], ["here", "--live"], ["here", "--sample", "3"], ["here", "--type", "plant.checkout"], ["gone"]]
    )
    def test_wrong_usage_exits_with_2(self, options: list[str]) -> None:
        assert Ran("replay", *options).code == 2


def test_the_commands_in_the_page_about_ci_are_understood() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    block = page.partition("```yaml\n")[2].partition("```")[0]
    steps = yaml.safe_load(block)["jobs"]["replay"]["steps"]
    written = [step["run"].removeprefix("python ") for step in steps if "run" in step]
    written += [line for line in page.splitlines() if line.startswith("manage.py durable ")]
    commands = [shlex.split(line)[2:] for line in written if line.startswith("manage.py durable ")]
    assert {words[0] for words in commands} == {"export", "replay"}
    for words in commands:
        Command().create_parser("manage.py", "durable").parse_args(words)
