// Any bytes from a peer: consecutive frames are refused, or decoded into messages that
// are encoded to the same bytes again. Lists of records in them are read to their end.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void *copy_of(const void *bytes, size_t n)
{
    void *copy = mem_alloc(n);
    require(copy != NULL);
    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

// Reads the bytes as a list of each kind of record.
#define RECORD(NAME, name, about)                                                        \
    static void walk_##name(const void *bytes, uint32_t n)                               \
    {                                                                                    \
        struct wire_text list = {bytes, n};                                              \
        struct wire_##name record;                                                       \
        int rc;                                                                          \
        while ((rc = wire_next_##name(&list, &record)) == 1)                             \
            require(list.n < n);                                                         \
        require(rc == 0 || rc == TUG_EDATA);                                             \
    }
#include "wire/messages.def"

static void walk(const void *bytes, uint32_t n)
{
#define RECORD(NAME, name, about) walk_##name(bytes, n);
#include "wire/messages.def"
}

static void encode_again(const struct wire_frame *f, const union wire_any *m,
                         const void *head)
{
    struct wire_out o = WIRE_OUT_INIT;
    require(wire_encode(&o, f->type, f->request, m, f->body_checked) == 0);
    require(o.head.len == WIRE_FRAME_BYTES + f->head_bytes);
    require(o.body_bytes == f->body_bytes);
    require(f->head_bytes == 0 ||
            memcmp(o.head.data + WIRE_FRAME_BYTES, head, f->head_bytes) == 0);
    buf_free(&o.head);
}

// Corrects the checksum, so that the decoder has to examine the bytes behind it.
static void seal(unsigned char *header, const void *head, size_t n)
{
    enum { AT_CHECKSUM = 40 };
    uint64_t sum = hash_bytes(head, n, hash_bytes(header, AT_CHECKSUM, 0));
    memcpy(header + AT_CHECKSUM, &sum, sizeof(sum));
}

// Reads the frame at the beginning and returns its size; 0 if there is none.
static size_t read_frame(const uint8_t *data, size_t size, bool sealed)
{
    struct wire_frame f;
    struct err e = {0};
    union wire_any m;
    unsigned char header[WIRE_FRAME_BYTES];
    if (size < sizeof(header))
        return 0;
    memcpy(header, data, sizeof(header));
    int rc = wire_frame_read(header, &f, &e);
    require(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    size -= sizeof(header);
    if (rc != 0 || f.head_bytes > size || f.body_bytes > size - f.head_bytes)
        return 0;
    void *head = copy_of(data + sizeof(header), f.head_bytes);
    void *body = copy_of(data + sizeof(header) + f.head_bytes, f.body_bytes);
    if (sealed)
        seal(header, head, f.head_bytes);
    walk(head, f.head_bytes);
    rc = wire_decode(header, &f, head, &m, &e);
    if (rc == 0)
        rc = wire_body(&f, body, &m, &e);
    require(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    if (rc == 0)
        encode_again(&f, &m, head);
    mem_free(head);
    mem_free(body);
    return sizeof(header) + f.head_bytes + f.body_bytes;
}

static void read_frames(const uint8_t *data, size_t size, bool sealed)
{
    size_t n;
    while ((n = read_frame(data, size, sealed)) > 0) {
        data += n;
        size -= n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_frames(data, size, false);
    read_frames(data, size, true);
    return 0;
}
