"""Kernels of all kinds: other kernelspecs, such that misbehave, such that cannot start."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.agents.notebook.jupyter import Kernel, kernel_launch
from detent.core import EffectFailed
from tests.agents.notebook.jupyter.kit import kernel, needs_kernel, notes, text, values
from tests.effort import PATIENCE_S

pytestmark = needs_kernel

# A kernel of another language that misbehaves on demand: it loses replies, its idle, or asks although it must not.
TOY = r"""
import os
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel


class Toy(Kernel):
    implementation = "toy"
    implementation_version = "1"
    language_info = {"name": "toy", "mimetype": "text/plain", "file_extension": ".toy"}
    banner = "toy"
    is_mute = False

    async def do_execute(self, code: str, silent: bool, *_: Any, **__: Any) -> dict[str, Any]:
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": f"{code}\n"})
        if code == "lose the reply":
            raise RuntimeError("no reply")
        if code == "lose the idle":
            self.is_mute = True
        if code == "lose both":
            self.is_mute = True
            raise RuntimeError("nothing at all")
        if code == "ask":
            self._allow_stdin = True
            self.raw_input("your name? ")
        if code == "leave":
            os._exit(0)
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def _publish_status(self, status: str, *given: Any, **named: Any) -> None:
        if self.is_mute and status == "idle":
            self.is_mute = False
            return
        super()._publish_status(status, *given, **named)


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=Toy)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a kernelspec where jupyter_client finds it."""
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    def install(name: str, *argv: str, **more: Any) -> None:
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        given = {"argv": list(argv), "display_name": name, "language": "python", **more}
        (folder / "kernel.json").write_text(json.dumps(given))

    return install


async def test_any_kernelspec_by_name(install: Any) -> None:
    argv = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
    install("mine", *argv, env={"FROM_SPEC": "yes"}, interrupt_mode="message")
    async with kernel(name="mine") as it:
        done = await it.execute("import os\nfound = os.environ['FROM_SPEC']")
        assert values(done) == {"found": "yes"}
        slow = await it.execute("import time\ntime.sleep(100)", timeout_s=0.3, grace_s=PATIENCE_S)
        assert (slow.status, slow.is_restarted) == ("timeout", False), "interrupted by a message"


async def test_our_own_interpreter_wins_over_an_installed_python3(install: Any) -> None:
    install("python3", "/bin/false")
    async with kernel() as it:
        done = await it.execute("import sys\nwhere = sys.executable")
        assert values(done) == {"where": sys.executable}


async def test_no_single_message_is_needed(install: Any, tmp_path: Path) -> None:
    script = tmp_path / "toy.py"
    script.write_text(TOY)
    install("toy", sys.executable, str(script), "-f", "{connection_file}", language="toy")
    async with kernel(name="toy") as it:
        fine = await it.execute("hello")
        assert (fine.status, text(fine), fine.variables, fine.execution_count) == ("ok", "hello\n", {}, 1)
        for code, status in (("lose the reply", "error"), ("lose the idle", "ok")):
            done = await it.execute(code, timeout_s=PATIENCE_S)
            assert done.status == status, code
            assert text(done).startswith(f"{code}\n")
            assert status == "ok" or (done.error or {})["ename"] == "ReplyLost", "nobody knows whether it ran whole"
        silent = await it.execute("lose both", timeout_s=0.5, grace_s=0.5)
        assert (silent.status, silent.is_restarted) == ("timeout", True)
        asked = await it.execute("ask", timeout_s=PATIENCE_S)
        assert asked.status != "timeout"
        assert "the cell asked for input ('your name? '); nobody can answer" in notes(asked)
        gone = await it.execute("leave")
        assert (gone.status, (gone.error or {})["evalue"]) == ("dead", "the kernel ended with exit code 0")


async def test_a_kernel_that_cannot_start_says_why(install: Any, tmp_path: Path) -> None:
    install("dies", sys.executable, "-c", "import sys; sys.exit('no licence')")
    install("missing", "/no/such/program")
    install("mute", sys.executable, "-c", "import time; time.sleep(300)")
    cases = {"dies": "exit code 1 while starting; it said: no licence", "missing": "could not be started"}
    for name, said in cases.items():
        with pytest.raises(EffectFailed, match=said):
            await Kernel(name).start()
    with pytest.raises(EffectFailed, match=r"did not answer within 0\.5 s") as slow:
        await Kernel("mute").start(within_s=0.5)
    assert slow.value.type == "timeout.action"
    with pytest.raises(
        EffectFailed, match=r"no kernel `nosuch`; kernels here: .*dies, missing, mute, python3"
    ) as unknown:
        await Kernel("nosuch").start()
    assert unknown.value.type == "tool_failure.not_found"
    with pytest.raises(EffectFailed, match="there is no folder"):
        await Kernel(cwd=str(tmp_path / "nowhere")).start()


def test_a_missing_package_is_said_with_the_way_to_get_it() -> None:
    with pytest.raises(EffectFailed, match=r"pip install 'detent\[notebook\]'") as error:
        kernel_launch.load_extra("no_such_package.inner")
    assert error.value.type == "tool_failure.not_found"


def test_a_private_folder_is_private_and_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    folder = kernel_launch.private_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder)) < kernel_launch.SOCKET_PATH_MAX
    kernel_launch.remove(folder)


def test_a_kernel_sees_what_it_needs_and_what_somebody_allows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("R_HOME", "BANK_KEY", "SITE_REGION"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv(kernel_launch.ALLOWED, "SITE_REGION, OTHER")
    seen = kernel_launch.environment({"GIVEN": "y"}, {}, tmp_path)
    assert {"R_HOME", "SITE_REGION", "GIVEN", "PATH"} <= set(seen)
    assert "BANK_KEY" not in seen
