// The versions of the protocol that this program speaks, and whether a peer speaks one of
// them. A test builds this file with a newer TUG_WIRE_NEWEST, and so gets a program of
// the next version.
//
// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#ifndef TUG_WIRE_NEWEST
#define TUG_WIRE_NEWEST WIRE_VERSION
#endif

struct wire_versions wire_own_versions(void)
{
    return (struct wire_versions){WIRE_OLDEST, TUG_WIRE_NEWEST};
}

int wire_agree(struct wire_versions with, struct wire_text tug, struct err *e)
{
    const struct wire_versions own = wire_own_versions();
    char theirs[64];
    if (with.newest == 0)
        with = (struct wire_versions){WIRE_FIRST, WIRE_FIRST};
    uint8_t oldest = with.oldest > own.oldest ? with.oldest : own.oldest;
    uint8_t newest = with.newest < own.newest ? with.newest : own.newest;
    if (newest >= oldest)
        return 0;
    wire_words(tug, theirs, sizeof(theirs));
    if (with.newest < own.oldest)
        return err_set(
            e, TUG_EUSAGE,
            "tug %s speaks versions up to %u of the protocol, but tug %s needs "
            "version %u: install tug %s or a newer one in place of tug %s",
            theirs, with.newest, tug_version(), own.oldest, tug_version(), theirs);
    return err_set(e, TUG_EUSAGE,
                   "tug %s needs version %u of the protocol, but tug %s speaks versions "
                   "up to %u: install tug %s or a newer one in place of tug %s",
                   theirs, with.oldest, tug_version(), own.newest, theirs, tug_version());
}
