// A simulated network with virtual time: every run of a seed is the same run.
//
// A world has the vans of all simulated nodes. sim_step passes the next event, in the
// order of virtual time, to the handler of its van: a message, a link that opened or
// closed, or a tick. It uses no thread, no clock and no I/O. van_poll returns TUG_EUSAGE
// for these vans.
//
// Faults come from the seed at the rates of sim_options, or are made by the test. A
// message that is "lost" does not arrive although its link stays open (as if a node had
// dropped it), which does not happen with TCP; neither do duplicates and messages out of
// order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SIM_H
#define TUG_KIT_SIM_H

#include "van/van.h"

struct sim_options {
    uint64_t seed;
    uint64_t delay_min, delay_max;   // delay of a message in ns
    double loss, duplicate, reorder; // probabilities, for each message
    double breaks; // probability, for each message, that its link breaks instead
    // Probability, for each message, that its link falls silent: see sim_silence and
    // sim_mute.
    double silences;
    // The longest time between a message and the tick of its van, as in a busy process, which
    // gets several messages before it ticks. If it is 0, a van ticks after each message.
    uint64_t round_max;
};

struct sim;

int sim_open(struct sim **ret, const struct sim_options *o, struct err *e);
void sim_close(struct sim *s); // the caller must have freed its vans

// Opens a van. The van ticks at the start, after each call of its handler (or round), at the time
// that its handler has returned, and after van_wake.
int sim_van_open(struct van **ret, struct sim *s, const char *name,
                 const struct van_handler *h, struct err *e);

// Passes the next event to its van. Returns false if no event will ever happen, or none
// before `until`; virtual time is then `until`.
bool sim_step(struct sim *s, uint64_t until);
uint64_t sim_now(const struct sim *s);

// Sets the rates of faults from now on (all 0: a quiet network). No further link falls
// silent.
void sim_set_faults(struct sim *s, double loss, double duplicate, double reorder,
                    double breaks);

// Crashes a node: its van gets no more events, and the other ends of its links close
// after a delay. Its handler is not called again; the caller frees the van as usual.
void sim_crash(struct sim *s, struct van *v);

// Stops the process until this time, as SIGSTOP does: messages wait in its sockets, and
// its clock runs on. Then it ticks, and `lag` later it gets the messages that have
// waited, in order. The world must not use the van meanwhile.
void sim_stop(struct sim *s, struct van *v, uint64_t until, uint64_t lag);
// Stops the process after it has read its clock, and before it reads messages: when it
// continues, it gets the messages that have waited with the time of now, although van_now
// returns the new time. Then it ticks.
void sim_stop_reading(struct sim *s, struct van *v, uint64_t until);
bool sim_is_stopped(const struct van *v);

// Sets the kind that the van's links have for other nodes from now on (initially
// VAN_OWNER). Tests make strangers with it.
void sim_van_is(struct van *v, enum van_kind kind);

// Sets the role with which other nodes accept the van (initially WIRE_OPERATOR).
void sim_van_role(struct van *v, enum wire_role role);

// From now on the van's links fall silent at this rate, whichever end sends, in addition
// to the rate of the options.
void sim_van_silences(struct van *v, double rate);

// From now on no message on the van's links is lost alone, in both directions, as over
// TCP.
void sim_van_loses_none(struct van *v);
// Makes all links of the van last: none breaks by itself from now on.
void sim_van_breaks_none(struct van *v);

// From now on the van ticks at most once in this time, as a loop that is busy: it gets several
// messages between two ticks.
void sim_van_rounds(struct van *v, uint64_t ns);

// Separates two vans, or joins them again. While they are separated, no message passes
// between them, but links stay open, and messages wait, including those that were in
// flight.
void sim_partition(struct sim *s, struct van *a, struct van *b, bool apart);
// Lets no message pass from one van to another, and no link open between them, until
// sim_partition joins them again.
void sim_part_one_way(struct sim *s, struct van *from, struct van *to);

// Breaks all links between two vans; both ends are told.
void sim_break(struct sim *s, struct van *a, struct van *b);
// Breaks one link; both ends are told.
void sim_break_link(struct sim *s, struct van *v, van_link link);

// Silences a link for ever: it carries no more messages in either direction, and neither
// end is notified, even if the other end closes it or crashes. Messages in flight still
// arrive. A link that is not open yet never opens. Other links between the two nodes are
// not affected.
void sim_silence(struct sim *s, struct van *v, van_link link);
// Silences only the van's own messages on the link; the messages of the other end still
// arrive.
void sim_mute(struct sim *s, struct van *v, van_link link);

// Sets a function that is called with each event, to print a trace of a failing seed.
void sim_trace(struct sim *s, void (*line)(void *ctx, const char *text), void *ctx);

#endif
