// See process_state.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/process_state.h"

#include <stdio.h>
#include <string.h>

char process_state(pid_t pid)
{
    // The second field, the name in parentheses, has at most 64 bytes, which may be spaces
    // and parentheses, too; the state follows the last one.
    char path[64], line[256] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return 0;
    const char *name_end = fgets(line, sizeof(line), f) != NULL ? strrchr(line, ')')
                                                                : NULL;
    fclose(f);
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : 0;
}
