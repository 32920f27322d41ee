"""Programs in sandboxes: real processes that try to get at the home and at what decides about them."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import detent
from detent.core.policy import Policy, Rule
from detent.effects import sandbox
from tests.effects.attempt import Called, call, machine

CANNOT = sandbox.find_problem("home")
needs_bubblewrap = pytest.mark.skipif(bool(CANNOT), reason=CANNOT)
POLICY_TEXT = "rules:\n  - {name: careful, decision: deny, tool: mail.*}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a policy, and the current folder."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "detent.policy.yaml").write_text(POLICY_TEXT)
    monkeypatch.chdir(place)
    return place


async def run_script(folder: Path, script: str, **given: object) -> Called:
    return await call(folder, "shell", {"argv": ["sh", "-c", script], "ok_exit": list(range(256)), **given})


ATTACKS = {
    "write": "echo x > .detent/journal.db",
    "make a file": "echo x > .detent/new",
    "delete": "rm -rf .detent/journal.db .detent; test ! -d .detent",
    "rename": "mv .detent aside",
    "link": "ln .detent/journal.db aside",
    "symbolic link": "ln -s .detent aside && cat aside/journal.db",
    "mode": "chmod 777 .detent/journal.db",
    "unmount": "umount .detent",
    "a mount of its own": "mkdir -p m && mount --bind .detent m",
    "unmount in namespaces of its own": "unshare -Urm sh -c 'umount .detent && cat .detent/journal.db'",
    "the parent's root": "cat /proc/$PPID/root$PWD/.detent/journal.db",
    "anybody's root": "cat /proc/[0-9]*/root$PWD/.detent/journal.db",
    "anybody's folder": "cat /proc/[0-9]*/cwd/.detent/journal.db",
    "anybody's files": "ls -l /proc/[0-9]*/fd | grep journal.db",
    "a mount of the project in namespaces of its own": (
        "mkdir -p m; unshare -Urm sh -c 'mount --bind . m && cat m/.detent/journal.db'"
    ),
    "entering the parent's namespaces": "nsenter -t $PPID -m cat $PWD/.detent/journal.db",
    "a program that the kernel starts": (
        "cat /proc/sys/kernel/core_pattern > core && cat core > /proc/sys/kernel/core_pattern"
    ),
    "the kernel's groups": "touch /sys/fs/cgroup/mine || echo 0 > /sys/fs/cgroup/cgroup.procs",
    "a moved project": "mv ../project ../moved && cat ../moved/.detent/journal.db; mv ../moved ../project; false",
    "what is known of the home": 'rm "$XDG_STATE_HOME"/detent/homes/*.json',
    "write the policy": "echo 'rules: []' > detent.policy.yaml",
    "replace the policy": "echo 'rules: []' > new && mv new detent.policy.yaml",
    "delete the policy": "rm -f detent.policy.yaml",
    "rename the policy": "mv detent.policy.yaml old.yaml",
    "link the policy": "ln detent.policy.yaml other && echo >> other",
}


@needs_bubblewrap
@pytest.mark.parametrize("level", ["home", "folder", "strict"])
async def test_no_program_gets_at_the_home_or_changes_what_decides_about_it(folder: Path, level: str) -> None:
    state = {"XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    tries = [
        f"({attack}) >/dev/null 2>&1 && echo got through: {name.replace(chr(39), '')}"
        for name, attack in ATTACKS.items()
    ]
    done = await run_script(folder, "\n".join(["ls -A .detent", *tries, "echo tried"]), sandbox=level, env=state)
    assert done.sandbox == level
    assert done.result.get("stdout") == "tried\n", done
    assert (folder / "detent.policy.yaml").read_text() == POLICY_TEXT
    after = await run_script(folder, "true")  # the journal is where it was, and goes on
    assert after.result["exit"] == 0


@needs_bubblewrap
@pytest.mark.parametrize("decoy", ["true", "mkdir -p project/.detent"])
async def test_a_home_that_a_program_has_moved_is_out_of_reach_of_the_next_one(folder: Path, decoy: str) -> None:
    outside, moved = folder.parent, folder.parent / "moved" / ".detent" / "journal.db"
    move = {"argv": ["sh", "-c", f"cd .. && mv project moved && {decoy}"], "cwd": str(folder)}
    look = {"argv": ["cp", str(moved), "got"], "cwd": str(outside)}
    write = {"path": str(moved), "text": "x", "root": "/"}
    async with detent.open(folder / ".detent") as host:
        for effect, given, problem in (
            ("shell", move, None),
            ("shell", look, "is not at"),
            ("files.write", write, "in the home"),
        ):
            run = await host.settled((await host.start(machine(effect, given))).id)
            assert (problem or "'exit': 0") in f"{run.results} {run.error}", run
        shutil.rmtree(folder, ignore_errors=True)
        moved.parent.parent.rename(folder)
    assert not (outside / "got").exists()
    assert (await run_script(folder, "true")).result["exit"] == 0


@needs_bubblewrap
async def test_by_default_everything_else_is_as_without_a_sandbox(folder: Path) -> None:
    outside = folder.parent / "outside"
    script = f"cat detent.policy.yaml; echo $DETENT_SANDBOX; echo new > made; echo new > {outside}; mkdir d; pwd; cat"
    done = await run_script(folder, script, stdin="said")
    assert done.sandbox == "home"
    assert done.result["stdout"] == f"{POLICY_TEXT}home\n{folder}\nsaid"
    assert (folder / "made").read_text() == outside.read_text() == "new\n"


@needs_bubblewrap
async def test_exits_signals_and_programs_that_are_not_there_are_told_as_before(folder: Path) -> None:
    for script, code in (("exit 7", 7), ("exit 128", 128), ("kill -9 $$", -9)):
        argv = ["sh", "-c", script]
        found = [await call(folder, "shell", {"argv": argv, "sandbox": level}) for level in ("off", "home")]
        assert [one.result.get("exit") for one in found] == [code, code]
        assert found[0].error == found[1].error
    for argv in (["no-such-program"], ["/etc/passwd"]):
        found = [await call(folder, "shell", {"argv": argv, "sandbox": level}) for level in ("off", "home")]
        assert found[0].error == found[1].error != ""
    kept = await call(folder, "shell", {"argv": ["sh", "-c", "exit 137"], "ok_exit": [0, 137]})
    assert kept.result["exit"] == 137


@needs_bubblewrap
async def test_the_holders_socket_is_not_there(folder: Path) -> None:
    program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    argv = [sys.executable, "-c", program, ".detent/door"]
    open_to_all = await call(folder, "shell", {"argv": argv, "sandbox": "off"})
    assert open_to_all.result["exit"] == 0, open_to_all.error
    held = await call(folder, "shell", {"argv": argv})
    assert "FileNotFoundError" in held.result["stderr"]


@needs_bubblewrap
async def test_a_detent_inside_finds_neither_home_nor_another_policy(folder: Path) -> None:
    (folder / "loose.yaml").write_text("rules: []\n")
    env = {"DETENT_HOME": str(folder / ".detent"), "DETENT_POLICY": str(folder / "loose.yaml")}
    argv = [sys.executable, "-m", "detent", "--home", str(folder / ".detent"), "list"]
    done = await call(folder, "shell", {"argv": argv, "env": env, "ok_exit": list(range(256))})
    assert done.result["exit"] != 0
    assert "call" not in done.result["stdout"]
    assert (folder / ".detent" / "journal.db").exists()


@needs_bubblewrap
async def test_folder_lets_a_program_write_only_where_it_works_and_where_it_says(folder: Path, tmp_path: Path) -> None:
    there, out = tmp_path / "there", tmp_path / "out"
    there.mkdir()
    out.mkdir()
    script = (
        f"echo x > here; echo x > {there}/a; echo x > {out}/b; echo x > /tmp/mine && cat /tmp/mine; ls /usr >/dev/null"
    )
    done = await run_script(folder, script, sandbox="folder", paths=[str(there)])
    assert done.sandbox == "folder"
    assert done.result["stdout"] == "x\n"
    assert (folder / "here").exists()
    assert (there / "a").exists()
    assert not (out / "b").exists()
    assert not Path("/tmp/mine").exists()  # noqa: S108


@needs_bubblewrap
@pytest.mark.skipif(bool(sandbox.find_problem("strict")), reason=sandbox.find_problem("strict"))
async def test_strict_has_no_network_and_reads_only_what_is_declared(folder: Path, tmp_path: Path) -> None:
    secret, given = tmp_path / "secret", tmp_path / "given"
    secret.write_text("s")
    given.write_text("g")
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"('127.0.0.1', {server.getsockname()[1]})"
        knock = f'{sys.executable} -c "import socket; socket.create_connection({place}, 2)" 2>/dev/null && echo net'
        script = f"cat {given}; cat {secret}; cat detent.policy.yaml >/dev/null && echo mine; {knock}"
        paths = {"read": [str(given)]}
        closed = await run_script(folder, script, sandbox="strict", paths=paths)
        opened = await run_script(folder, script, sandbox="strict", paths=paths, network=True)
    assert closed.result["stdout"] == "gmine\n"
    assert opened.result["stdout"] == "gmine\nnet\n"


@needs_bubblewrap
async def test_a_program_that_is_given_up_is_ended_with_all_it_started(folder: Path) -> None:
    script = "sleep 600 & echo $$ > started; trap 'echo polite > ended; exit' TERM; wait"
    done = await call(folder, "shell", {"argv": ["sh", "-c", script], "timeout": 1}, kind="pure")
    assert "had not ended after 1 s" in done.error
    assert (folder / "ended").read_text() == "polite\n"
    left = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, check=False).stdout  # noqa: ASYNC221
    assert not left


async def test_a_level_that_cannot_be_had_is_refused_where_it_was_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder / "empty"))
    sandbox.forget_abilities()
    try:
        shell = {"argv": ["/bin/sh", "-c", "echo x > made"]}
        for policy, given in (
            (None, {"sandbox": "home"}),
            (None, {"sandbox": "folder"}),
            (None, {"sandbox": "strict"}),
            (Policy(sandbox="home"), {}),
            (Policy(rules=(Rule("boxed", "allow", tools=("shell",), sandbox="home"),)), {"sandbox": "off"}),
        ):
            refused = await call(folder, "shell", {**shell, **given}, policy or Policy())
            assert "is not available here: bubblewrap (bwrap) is not installed" in refused.error
            assert not (folder / "made").exists()
        unasked = await call(folder, "shell", shell, Policy())
        assert unasked.sandbox == "off: bubblewrap (bwrap) is not installed"
        assert (folder / "made").exists()
    finally:
        monkeypatch.undo()
        sandbox.forget_abilities()


@needs_bubblewrap
async def test_a_policys_level_is_a_minimum(folder: Path) -> None:
    boxed = Policy(
        sandbox="home", rules=(Rule("tests", "allow", tools=("shell",), when="'t' in args.argv", sandbox="folder"),)
    )
    for argv, given, level in (
        (["true"], {"sandbox": "off"}, "home"),
        (["true"], {"sandbox": "strict"}, "strict"),
        (["true", "t"], {"sandbox": "home"}, "folder"),
    ):
        done = await call(folder, "shell", {"argv": argv, **given}, boxed)
        assert done.sandbox == level, done


@needs_bubblewrap
async def test_a_function_is_called_in_a_process_of_its_own_where_a_sandbox_is_asked_for(folder: Path) -> None:
    unlink = {"function": "os:unlink", "args": [".detent/journal.db"]}
    for given, policy in (({"sandbox": "home"}, Policy()), ({}, Policy(sandbox="home"))):
        done = await call(folder, "python", {**unlink, **given}, policy)
        assert done.sandbox == "home"
        assert "Read-only file system" in done.error
    same = await call(folder, "python", {"function": "os:getpid", "args": {}})
    other = await call(folder, "python", {"function": "os:getpid", "args": {}, "sandbox": "folder"})
    assert (same.result["value"], same.sandbox) == (os.getpid(), "")
    assert other.result["value"] != os.getpid()
    refused = await call(folder, "python", {"function": "os:nothing", "args": {}, "sandbox": "home"})
    assert "AttributeError" in refused.error


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"sandbox": "tight"}, "must be one of off, home, folder, strict"),
        ({"paths": "here"}, "must be a list of paths"),
        ({"paths": {"reed": []}}, "must be a list of paths"),
        ({"network": "yes"}, "must be true or false"),
        ({"sandbox": "folder", "paths": ["nowhere"]}, "there is no 'nowhere'"),
    ],
)
async def test_a_wish_that_makes_no_sense_is_a_sentence(folder: Path, given: dict[str, object], problem: str) -> None:
    if CANNOT and "nowhere" in problem:
        pytest.skip(CANNOT)
    done = await call(folder, "shell", {"argv": ["true"], **given})
    assert problem in done.error
