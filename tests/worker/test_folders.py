"""Folders of one user's workers: what a neighbour on the machine plants there stops nobody and loses nothing."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from durable.outcomes import WorkflowStatus
from durable.worker.loops import folders, notes, turns
from tests.waiting import PATIENCE
from tests.worker.conftest import Plant
from tests.worker.launching import Launch, launch, said_by
from tests.worker.plant import workflows
from tests.worker.processes import code_of
from tests.worker.threads import running, until

__all__ = ["launch"]

NEIGHBOUR = 65_533
VICTIM = 65_532
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
DIED = uuid.UUID(int=5)


def as_user(uid: int, call: Callable[[], object]) -> None:
    """Do it in a process of another user. Raises what that said went wrong."""
    inner, outer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            call()
            code = 0
        except BaseException as error:
            os.write(outer, f"{type(error).__name__}: {error}".encode()[:4000])
        finally:
            os._exit(code)
    os.close(outer)
    with os.fdopen(inner) as said:
        told = said.read()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, told


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder like `/tmp`: everybody may make things there, and nobody may take away those of others."""
    with tempfile.TemporaryDirectory(prefix="durable-place-", dir="/tmp", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o1777)
        yield Path(made)


@pytest.fixture
def only_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(folders, "SHARED_MEMORY", place / "nowhere")
    return place


def usual(place: Path, uid: int | None = None) -> Path:
    return place / f"durable-{os.geteuid() if uid is None else uid}"


def a_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def a_link(path: Path) -> None:
    target = path.with_name("target")
    a_folder(target)
    path.symlink_to(target)


PLANTED = {
    "a folder": a_folder,
    "a link": a_link,
    "a link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a file": lambda path: path.touch(),
    "a pipe": os.mkfifo,
}


def die_in(folder: Path) -> None:
    """What a process leaves that dies while a workflow's code runs."""
    note = notes.Note(folder)
    note.write(DIED)
    note._map.close()  # as the kernel closes it when a process dies
    os.close(note._file)  # as the kernel closes it when a process dies


def counted() -> list[uuid.UUID]:
    return notes.NotePlaces("default").count_the_dead(lambda workflow_id: True)


@AS_ROOT
@pytest.mark.parametrize("make", PLANTED.values(), ids=PLANTED)
def test_what_a_neighbour_plants_is_not_used_and_another_process_finds_the_note_all_the_same(
    only_place: Path, make: Callable[[Path], object]
) -> None:
    as_user(NEIGHBOUR, lambda: make(usual(only_place, VICTIM)))

    def victim() -> None:
        die_in(notes.folder_of("default", only_place))

    def another() -> None:
        (used,) = folders.existing(only_place)
        assert stat.S_IMODE(used.stat().st_mode) == 0o700
        assert used != usual(only_place)
        assert folders.make(only_place) == used, "one is enough for all processes of this user"
        assert counted() == [DIED]
        assert counted() == []

    as_user(VICTIM, victim)
    as_user(VICTIM, another)
    if (only_place / "target").exists():
        assert list((only_place / "target").iterdir()) == []


@AS_ROOT
def test_notes_in_the_random_folder_are_found_when_the_usual_name_is_free_again(only_place: Path) -> None:
    def taken() -> None:
        a_folder(usual(only_place, VICTIM))

    as_user(NEIGHBOUR, taken)
    as_user(VICTIM, lambda: die_in(notes.folder_of("default", only_place)))
    usual(only_place, VICTIM).rmdir()

    def free() -> None:
        assert folders.make(only_place) == usual(only_place)
        assert counted() == [DIED]

    as_user(VICTIM, free)


@AS_ROOT
def test_notes_that_a_neighbour_forges_are_not_counted(only_place: Path) -> None:
    """Nobody from outside may block a workflow by saying that it has killed processes."""

    def forge() -> None:
        for root in (usual(only_place, VICTIM), only_place / f"durable-{VICTIM}-aaaaaaaa"):
            root.mkdir()
            root.chmod(0o777)
            folder = root / notes._identity("default")  # the name of a folder that others have made before
            folder.mkdir()
            die_in(folder)

    as_user(NEIGHBOUR, forge)

    def victim() -> None:
        assert counted() == []

    as_user(VICTIM, victim)


@AS_ROOT
def test_a_forged_note_in_a_folder_of_ours_is_left_alone(only_place: Path) -> None:
    folder = notes.folder_of("default", only_place)
    die_in(folder)
    (note,) = folder.iterdir()
    os.chown(note, NEIGHBOUR, NEIGHBOUR)
    assert counted() == []
    os.chown(note, 0, 0)
    (folder / "link.note").symlink_to(note)
    os.mkfifo(folder / "pipe.note")
    assert counted() == [DIED]


@AS_ROOT
@pytest.mark.parametrize("make", [a_folder, os.mkfifo])
def test_a_worker_beside_a_planted_folder_works_and_says_so(
    plant: Plant, launch: Launch, place: Path, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    taken = usual(place)
    as_user(NEIGHBOUR, lambda: make(taken))
    workflow_id = plant.start(workflows.three, "a")
    assert code_of(launch("--burst", TMPDIR=str(place))) == 0
    assert plant.look(workflow_id).status is WorkflowStatus.COMPLETED
    said = said_by(tmp_path)
    assert said.count("folder_for_notes_taken") == 1
    assert "Traceback" not in said
    assert "no_place_for_notes" not in said


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o1777])
def test_a_folder_of_ours_that_others_may_enter_is_not_used(only_place: Path, mode: int) -> None:
    usual(only_place).mkdir()
    usual(only_place).chmod(mode)
    used = folders.make(only_place)
    assert used != usual(only_place)
    assert stat.S_IMODE(used.stat().st_mode) == 0o700


def test_a_folder_of_ours_alone_is_used_and_made_but_once(only_place: Path) -> None:
    assert folders.make(only_place) == folders.make(only_place) == usual(only_place)
    assert stat.S_IMODE(usual(only_place).stat().st_mode) == 0o700
    assert list(folders.existing(only_place)) == [usual(only_place)]


def test_folders_that_the_service_manager_made_come_first_and_notes_are_looked_for_in_all(
    only_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, session = (tmp_path / name for name in ("one", "two", "session"))
    for folder in (one, two, session):
        folder.mkdir(mode=0o755)
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{one}:{two}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    assert list(folders.places()) == [one, two, session, only_place]
    note = notes.NotePlaces("default").open()
    assert note is not None
    assert note.path.is_relative_to(one)
    note.close()
    for place in (two, session, only_place):
        die_in(notes.folder_of("default", place))
    assert counted() == [DIED] * 3


@pytest.mark.parametrize("value", ["", "relative/path", "/nowhere/at/all", "::"])
def test_variables_that_name_no_folder_are_passed_over(
    only_place: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", value)
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    assert list(folders.places()) == [only_place]


def test_a_session_folder_in_which_others_write_is_passed_over(
    only_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "open"))
    assert list(folders.places()) == [only_place]


@AS_ROOT
def test_after_sudo_the_folder_of_the_other_users_session_is_passed_over(
    only_place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, NEIGHBOUR, NEIGHBOUR)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert list(folders.places()) == [only_place]


def test_a_worker_makes_its_note_anew_when_somebody_has_tidied_it_away(
    plant: Plant, only_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session's folder goes at its end, and those for temporary files are swept."""
    monkeypatch.setattr(turns, "NOTE_AGAIN", 0.0)
    folder = notes.folder_of("default", only_place)

    def held() -> Path | None:
        """The one note that lies there, if there is one."""
        return next(folder.glob("*.note"), None)

    with running():
        until(lambda: held() is not None)
        first = held()
        assert first is not None
        first.unlink()
        folder.rmdir()
        until(lambda: held() not in {None, first})
        second = held()
        assert second is not None
        with second.open() as note, pytest.raises(BlockingIOError):
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list(folder.iterdir()) == []


def test_the_note_of_a_process_that_was_killed_lies_in_the_runtime_directory_for_the_next(
    plant: Plant, launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `Restart=always` finds with `RuntimeDirectoryPreserve=yes`."""
    kept = tmp_path / "kept"
    kept.mkdir()
    workflow_id = plant.start(workflows.hang)
    process = launch(RUNTIME_DIRECTORY=str(kept))
    until(lambda: any(note.read_bytes()[0] for note in kept.rglob("*.note")))
    process.kill()
    process.wait(PATIENCE)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(kept))
    assert counted() == [workflow_id]
