#!/bin/sh
# check_symbols.sh LIBAMP.SO: the library exports amp_ names only, and has the SONAME that programs record.
set -eu
foreign=$(nm -D --defined-only "$1" | awk '$3 !~ /^amp_/ { print $3 }')
[ -z "$foreign" ] || { echo "exported, but not ours: $foreign" >&2; exit 1; }
nm -D --defined-only "$1" | grep -q ' amp_version$' || { echo "amp_version is not exported" >&2; exit 1; }
readelf -d "$1" | grep -q 'SONAME.*\[libamp\.so\.0\.1\]' || { echo "the SONAME is not libamp.so.0.1" >&2; exit 1; }
