"""Processes are told apart and found by their marks, whoever tells us of them."""

import os
import subprocess
import sys

import pytest

from detent.effects.process_census import Portable, Proc, carriers, identity, lives, value

IS_LINUX = sys.platform.startswith("linux")
SOURCES = [
    pytest.param(Proc(), id="proc", marks=pytest.mark.skipif(not IS_LINUX, reason="only Linux has /proc")),
    pytest.param(Portable(pytest.importorskip("psutil")), id="psutil"),
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_is_known_by_number_and_start_until_it_is_gone(source: Proc | Portable) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    named = identity(child.pid, source)
    assert lives(named, source)
    assert named == identity(child.pid, source) != identity(os.getpid(), source)
    number, _, _ = named.partition("-")
    assert not lives(f"{number}-1", source), "another one with the same number is another one"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not lives(named, source), "one that nobody has taken leave of is gone as well"
    child.communicate()
    assert identity(child.pid, source) == f"{child.pid}-gone"
    assert not lives(identity(child.pid, source), source)


@pytest.mark.parametrize("source", SOURCES)
def test_a_process_is_found_by_the_mark_it_carries(source: Proc | Portable) -> None:
    code = "print(flush=True); input()"
    env = {**os.environ, "DETENT_CENSUS": "a b=c", "DETENT_OTHER": "käse"}
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        ((pid, found),) = carriers("DETENT_CENSUS=a b=c", source)
        assert pid == child.pid
        assert value(found, "DETENT_OTHER") == "käse"
        assert value(found, "DETENT_NOTHING") == ""
        assert [*carriers("DETENT_CENSUS=a", source)] == []
    finally:
        child.communicate(b"\n")
