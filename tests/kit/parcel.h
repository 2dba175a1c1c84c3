// A message in one block of memory, for vans that hand memory over: inproc and sim. It
// holds the very bytes that a socket would carry, and they are decoded as if they had
// come from one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PARCEL_H
#define TUG_KIT_PARCEL_H

#include "van/van.h"

struct parcel;

// Encodes with the help of `o`, which is reused, and copies. 0; TUG_EUSAGE; TUG_ENOMEM.
int parcel_pack(struct parcel **ret, struct wire_out *o, uint16_t type, uint64_t request,
                const void *msg);
struct parcel *parcel_copy(const struct parcel *p); // NULL: out of memory
void parcel_free(struct parcel *p);                 // lives on while it is kept

uint64_t parcel_bytes(const struct parcel *p); // of the frame
const char *parcel_name(const struct parcel *p);

// Decodes and calls the handler's `place` and `message`. TUG_EDATA: cannot be read.
int parcel_deliver(struct parcel *p, const struct van_handler *h, van_link link,
                   uint64_t now, struct err *e);

// van_keep and van_unkeep.
void *parcel_keep(struct van *v, struct van_message *m);
void parcel_unkeep(struct van *v, void *kept);

#endif
