#!/bin/sh
# check_packages.sh BUILD: the packages that cpack makes of BUILD. The archive runs from any folder, with nothing but the C and
# C++ run-time libraries of the system; the Debian packages need each other, and no two hold the same file. Exit 77: no patchelf,
# or no dpkg-shlibdeps.
set -eu
for tool in patchelf dpkg-shlibdeps dpkg-deb; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

cpack --config "$1/CPackConfig.cmake" -G TGZ -B "$folder/made" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cpack -G TGZ"; }
mkdir "$folder/unpacked"
tar xzf "$folder"/made/*.tar.gz -C "$folder/unpacked"
mv "$folder"/unpacked/* "$folder/any where"
root="$folder/any where"
bare="env -i PATH=/usr/bin:/bin"
$bare "$root/bin/amp" --version >/dev/null
$bare "$root/bin/amp" info | grep -q 'bf16 runs on' || fail "the archive's amp does not know the machine"
for file in "$root/bin/amp" "$root"/lib*/libamp.so "$root"/lib*/amp/*.so*; do
    outside=$($bare ldd "$file" | awk -v root="$root/" '/=>/ && index($0, "=> " root) == 0 { print $1 }' |
        grep -v -E '^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+)\.so' || true)
    [ -z "$outside" ] || fail "$file needs" $outside
done
for file in share/amp/cases/promote.json share/man/man1/amp.1; do
    [ -s "$root/$file" ] || fail "the archive has no $file"
done
grep -q CONTAINS "$root"/share/doc/*/amp.spdx.json || fail "the archive does not say what is in it"
! grep -q DEPENDS_ON "$root"/share/doc/*/amp.spdx.json || fail "what is in the archive counts as outside"

cat >"$folder/program.c" <<'C'
#include <amp/amp.h>
#include <stdio.h>
int main(void) {
    amp_scope_here();
    return amp_sum(amp_full(AMP_DIMS(3), amp_float(1))) ? puts(amp_version_string()) < 0 : 1;
}
C
mv "$root" "$folder/moved"
PKG_CONFIG_PATH=$(dirname "$(find "$folder/moved" -name amp.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # words
cc "$folder/program.c" -o "$folder/program" $(pkg-config --cflags --libs amp) -Wl,-rpath,"$PKG_CONFIG_PATH/.."
$bare "$folder/program" >/dev/null || fail "a program with the archive's library"

cpack --config "$1/CPackConfig.cmake" -G DEB -B "$folder/made" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cpack -G DEB"; }
for package in libamp0.1 libamp-dev libamp-tools; do
    ls "$folder/made/$package"_*.deb >/dev/null || fail "there is no package $package"
done
if [ -e "$1/libamp_mpi.so" ]; then
    dpkg-deb -c "$folder"/made/libamp-mpi_*.deb | grep -q '/libamp_mpi\.so$' || fail "libamp-mpi has no module"
    dpkg-deb -f "$folder"/made/libamp-mpi_*.deb Depends | grep -q mpi || fail "libamp-mpi does not need MPI"
fi
for package in "$folder"/made/*.deb; do dpkg-deb -c "$package" | awk '$6 !~ /\/$/ { print $6 }'; done | sort >"$folder/files"
twice=$(uniq -d "$folder/files")
[ -z "$twice" ] || fail "in two packages:" $twice
for package in dev tools; do
    dpkg-deb -f "$folder/made/libamp-$package"_*.deb Depends | grep -q 'libamp0.1 (= ' || fail "libamp-$package does not need libamp0.1"
done
