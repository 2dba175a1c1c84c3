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
    char other[48]; // a setting that gets keys in a way that tug does not support; ""
    char file[512]; // the file that has the setting `other`
};

// Reads the profile that AWS_PROFILE names, or else "default". The files are those that
// AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name, or else those below HOME; missing
// files are skipped. Keys in the credentials file override keys in the config file.
// TUG_EUSAGE if a setting cannot be part of a request; the sentence has no secret.
int aws_profile_read(struct aws_profile *ret, struct err *e);

#endif
