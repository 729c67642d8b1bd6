#!/bin/sh
# check_man.sh AMP: the man pages are well-formed, and of the version of the tool. Exit 77: nothing here reads man pages.
set -u
failed=0
version=$("$1" --version | sed 's/amp //')
for page in tools/amp/amp.1 docs/libamp.3; do
    grep -q "^\.TH .* \"libamp $version\" " "$page" || { echo "$page is not of libamp $version"; failed=1; }
    for section in NAME SYNOPSIS DESCRIPTION ENVIRONMENT "SEE ALSO"; do
        grep -q "^\.SH $section" "$page" || { echo "$page has no section $section"; failed=1; }
    done
done
if command -v groff >/dev/null; then
    lint() { groff -t -man -Tutf8 -ww -z "$1" 2>&1; }
elif command -v mandoc >/dev/null; then
    lint() { mandoc -T lint -W warning "$1" 2>&1; }
else
    [ $failed = 0 ] || exit 1
    echo "skipped: neither groff nor mandoc is installed"
    exit 77
fi
for page in tools/amp/amp.1 docs/libamp.3; do
    said=$(lint "$page")
    [ -z "$said" ] || { echo "$said"; failed=1; }
done
exit $failed
