# SPDX-License-Identifier: Apache-2.0
"""The package as users install it: every block of its README, the folder examples, and what is in it."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from peers import BINARY, ROOT, Server

CLIENT = os.path.join(ROOT, "clients/python")
with open(os.path.join(CLIENT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", README, re.M | re.S)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp(prefix="holdfast-py-")
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        # A copy, so that the build leaves nothing in the source.
        source = shutil.copytree(CLIENT, os.path.join(cls.home, "source"), ignore=shutil.ignore_patterns("__pycache__"))
        cls.site = os.path.join(cls.home, "site")
        cls.run_program("-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir", "--disable-pip-version-check",
                        "--root-user-action=ignore", "--target", cls.site, source)
        os.symlink(BINARY, os.path.join(cls.home, "holdfast"))

    @classmethod
    def run_program(cls, *words, program=sys.executable):
        env = {**os.environ, "PYTHONPATH": getattr(cls, "site", ""), "HOLDFAST_SERVER": cls.server.url, "HOLDFAST_BINARY": BINARY,
               "PATH": f"{cls.home}:{os.environ['PATH']}", "PYTHONWARNINGS": "error::ResourceWarning", "MYPY_CACHE_DIR": os.path.join(ROOT, "build/mypy")}
        done = subprocess.run([program, *words], cwd=cls.home, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def test_readme(self):
        programs = [(*block, BLOCKS[i + 1][2] if i + 1 < len(BLOCKS) and BLOCKS[i + 1][0] == "text" else None)
                    for i, block in enumerate(BLOCKS) if block[0] != "text"]
        self.assertGreaterEqual(len(programs), 12)
        for language, name, text, printed in programs:
            with self.subTest(name):
                self.assertTrue(name, text)
                with open(os.path.join(self.home, name), "w", encoding="utf-8") as file:
                    file.write(text.replace("http://127.0.0.1:8000", self.server.url))
                said = self.run_program(name, program="bash" if language == "sh" else sys.executable)
                if printed is not None:
                    self.assertEqual(said, printed)

    def test_commands_of_the_readme(self):
        plain = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
        self.assertEqual(re.findall(r"^ {4}(\S.*)$", plain, re.M), ["pip install .", "../../scripts/test clients/py"])

    def test_what_is_installed(self):
        installed = sorted(os.listdir(self.site))
        self.assertEqual([name for name in installed if not name.endswith(".dist-info")], ["holdfast"])
        self.assertTrue(os.path.exists(os.path.join(self.site, "holdfast/py.typed")))
        version = self.run_program("-c", "import holdfast; print(holdfast.__version__, holdfast.__file__)").split()
        self.assertTrue(version[1].startswith(self.site), version)
        self.assertIn(f"holdfast-{version[0]}.dist-info", installed)

    def test_the_types_of_the_readme(self):
        names = [name for language, name, _ in BLOCKS if name in ("typed.py",)]
        for name, text in [(name, text) for language, name, text in BLOCKS if name in names]:
            with open(os.path.join(self.home, name), "w", encoding="utf-8") as file:
                file.write(text)
            self.run_program("--strict", "--no-error-summary", name, program="mypy")

    def test_only_the_standard_library_is_imported(self):
        source = "import sys; before = set(sys.modules); import holdfast.testing, holdfast.worker.__main__; print(*(set(sys.modules) - before))"
        roots = {name.split(".")[0] for name in self.run_program("-c", source).split()}
        self.assertEqual(roots - set(sys.stdlib_module_names) - {"holdfast"}, set())

    def test_the_examples(self):
        for name, last in (("mailer.py", "done: {'sent': 23, 'refused': 1, 'retried': 1, 'postponed': 1}"), ("order.py", "done: {'book': 1, 'lamp': 0}")):
            with self.subTest(name):
                said = self.run_program(os.path.join(CLIENT, "examples", name)).splitlines()
                self.assertEqual(said[-1], last, said)
