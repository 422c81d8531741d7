"""Labels that name who made an object, and the rule by which a reaper may touch it."""

from __future__ import annotations

import subprocess
import sys

from hermes_env import owner_is_gone, owner_labels
from hermes_env._owner import OWNER_LABEL


def labels_of_another_process(*, ended: bool) -> tuple[dict[str, str], subprocess.Popen[str]]:
    """Labels made by a child; it waits for its stdin to close unless it has ended."""
    code = (
        "import hermes_env,sys; print(hermes_env.owner_labels('e')['hermes_env.owner'], flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdin is not None
    labels = {OWNER_LABEL: child.stdout.readline().strip()}
    if ended:
        child.communicate()
    return labels, child


def test_own_objects_are_not_reaped() -> None:
    """What this process made is in use."""
    assert not owner_is_gone(owner_labels("e"))


def test_objects_of_a_live_process_are_not_reaped() -> None:
    """Another process that still runs keeps what it made."""
    labels, child = labels_of_another_process(ended=False)
    assert not owner_is_gone(labels)
    child.communicate()


def test_objects_of_a_dead_process_are_reaped() -> None:
    """What an ended process of this machine made is left over."""
    labels, _ = labels_of_another_process(ended=True)
    assert owner_is_gone(labels)


def test_whatever_is_not_surely_ours_stays() -> None:
    """Another machine, boot or namespace, a broken label or none at all: never touched."""
    labels, _ = labels_of_another_process(ended=True)
    machine, boot, namespace, pid, started = labels[OWNER_LABEL].split(".")
    foreign = [
        ".".join(("0" * 16, boot, namespace, pid, started)),
        ".".join((machine, "0" * 16, namespace, pid, started)),
        f"{machine}.{boot}.1.{pid}.{started}",
        f"{machine}.{boot}.{namespace}.x.{started}",
        f"{machine}.{boot}.{namespace}.{pid}",
        "",
    ]
    assert not any(owner_is_gone({OWNER_LABEL: label}) for label in foreign)
    assert not owner_is_gone({})


def test_a_reused_process_id_is_another_process() -> None:
    """The same number with another start time is not the owner."""
    labels = owner_labels("e")
    assert owner_is_gone({OWNER_LABEL: labels[OWNER_LABEL] + "9"})
