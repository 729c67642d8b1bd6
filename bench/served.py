"""A program that answers each line of its standard input (--serve), for the scripts that let it take turns with another."""

import subprocess
import sys


class Served:
    def __init__(self, *command):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self, after="its start"):
        """The next line that it writes; where it has ended there is none, and this script ends too."""
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.command)}: no answer after {after} (status {self.process.wait()})")
        return line

    def ask(self, *words):
        """Its answer to these words."""
        question = " ".join(map(str, words))
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.process.stdin = None  # what was not written is not tried again; there is no answer
        return self.line(f"'{question}'")

    def seconds(self, *words):
        return float(self.ask(*words))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
