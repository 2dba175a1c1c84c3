// Any bytes arrive as the stream of a link. Wherever the stream is cut, and whether it is
// read through the input buffer or straight into bodies, the same messages come out. Each
// refusal has an error message, and no byte is lost or read twice.
//
// The first byte chooses where the stream is cut and where bodies are placed; the rest is
// the stream. Checksums are corrected first, because otherwise no frame would pass their
// check.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "van/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AT_CHECKSUM = 40, AT_HEAD_BYTES = 8, AT_BODY_BYTES = 16, BODY_MAX = 1 << 20 };

struct reading {
    struct frame_reader reader;
    struct frame_pool pool;
    uint64_t hash, messages;
    bool place;
    void *body, *kept;
};

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void *place(void *ctx, uint16_t type, uint64_t request, const union wire_any *head,
                   uint64_t body_bytes)
{
    struct reading *r = ctx;
    (void)request, (void)head;
    require(wire_name(type) != NULL && body_bytes > 0 && body_bytes <= WIRE_BODY_MAX);
    if (!r->place || body_bytes > BODY_MAX)
        return NULL;
    mem_free(r->body);
    r->body = mem_alloc(body_bytes);
    require(r->body != NULL);
    return r->body;
}

static bool message(void *ctx, struct van_message *m)
{
    struct reading *r = ctx;
    require(m->m != NULL && (m->body == NULL) == (m->body_bytes == 0));
    require(m->placed == (m->body != NULL && m->body == r->body));
    r->hash = hash_bytes(m->body, m->body_bytes, r->hash ^ m->request ^ m->type);
    r->messages++;
    if (r->messages % 3 == 0) {
        frame_pool_give(&r->pool, r->kept);
        r->kept = frame_keep(&r->reader);
    }
    return r->messages % 64 != 0;
}

// Reads the whole stream in steps of `step` bytes. Returns the reader's last result.
static int read_all(struct reading *r, const uint8_t *data, size_t n, size_t step)
{
    struct err e = {0};
    int rc = 0;
    while (n > 0 && rc == 0) {
        size_t left, some = n < step ? n : step;
        void *direct = frame_direct(&r->reader, &left);
        if (direct != NULL && left >= step) {
            memcpy(direct, data, some);
            rc = frame_came(&r->reader, some, &e);
        } else {
            char *copy = mem_alloc(some); // so that sanitizers notice reading beyond it
            require(copy != NULL);
            memcpy(copy, data, some);
            rc = frame_read(&r->reader, copy, some, &e);
            mem_free(copy);
        }
        data += some;
        n -= some;
    }
    require(rc == 0 || rc == FRAME_STOPPED ||
            ((rc == TUG_EDATA || rc == TUG_ENOMEM) && e.text[0] != '\0'));
    return rc;
}

static int try_stream(const uint8_t *data, size_t n, size_t step, bool placed,
                      struct reading *r)
{
    *r = (struct reading){.place = placed};
    struct frame_calls calls = {.ctx = r, .place = place, .message = message};
    frame_open(&r->reader, &r->pool, &calls, UINT64_MAX, false);
    int rc = read_all(r, data, n, step);
    frame_close(&r->reader);
    frame_pool_give(&r->pool, r->kept);
    frame_pool_close(&r->pool);
    mem_free(r->body);
    return rc;
}

// Corrects the checksum of each frame of the stream, up to the first frame that is longer
// than the rest of the stream.
static void mend(uint8_t *data, size_t n)
{
    while (n >= WIRE_FRAME_BYTES) {
        uint32_t head;
        uint64_t body;
        memcpy(&head, data + AT_HEAD_BYTES, sizeof(head));
        memcpy(&body, data + AT_BODY_BYTES, sizeof(body));
        if (head > n - WIRE_FRAME_BYTES)
            return;
        uint64_t sum = hash_bytes(data + WIRE_FRAME_BYTES, head,
                                  hash_bytes(data, AT_CHECKSUM, 0));
        memcpy(data + AT_CHECKSUM, &sum, sizeof(sum));
        size_t all = WIRE_FRAME_BYTES + (size_t)head;
        if (body > n - all)
            return;
        data += all + body;
        n -= all + body;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t n = size - 1, before = mem_live();
    uint8_t *stream = mem_alloc(n);
    require(stream != NULL);
    memcpy(stream, data + 1, n);
    if (data[0] & 1)
        mend(stream, n);
    struct reading whole, cut;
    int first = try_stream(stream, n, n + 1, false, &whole);
    int again = try_stream(stream, n, (size_t)(data[0] >> 2) + 1, data[0] & 2, &cut);
    require(first == again && whole.hash == cut.hash && whole.messages == cut.messages);
    mem_free(stream);
    require(mem_live() == before);
    return 0;
}
