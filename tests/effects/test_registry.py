"""Where effects come from: the built-in table, and plugins found through entry points of packages on the path."""

import subprocess
import sys
from pathlib import Path

import pytest

from detent.core.effect_type import Effect
from detent.effects import Known, builtin, discover
from detent.effects import plugins as installed
from detent.errors import DefinitionError

SOURCE = '''
from detent.core.effect_type import effect

@effect("fax.send", kind="irreversible")
async def send(contract):
    """Send a fax."""

@effect("fax.list", kind="pure")
async def listing(contract):
    """List the faxes."""

@effect("shell")
async def shell(contract):
    """Pretend."""

def effects(): return [send, listing]
def generated(): yield from effects()
def broken(): raise RuntimeError("no modem")
def leaves(): raise SystemExit(3)
def numbers(): return [1]
def none(): return None
number = 3
'''


class Plugins:
    """Installed packages in a folder that is on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "faxing.py").write_text(SOURCE, encoding="utf-8")

    def install(self, package: str, *entries: str) -> None:
        info = self.folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
        text = "\n".join(["[detent.effects]", *entries, ""])
        (info / "entry_points.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugins:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faxing", raising=False)
    return Plugins(tmp_path)


def test_the_built_in_effects_go_by_their_names() -> None:
    effects = builtin()
    assert {name: effect.name for name, effect in effects.items()} == {name: name for name in effects}
    assert {name: effect.declared.kind for name, effect in effects.items()} == {
        "shell": "irreversible",
        "python": "irreversible",
        "http": "irreversible",
        "files": "irreversible",
        "files.write": "idempotent",
        "files.read": "pure",
        "files.append": "irreversible",
        "files.keep": "idempotent",
        "notify": "idempotent",
        "llm": "idempotent",
        "pipeline": "irreversible",
    }
    assert all(effect.about and effect.declared.timeout_s > 0 for effect in effects.values())


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import detent.effects", {"asyncio", "subprocess", "httpx2", "importlib.metadata"}),
        ("import detent.effects; detent.effects.builtin()", {"httpx2", "ssl"}),
    ],
)
def test_an_effect_is_loaded_when_it_is_needed(code: str, unwanted: set[str]) -> None:
    floor = "import msgspec, asyncio" if "asyncio" not in unwanted else "import msgspec"
    assert not (loaded_by(code) - loaded_by(floor)) & unwanted


def loaded_by(code: str) -> set[str]:
    """The modules of a fresh interpreter after some code."""
    argv = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    env = {"PYTHONPATH": ":".join(sys.path)}
    return set(subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout.split())


def test_packages_are_searched_only_for_a_name_that_is_not_ours(plugins: Plugins) -> None:
    plugins.install("detent-fax", "fax = faxing:broken")
    known = Known()
    assert known["python"] is builtin()["python"]
    assert "shell" in known
    with pytest.raises(DefinitionError, match="no modem"):
        known.get("fax.send")
    with pytest.raises(DefinitionError, match="no modem"):
        list(known)


def test_ours_come_first_then_plugins_then_the_rest(plugins: Plugins) -> None:
    async def nothing(_contract: object) -> None: ...

    plugins.install("detent-fax", "fax = faxing:effects")
    given = {name: Effect(name, nothing) for name in ("shell", "fax.send", "tools.saw")}
    known = Known(given)
    assert known["shell"] is builtin()["shell"]
    assert known["fax.send"].declared.kind == "irreversible"
    assert known["fax.send"] is not given["fax.send"]
    assert known["tools.saw"] is given["tools.saw"]
    assert known.get("nobody") is None
    assert [*known] == [*builtin(), "fax.send", "tools.saw", "fax.list"]
    assert len(known) == len([*known])


def test_nothing_installed_gives_nothing() -> None:
    assert discover() == {}


def test_a_plugin_offers_one_effect_or_several(plugins: Plugins) -> None:
    plugins.install("detent-fax", "one = faxing:send")
    assert [effect.name for effect in discover().values()] == ["fax.send"]


@pytest.mark.parametrize("name", ["effects", "generated"])
def test_a_function_may_offer_several(plugins: Plugins, name: str) -> None:
    plugins.install("detent-fax", f"fax = faxing:{name}")
    found = discover()
    assert sorted(found) == ["fax.list", "fax.send"]
    assert found["fax.list"].declared.kind == "pure"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("no_such_module_here:effects", "ModuleNotFoundError"),
        ("faxing:nothing", "AttributeError"),
        ("faxing:broken", "RuntimeError: no modem"),
        ("faxing:leaves", "SystemExit: 3"),
        ("faxing:number", "offers a int"),
        ("faxing:numbers", "offers a int"),
        ("faxing:none", "offers a NoneType"),
        ("faxing:shell", "`shell`, but detent has its own"),
    ],
)
def test_a_broken_plugin_is_named(plugins: Plugins, value: str, problem: str) -> None:
    plugins.install("detent-fax", f"fax = {value}")
    with pytest.raises(DefinitionError, match=problem) as caught:
        discover()
    assert caught.value.where == f"plugin `fax` of package `detent-fax` ({value})"


def test_two_plugins_cannot_offer_the_same_name(plugins: Plugins) -> None:
    plugins.install("detent-fax", "fax = faxing:send")
    plugins.install("other-fax", "fax = faxing:effects")
    with pytest.raises(DefinitionError, match=r"`fax\.send`, as does plugin `fax` of package") as caught:
        discover()
    assert "detent-fax" in str(caught.value)
    assert "other-fax" in str(caught.value)


def test_who_looks_after_an_installation_sees_the_sound_and_the_broken(plugins: Plugins) -> None:
    plugins.install("detent-fax", "fax = faxing:effects")
    plugins.install("modem", "modem = faxing:broken")
    plugins.install("other-fax", "fax = faxing:send")
    found = {one.title.partition(" (")[0]: one for one in installed()}
    fax, other = sorted(name for name in found if name.startswith("plugin `fax`"))
    whole, refused = (found[fax], found[other]) if found[fax].effects else (found[other], found[fax])
    assert whole.effects in (("fax.send", "fax.list"), ("fax.send",))
    assert "as does plugin `fax`" in refused.problem
    assert "no modem" in found["plugin `modem` of package `modem`"].problem
