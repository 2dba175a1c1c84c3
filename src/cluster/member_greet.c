// Greetings between members: HELLO and WELCOME, and the proofs in them.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "cluster/member_internal.h"
#include "cluster/proof.h"

const struct session_who *member_who(const struct member *m)
{
    return &m->who;
}

static int refuse_link(struct member *m, van_link link, const struct err *why)
{
    struct msg_error msg = wire_error(why);
    (void)van_send(m->side.van, link, MSG_ERROR, 0, &msg, NULL);
    van_close_link(m->side.van, link);
    return why->code;
}

// Returns whether a peer claims the session of another member in the roster. The peer
// itself may be absent from the roster, if it joined after the roster was made.
static bool takes_anothers_session(const struct roster *r, const struct msg_hello *hello)
{
    bool taken = false;
    for (uint32_t i = 0; i < r->n_nodes && hello->session != 0; i++)
        taken |= r->nodes[i].session == hello->session;
    return taken;
}

// Checks the peer's proof that the session is its own; servers have the key for this
// check. *ret_secret is the peer's secret.
static int check_proof(const struct member *m, const struct msg_hello *hello,
                       const struct van_trust *trust, uint8_t ret_secret[MAC_BYTES],
                       struct err *e)
{
    const struct proof_of whose = {hello->session, hello->node, hello->role};
    if (hello->session == 0 && hello->node == 0)
        return 0;
    if (m->o.role != WIRE_SERVER)
        return 0;
    if (!m->has_key) // the key comes with JOINED
        return err_set(e, TUG_EIO, "this server has not joined yet");
    if (proof_check(ret_secret, m->key, &whose, trust, hello->proof))
        return 0;
    return err_set(e, TUG_EUSAGE, "node %u does not prove that session %llu is its own",
                   hello->node, (unsigned long long)hello->session);
}

static int check_hello(const struct member *m, const struct van_message *msg,
                       const struct van_trust *trust, struct err *e)
{
    if (msg->type != MSG_HELLO)
        return err_set(e, TUG_EDATA, "the first message on a link must be hello");
    const struct msg_hello *hello = &msg->m->hello;
    if (hello->cluster != m->o.cluster)
        return err_set(
            e, TUG_EUSAGE, "this node belongs to cluster %016llx, not to %016llx",
            (unsigned long long)m->o.cluster, (unsigned long long)hello->cluster);
    TRY(wire_agree((struct wire_versions){hello->oldest, hello->newest}, hello->version,
                   e));
    const struct roster_node *n = roster_find(&m->roster, hello->node);
    if (n != NULL && (!n->alive || n->session != hello->session)) {
        char name[ROSTER_NAME_MAX];
        return err_set(e, TUG_EIO, "the session of %s is over", roster_name(n, name));
    }
    if (n == NULL && roster_session_over(&m->roster, hello->session))
        return err_set(e, TUG_EIO, "the session of node %u is over", hello->node);
    if (n == NULL && takes_anothers_session(&m->roster, hello))
        return err_set(e, TUG_EUSAGE, "node %u uses the session of another node",
                       hello->node);
    if (!proof_role_fits(hello->role, trust->role))
        return err_set(e, TUG_EUSAGE, "its certificate or token is for another role");
    return 0;
}

// Takes the generation of the scheduler that the peer knows. Only servers can check that
// the peer is a member, and only servers and operators are believed, because this node
// leaves its scheduler when it learns of a newer generation.
static void take_generation(struct member *m, const struct msg_hello *hello,
                            const struct van_trust *trust)
{
    if (m->o.role == WIRE_SERVER && hello->session != 0 &&
        wire_right(trust->role) >= WIRE_FROM_SERVE)
        member_heard_of(m, hello->generation, van_now(m->side.van));
}

int member_greeted(struct member *m, van_link link, const struct van_message *msg,
                   uint32_t *ret_node, uint64_t *ret_session, struct err *e)
{
    assert(link != 0);
    struct err why = {0};
    const struct van_trust trust = van_trust(m->side.van, link);
    uint8_t secret[MAC_BYTES], proof[MAC_BYTES];
    int rc = check_hello(m, msg, &trust, &why);
    if (rc == 0)
        rc = check_proof(m, &msg->m->hello, &trust, secret, &why);
    if (rc != 0) {
        if (e != NULL)
            *e = why;
        return refuse_link(m, link, &why);
    }
    take_generation(m, &msg->m->hello, &trust);
    struct msg_welcome welcome = {
        .role = (uint8_t)m->o.role,
        .node = m->who.id,
        .generation = m->who.generation,
        .version = wire_text(tug_version()),
        .oldest = wire_own_versions().oldest,
        .newest = wire_own_versions().newest,
    };
    bool proves = m->o.role == WIRE_SERVER && msg->m->hello.session != 0;
    if (proves && proof_welcome(proof, secret, &trust))
        welcome.proof = (struct wire_text){(const char *)proof, MAC_BYTES};
    (void)van_send(m->side.van, link, MSG_WELCOME, 0, &welcome, NULL);
    *ret_node = msg->m->hello.node;
    *ret_session = msg->m->hello.session;
    return 0;
}
