// A program of someone else's: sees the installed header and library only.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include <tug/tug.h>

int main(int argc, char **argv)
{
    if (argc != 2 || strcmp(tug_version(), argv[1]) != 0) {
        fprintf(stderr, "the library says %s\n", tug_version());
        return 1;
    }
    return strcmp(tug_status_text(TUG_OK), "done") != 0;
}
