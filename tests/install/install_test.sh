#!/bin/sh
# Installs into an empty prefix. Then builds and runs a program with the installed library
# in both ways that the documentation offers: pkg-config and find_package.
# SPDX-License-Identifier: Apache-2.0
set -eu
build=$1
cc=$2
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tug-install.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

cmake --install "$build" --prefix "$tmp/prefix" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
lib=$(dirname "$(find "$tmp/prefix" -name libtug.so)")

export PKG_CONFIG_PATH="$lib/pkgconfig"
version=$(pkg-config --modversion tug)
# The command is unquoted on purpose, because pkg-config prints several words.
"$cc" -Wall -Wextra -Werror -o "$tmp/shared" "$here/user.c" $(pkg-config --cflags --libs tug)
LD_LIBRARY_PATH="$lib" "$tmp/shared" "$version"

# shellcheck disable=SC2046
"$cc" -o "$tmp/static" "$here/user.c" $(pkg-config --cflags tug) \
    -L"$lib" -Wl,-Bstatic -ltug -Wl,-Bdynamic $(pkg-config --static --libs-only-l tug | sed 's/-ltug//') -pthread
"$tmp/static" "$version"

# A C++ program with ps-lite's names runs alone in its cluster; without the flags of
# tug-ps it does not compile.
if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046
    c++ -std=c++11 -Wall -Wextra -Werror -o "$tmp/pslite" "$here/pslite.cc" $(pkg-config --cflags --libs tug-ps)
    LD_LIBRARY_PATH="$lib" timeout 60 "$here/../../examples/run" 1 1 "$tmp/pslite"
    # shellcheck disable=SC2046
    ! c++ -std=c++11 -fsyntax-only "$here/pslite.cc" $(pkg-config --cflags tug) 2>/dev/null
fi

cmake -S "$here" -B "$tmp/user" -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_C_COMPILER="$cc" >"$tmp/log" &&
    cmake --build "$tmp/user" >>"$tmp/log" || { cat "$tmp/log"; exit 1; }
"$tmp/user/user" "$version"

if [ -x "$build/tug" ]; then
    "$tmp/prefix/bin/tug" --version | grep -qF "$version"
    share=$tmp/prefix/share
    if command -v scdoc >/dev/null; then
        grep -q tug_push "$share/man/man3/tug.3"
        awk '/^\.nf/ { as_it_is = 1 } /^\.fi/ { as_it_is = 0 }
            as_it_is && /counter  *dim amounts/ { found = 1 } END { exit !found }' "$share/man/man3/tug_table.3" ||
            { echo "tug_table(3) fills the lines of its table"; exit 1; }
        grep -q 'man3/tug_table.3' "$share/man/man3/tug_shrink.3"
        for header in "$tmp"/prefix/include/tug/*.h; do
            name=$(basename "$header" .h)
            test -s "$share/man/man3/tug_$name.3" || test "$name" = tug || test "$name" = arrow ||
                { echo "tug/$name.h has no page in the manual"; exit 1; }
        done
        test -s "$share/man/man1/tug-train.1"
    fi
    # Files that installed headers cite are installed, too.
    test -s "$share/doc/tug/kvapp.md"
    test -s "$share/doc/tug/from-ps-lite.md"
    test -s "$share/tug/monitoring/tug.rules.yml"
    test -s "$share/tug/monitoring/tug.dashboard.json"
    ! grep -rnE '(^|[^/])docs/' "$tmp/prefix/include" || { echo "a header cites what is not installed"; exit 1; }
    for file in bash-completion/completions/tug zsh/site-functions/_tug fish/vendor_completions.d/tug.fish; do
        grep -q -- --epochs "$share/$file" || grep -q -- '-l epochs' "$share/$file"
    done
fi
echo "installed, linked and run: pkg-config (shared and static), find_package"
