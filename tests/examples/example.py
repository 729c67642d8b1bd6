"""An example as its user runs it, for the checks beside this file: check_NAME.py PROGRAM."""

import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments, stdin=b"", errors="strict"):
    """Exit status, standard output and standard error."""
    done = subprocess.run([PROGRAM, *arguments], input=stdin, capture_output=True, timeout=600, check=False)
    return done.returncode, done.stdout.decode(errors=errors), done.stderr.decode()


class ErrorsOfExample(unittest.TestCase):
    def fails(self, status, sentence, *arguments, stdin=b"", lines=1):
        """It ends with that status, prints nothing, and complains in so many lines, with the sentence in them."""
        actual, out, err = run(*arguments, stdin=stdin)
        self.assertEqual((actual, out), (status, ""))
        self.assertIn(sentence, err)
        self.assertEqual(err.count("\n"), lines, err)
