#!/bin/sh
# check_symbols.sh LIBAMP.SO: the library exports amp_ names only, each with the SONAME's version, and has the SONAME that programs
# record.
set -eu
foreign=$(nm -D --defined-only "$1" | awk '$3 !~ /^amp_[a-z0-9_]*@@AMP_0\.1$/ && $3 !~ /^AMP_0\.1(@@AMP_0\.1)?$/ { print $3 }')
[ -z "$foreign" ] || { echo "exported, but not ours: $foreign" >&2; exit 1; }
nm -D --defined-only "$1" | grep -q ' amp_version@@AMP_0.1$' || { echo "amp_version is not exported" >&2; exit 1; }
readelf -d "$1" | grep -q 'SONAME.*\[libamp\.so\.0\.1\]' || { echo "the SONAME is not libamp.so.0.1" >&2; exit 1; }
