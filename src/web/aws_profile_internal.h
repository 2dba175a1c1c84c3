// The files in which AWS's tools keep credentials: ~/.aws/credentials and ~/.aws/config.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_AWS_PROFILE_INTERNAL_H
#define TUG_WEB_AWS_PROFILE_INTERNAL_H

#include <stdbool.h>

#include "base/err.h"

// The settings of a profile; "" if missing.
struct aws_profile {
    char name[128];
    bool found;
    char key_id[256], secret[256], token[8 << 10], region[128], endpoint[512];
    char other[48]; // the setting by which it gets its keys in a way that is not ours
    char file[512]; // that `other` is in
};

// The profile that AWS_PROFILE names, or else "default", out of the files that
// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name, or else those of HOME. Files that
// are not there say nothing. Keys of the first file come before those of the second.
// TUG_EUSAGE, without a secret in it, for a setting that fits into no request.
int aws_profile_read(struct aws_profile *ret, struct err *e);

#endif
