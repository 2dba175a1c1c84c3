// tug: the public C interface.
//
// So far: the version and the meaning of status codes. Tables, push and pull follow in
// later releases; until then the command `tug` is the way to train, evaluate and predict.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TUG_H
#define TUG_TUG_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUG_API __attribute__((visibility("default")))
#else
#define TUG_API
#endif

// What functions return: TUG_OK or a negative code. The values never change.
enum tug_status {
    TUG_OK = 0,           // done
    TUG_EUSAGE = -1,      // a wrong argument, or a call at the wrong time
    TUG_EDATA = -2,       // input data or a file is missing or damaged
    TUG_EIO = -3,         // the system refused: file, network or permission
    TUG_ENOMEM = -4,      // out of memory; what was there before is as it was
    TUG_EINTERNAL = -5,   // a bug in tug: please report it
    TUG_EINTERRUPTED = -6 // a signal asked to stop
};

// "MAJOR.MINOR.PATCH" of the library in use.
TUG_API const char *tug_version(void);

// A few words for a status code; for an unknown one "unknown status". Never NULL, never
// to be freed.
TUG_API const char *tug_status_text(int status);

// What the last failed call of this thread failed with: one sentence that says what,
// where and why. Valid until the thread's next call.
TUG_API const char *tug_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
