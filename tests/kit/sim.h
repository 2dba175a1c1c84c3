// A simulated network with virtual time: every run of a seed is the same run.
//
// A world holds the vans of all simulated nodes. sim_step hands over the next event, in
// the order of virtual time, to the handler of its van: a message, a link that opened or
// closed, a tick that is due. No thread, no clock, no I/O. van_poll is not available on
// these vans; TUG_EUSAGE.
//
// Faults come from the seed at the rates of sim_options, or are made by hand. A message
// that is "lost" is lost alone: the link lives on (as if a node had dropped it), which is
// harsher than TCP; so are duplicates and messages out of order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SIM_H
#define TUG_KIT_SIM_H

#include "van/van.h"

struct sim_options {
    uint64_t seed;
    uint64_t delay_min, delay_max;   // of a message, ns
    double loss, duplicate, reorder; // probabilities, of a message
    double breaks;   // probability, of a message, that its link breaks instead
    double silences; // likewise, that its link falls silent: see sim_silence and sim_mute
};

struct sim;

int sim_open(struct sim **ret, const struct sim_options *o, struct err *e);
void sim_close(struct sim *s); // its vans are freed before it

// Ticks once at the start, after each call of its handler, when it asked to, and after
// van_wake.
int sim_van_open(struct van **ret, struct sim *s, const char *name,
                 const struct van_handler *h, struct err *e);

// The next event. False when nothing will ever happen again, or not before `until`
// (virtual time is then `until`).
bool sim_step(struct sim *s, uint64_t until);
uint64_t sim_now(const struct sim *s);

// Sets the rates of faults from now on (all 0: a quiet network). No further link falls
// silent.
void sim_set_faults(struct sim *s, double loss, double duplicate, double reorder,
                    double breaks);

// The node is gone without a word: its van hears nothing more and its links are closed at
// the other ends after a delay. Its handler is not called again; free the van as usual.
void sim_crash(struct sim *s, struct van *v);

// Stops the process until then, as by SIGSTOP: messages wait in its sockets, and its
// clock runs on. Then it ticks; it hears what has waited `lag` later, in its order. Its
// world must not use the van meanwhile.
void sim_stop(struct sim *s, struct van *v, uint64_t until, uint64_t lag);
bool sim_is_stopped(const struct van *v);

// From now on the van's links are of this kind to others (first: VAN_OWNER):
// how strangers are made.
void sim_van_is(struct van *v, enum van_kind kind);

// Sets the role with which others let the van in (initially WIRE_OPERATOR).
void sim_van_role(struct van *v, enum wire_role role);

// From now on the van's links fall silent at this rate, be it the van that sends or the
// other end; beside the rate of the options.
void sim_van_silences(struct van *v, double rate);

// From now on no message on the van's links is lost alone, as over TCP: at both ends.
void sim_van_loses_none(struct van *v);

// Nothing passes between the two until it is healed; links are not closed. Messages on
// their way wait, and so do those sent meanwhile.
void sim_partition(struct sim *s, struct van *a, struct van *b, bool apart);

// The link carries nothing any more, in either direction, and neither end is told: not
// even when the other closes it or crashes. Other links between the two live on. Messages
// on their way still arrive. For good. One that is not open yet never opens.
void sim_silence(struct sim *s, struct van *v, van_link link);
// Likewise, but only the van's own messages are lost; those of the other end arrive.
void sim_mute(struct sim *s, struct van *v, van_link link);

// Called with each event when set, to print a trace of a failing seed.
void sim_trace(struct sim *s, void (*line)(void *ctx, const char *text), void *ctx);

#endif
