# SPDX-License-Identifier: Apache-2.0
"""
Builds the package (PEP 517, PEP 660) with the standard library alone, so that `pip install .` needs neither the network nor
setuptools. The version is that of the package.
"""
from __future__ import annotations

import base64
import hashlib
import os
import re
import tarfile
import zipfile
from typing import Any, Dict, Optional

ROOT = os.path.dirname(os.path.abspath(__file__))
NAME = "holdfast"


def _read(*path: str) -> str:
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def _version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"', _read(NAME, "__init__.py"), re.M)
    assert found
    return found[1]


def _metadata() -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {_version()}", "Requires-Python: >=3.9",
             "Summary: Client and worker for the Holdfast job queue", "License: Apache-2.0",
             "Description-Content-Type: text/markdown", "", _read("README.md")]
    return "\n".join(lines)


def _sources() -> Dict[str, str]:
    """The files of the package, by their paths in the wheel."""
    found = {}
    for folder, folders, files in os.walk(os.path.join(ROOT, NAME)):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            found[path.replace(os.sep, "/")] = _read(path)
    return found


def _build(folder: str, files: Dict[str, str]) -> str:
    info = f"{NAME}-{_version()}.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: build_backend\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {**files, f"{info}/METADATA": _metadata(), f"{info}/WHEEL": wheel}
    name = f"{NAME}-{_version()}-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            data = text.encode("utf-8")
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD", (2020, 1, 1, 0, 0, 0)), f"{record}{info}/RECORD,,\n")
    return name


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    return _build(wheel_directory, _sources())


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    return _build(wheel_directory, {f"{NAME}.pth": ROOT + "\n"})


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    base = f"{NAME}-{_version()}"
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for path in [*_sources(), "README.md", "CHANGELOG.md", "pyproject.toml", "build_backend.py"]:
            archive.add(os.path.join(ROOT, path), f"{base}/{path}", recursive=False)
        info = os.path.join(sdist_directory, "PKG-INFO")
        with open(info, "w", encoding="utf-8") as file:
            file.write(_metadata())
        archive.add(info, f"{base}/PKG-INFO")
        os.remove(info)
    return f"{base}.tar.gz"
