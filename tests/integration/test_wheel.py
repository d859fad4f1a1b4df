"""The built wheel works by itself: in a clean environment, away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a clean environment with the wheel in it.

    What the wheel depends on is taken from this environment, so that nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT,
        cwd=folder,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    home = folder / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    ours = run(
        sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
    ).strip()
    theirs = Path(
        run(
            python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
        ).strip()
    )
    # The checkout is in this environment as well; its finder must not come along.
    links = theirs / "dependencies"
    links.mkdir()
    for item in Path(ours).iterdir():
        if not item.name.startswith(("_specdec", "specdec_monitor", "__editable__", "_editable")):
            (links / item.name).symlink_to(item)
    (theirs / "dependencies.pth").write_text(f"{links}\n")
    return home / "bin"


def test_wheel_carries_what_lies_outside_the_package(installed: Path, tmp_path: Path) -> None:
    code = (
        "import monitor; from monitor.resources import data_dir;"
        "print(monitor.__file__);"
        "[print(name, sorted(p.name for p in data_dir(name).iterdir()))"
        " for name in ('alerts', 'dashboards', 'migrations')]"
    )
    said = run(installed / "python", "-c", code, cwd=tmp_path)
    assert str(installed.parent) in said.splitlines()[0]
    assert "versions" in said
    assert "prometheus" in said
    assert "paying.json" in said


def test_installed_command_judges_and_migrates(installed: Path, tmp_path: Path) -> None:
    monitor = installed / "monitor"
    assert run(monitor, "--version", cwd=tmp_path).startswith("monitor ")
    run(monitor, "config", "init", cwd=tmp_path)
    url = f"sqlite:///{tmp_path / 'w.db'}"
    run(monitor, "db", "upgrade", "--database", url, cwd=tmp_path)
    run(monitor, "db", "check", "--database", url, cwd=tmp_path)
    page = tmp_path / "two-lines.prom"
    page.write_text(
        'vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="k"} 7190.0\n'
        'vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="k"} 1119.0\n'
    )
    speeds = ["--num-speculative-tokens", "5", "--tps", "54.6", "--baseline-tps", "82.5"]
    said = subprocess.run(
        [str(monitor), "check", "--page", str(page), *speeds],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert "speculation costs 34 % of decode speed" in said.stdout
