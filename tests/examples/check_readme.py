"""What the README shows is what the examples hold, and prints what it says.

    check_readme.py README.md EXAMPLES_FOLDER FIRST_STEPS_PROGRAM
"""
import pathlib
import re
import subprocess
import sys


def main() -> int:
    readme = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    sources = {p.name: p.read_text(encoding="utf-8") for p in pathlib.Path(sys.argv[2]).rglob("*.c")}
    blocks = re.findall(r"```c\n(.*?)```", readme, re.S)
    if not blocks:
        print("the README has no C block")
        return 1
    for block in blocks:
        if not any(block in source for source in sources.values()):
            print("this block of the README is in no example:\n" + block)
            return 1
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", readme) if not (pathlib.Path(sys.argv[1]).parent / link).exists()]
    if missing:
        print("the README links to what does not exist: " + ", ".join(missing))
        return 1
    promised = re.search(r"printf\(.*\);\s*/\* (.*?) \*/", blocks[0]).group(1)
    printed = subprocess.run([sys.argv[3]], capture_output=True, text=True, check=True).stdout.strip()
    if printed != promised:
        print(f"the first example prints '{printed}', the README says '{promised}'")
        return 1
    return 0


sys.exit(main())
