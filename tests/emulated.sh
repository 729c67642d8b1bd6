#!/bin/sh
# emulated.sh PROGRAM FILTER: runs those tests of a GoogleTest program on an emulated CPU with AMX. AMP_EMULATOR names a
# command that runs a program there (`$AMP_EMULATOR PROGRAM ARGUMENT…`); without it the test is skipped (exit 77).
set -eu
if [ -z "${AMP_EMULATOR:-}" ]; then
    echo "AMP_EMULATOR is not set: no emulated CPU to run on"
    exit 77
fi
exec "$AMP_EMULATOR" "$1" "--gtest_filter=$2"
