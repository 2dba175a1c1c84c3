// A message in one block of memory, for vans that pass memory on: inproc and sim. It has
// the same bytes that a socket would carry, and they are decoded in the same way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PARCEL_H
#define TUG_KIT_PARCEL_H

#include "van/van.h"

struct parcel;

// Encodes a message, with `o` as a buffer that is reused, and copies it. Returns 0,
// TUG_EUSAGE or TUG_ENOMEM.
int parcel_pack(struct parcel **ret, struct wire_out *o, uint16_t type, uint64_t request,
                const void *msg);
struct parcel *parcel_copy(const struct parcel *p); // NULL if memory ran out
// The memory is freed when no handler keeps it any more.
void parcel_free(struct parcel *p);

uint64_t parcel_bytes(const struct parcel *p); // size of its frame in bytes
const char *parcel_name(const struct parcel *p);

// Decodes the message and calls the handler's `place` and `message`. Returns TUG_EDATA if
// the message cannot be decoded.
int parcel_deliver(struct parcel *p, const struct van_handler *h, van_link link,
                   uint64_t now, struct err *e);

// These functions implement van_keep and van_unkeep.
void *parcel_keep(struct van *v, struct van_message *m);
void parcel_unkeep(struct van *v, void *kept);

#endif
