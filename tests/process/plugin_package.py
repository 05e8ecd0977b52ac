"""Installs a package of tests/data as pip would, without pip, a build backend or a network."""

import shutil
import tomllib
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def install_plugin_package(target: Path, package: str = "plugin_package") -> Path:
    """Copy the modules to a folder for PYTHONPATH, with the metadata of an installed distribution beside them."""
    project = tomllib.loads((DATA / package / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"], project["version"]
    module = name.replace("-", "_")
    shutil.copytree(DATA / package / module, target / module)
    metadata = target / f"{module}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    groups = (
        f"[{group}]\n" + "".join(f"{entry} = {value}\n" for entry, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups), "utf-8")
    (metadata / "RECORD").write_text("", "utf-8")
    return target
