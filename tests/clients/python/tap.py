#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tap.py MODULE…: runs unittest modules of this folder and prints TAP. HF_CASE is a part of the names of the cases to run."""
import logging
import os
import sys
import threading
import time
import traceback
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../clients/python")]


class Tap(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def _line(self, word, test, text=""):
        print(f"{word} {self.testsRun} - {test.id()} ({time.monotonic() - self.begin:.2f} s)")
        for line in text.splitlines():
            print(f"# {line}")
        sys.stdout.flush()

    def addSuccess(self, test):
        self._line("ok", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._line("not ok", test, "".join(traceback.format_exception(*error)))

    def addError(self, test, error):
        super().addError(test, error)
        if isinstance(test, unittest.TestCase):
            self._line("not ok", test, "".join(traceback.format_exception(*error)))
            return
        self.testsRun += 1  # setUpClass and the like
        print(f"not ok {self.testsRun} - {test.id()}")
        traceback.print_exception(*error, file=sys.stdout)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            print("# " + "".join(traceback.format_exception(*error)).replace("\n", "\n# "))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line("ok", test, f"SKIP {reason}")


def main():
    warnings.simplefilter("error", ResourceWarning)
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    loader = unittest.TestLoader()
    if os.environ.get("HF_CASE"):
        loader.testNamePatterns = [f"*{os.environ['HF_CASE']}*"]
    result = Tap()
    loader.loadTestsFromNames(sys.argv[1:]).run(result)
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast") and thread.is_alive()]
    result.testsRun += 1
    print(f"{'not ok' if left else 'ok'} {result.testsRun} - no thread stays behind {' '.join(left)}")
    print(f"1..{result.testsRun}")
    return 0 if result.wasSuccessful() and not left and result.testsRun > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
