"""States as `stat` and `ls` print them."""

from __future__ import annotations

import stat

import pytest

from hermes_env.files._stats import mode_of, parse


@pytest.mark.parametrize("mode", [0, 0o777, 0o644, 0o4755, 0o4644, 0o2755, 0o2644, 0o1777, 0o1666, 0o7777, 0o7000])
def test_modes(mode: int) -> None:
    """Every spelling of `ls` gives its permission bits back."""
    assert mode_of(stat.filemode(stat.S_IFREG | mode)) == mode


def test_all_modes() -> None:
    """No permission bit is ever mistaken for another one."""
    assert all(mode_of(stat.filemode(stat.S_IFREG | mode)) == mode for mode in range(0o10000))


def test_lines() -> None:
    """Both kinds of lines give the same state."""
    by_stat = parse("s 81a4 12 1000 100 1700000000 2", "p", "")
    by_ls = parse("l -rw-r--r-- 2 1000 100 12 1700000000", "p", "")
    assert by_stat == by_ls
    assert (by_stat.kind, by_stat.mode, by_stat.mtime, by_stat.name) == ("file", 0o644, 1.7e9, "p")


def test_links_devices_and_missing_times() -> None:
    """A link has its target; a device has no size; a time that no tool tells is None."""
    assert parse("s a1ff 3 0 0 1 1", "a/b", "to\n").target == "to\n"
    device = parse("l crw-rw-rw- 1 0 0 1,", "p", "")
    assert (device.kind, device.size, device.mtime, device.target) == ("char", 0, None, None)
