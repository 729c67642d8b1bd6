#!/bin/sh
# check_installed.sh PREFIX MANDIR DOCDIR DATADIR (below the prefix): what there is to read is installed, and its links hold.
set -u
prefix=$1 man=$1/$2 docs=$1/$3 data=$1/$4
failed=0
for file in "$man/man1/amp.1" "$man/man3/libamp.3" "$data/bash-completion/completions/amp" "$docs/LICENSE" "$docs/CHANGELOG.md" \
    "$docs/README.md" "$docs/ops.html" "$docs/blocking.svg" "$docs/examples/first_steps.c" "$docs/examples/minilm/minilm.c"; do
    [ -s "$file" ] || { echo "not installed: $file"; failed=1; }
done
for file in docs/*.md; do
    [ -s "$docs/${file#docs/}" ] || { echo "not installed: $docs/${file#docs/}"; failed=1; }
done
grep -q '"c_name": "linear"' "$docs/ops.html" || { echo "$docs/ops.html does not know linear"; failed=1; }
cmp -s tools/amp/completion.bash "$data/bash-completion/completions/amp" || { echo "another completion is installed"; failed=1; }
python3 tests/docs/check_docs.py --links "$docs" || failed=1
exit $failed
