// Any bytes arrive from the other end of a link during the handshake, at the end that
// listens and at the end that connects. No peer without the token is admitted or trusted,
// whatever it sends.
//
// The first byte chooses the end that is tested, and whether the node requires a token;
// the rest are the heads of the messages that arrive, each behind its length (2 bytes).
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "van/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LISTENS = 1, INSECURE = 2, BELIEVED = 4 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int token(void *ctx, enum wire_role *role, uint8_t ret[MAC_BYTES], struct err *e)
{
    (void)ctx, (void)e;
    require(wire_right(*role) > WIRE_FROM_KNOCK);
    memset(ret, 0xa5, MAC_BYTES);
    ret[1] = (uint8_t)*role;
    return 0;
}

static bool numbers(void *ctx, uint8_t ret[MAC_BYTES])
{
    uint8_t *next = ctx;
    memset(ret, (*next)++, MAC_BYTES);
    return true;
}

// Decodes the next message as this type, as if its frame were valid. Returns false if
// none is left.
static bool next(const uint8_t **data, size_t *size, uint16_t type, union wire_any *ret)
{
    static struct wire_out o;
    struct wire_frame f;
    struct err e;
    uint16_t n;
    if (*size < sizeof(n))
        return false;
    memcpy(&n, *data, sizeof(n));
    *data += sizeof(n);
    *size -= sizeof(n);
    n = n < *size ? n : (uint16_t)*size;
    static const union wire_any zeros;
    o = o.head.data != NULL ? o : WIRE_OUT_INIT;
    // Encodes a message of zeros, whose header is valid; the head is replaced below.
    require(wire_encode(&o, type, 0, &zeros, false) == 0);
    unsigned char header[WIRE_FRAME_BYTES];
    uint32_t head = n;
    memcpy(header, o.head.data, sizeof(header));
    memcpy(header + 8, &head, sizeof(head));
    uint64_t sum = hash_bytes(*data, n, hash_bytes(header, 40, 0));
    memcpy(header + 40, &sum, sizeof(sum));
    bool good = wire_frame_read(header, &f, &e) == 0 &&
                wire_decode(header, &f, *data, ret, &e) == 0;
    *data += n;
    *size -= n;
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t number = 17;
    struct prover p = {
        .role = WIRE_WORKER, .token = token, .random = numbers, .ctx = &number};
    struct handshake_link l = {.role = WIRE_TOOL, .address = "tcp://127.0.0.1:9100"};
    struct handshake h;
    struct van_trust trust;
    union wire_any m;
    struct err e;
    if (size < 1)
        return 0;
    uint8_t what = *data++;
    size--;
    p.insecure = what & INSECURE;
    l.believed = what & BELIEVED;
    bool open = p.insecure || l.believed;
    if (what & LISTENS) {
        struct msg_challenge challenge;
        if (!next(&data, &size, MSG_KNOCK, &m) ||
            handshake_knocked(&h, &p, &l, &m.knock, &challenge, &e) != 0)
            return 0;
        require(challenge.nonce.n == MAC_BYTES && (challenge.token || open));
        if (!next(&data, &size, MSG_PROOF, &m) || handshake_proven(&h, &m.proof, &e) != 0)
            return 0;
        require(!challenge.token && open); // no input can contain a valid proof
        handshake_end(&h, true, &trust);
        require(!l.believed || trust.role == WIRE_TOOL);
        require(wire_right(trust.role) > WIRE_FROM_KNOCK);
    } else {
        struct msg_knock knock;
        struct msg_proof proof;
        require(handshake_knock(&h, &p, &l, &knock, &e) == 0);
        require(knock.token == !l.believed);
        if (!next(&data, &size, MSG_CHALLENGE, &m) ||
            handshake_challenged(&h, &m.challenge, &proof, &e) != 0)
            return 0;
        // This end sends no proof to a peer that has not proven itself.
        require(open && proof.proof.n == 0);
    }
    return 0;
}
