// Settings: options of a run that its saves keep as they were typed. Each is a line of a
// list: MODEL_SETTINGS and LAYER_SETTINGS (model/model.h), TRAINING_SETTINGS and
// PLAN_SETTINGS (train/config.h), in the order of a save. The line makes the members
// in the structs of the options and of the run, the copy between them, the value in a save
// and in a resumed run, and the comparison of two runs.
//
//   SETTING(kind, member, name, arg, was)
//   OWN(kind, member, name, arg, was)     the same; processes may have different values
//   BY_HAND(part)                         put_`part` writes values here that are not saved
//                                         as they are typed
//
// `name` is the option's name, also in a save. `was` is the value of runs whose saves lack
// the setting, or ALWAYS. The kinds and their `arg`:
//
//   flag       yes or no
//   u32 u64    whole numbers; the greatest that a save may have
//   f32        a real number
//   hex        a number of 64 bits, a text in a save because JSON's numbers are signed
//   word       whether it is the second of two words; both words
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_SETTING_H
#define TUG_MODEL_SETTING_H

#define ALWAYS (-1)

// Declares the member of a run's structure for a setting.
#define SETTING_MEMBER(kind, member, name, arg, was) SETTING_##kind member;
#define SETTING_flag bool
#define SETTING_u32 uint32_t
#define SETTING_u64 uint64_t
#define SETTING_f32 float
#define SETTING_hex uint64_t
#define SETTING_word bool

// Declares the member for the value of the setting's option (options/options.h).
#define SETTING_OPTION(kind, member, name, arg, was) SETTING_OPTION_##kind member;
#define SETTING_OPTION_flag bool
#define SETTING_OPTION_u32 uint64_t
#define SETTING_OPTION_u64 uint64_t
#define SETTING_OPTION_f32 double
#define SETTING_OPTION_hex uint64_t
#define SETTING_OPTION_word int

#define SETTING_NOTHING(...)

#endif
