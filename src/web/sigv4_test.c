// Signatures: the test vectors that AWS publishes in its test suite and in the
// documentation of S3.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/sigv4_internal.h"

#include "kit/test.h"

#define SUITE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

static const struct sigv4_header suite_headers[] = {{"host", "example.amazonaws.com"},
                                                    {"x-amz-date", "20150830T123600Z"}};

static const struct sigv4_header range_headers[] = {
    {"host", "examplebucket.s3.amazonaws.com"},
    {"range", "bytes=0-9"},
    {"x-amz-content-sha256", SIGV4_EMPTY},
    {"x-amz-date", "20130524T000000Z"}};

static const struct sigv4_header s3_headers[] = {
    {"host", "examplebucket.s3.amazonaws.com"},
    {"x-amz-content-sha256", SIGV4_EMPTY},
    {"x-amz-date", "20130524T000000Z"}};

#define SUITE(path_, query_)                                                             \
    {                                                                                    \
        .key_id = "AKIDEXAMPLE", .secret = SUITE_SECRET, .region = "us-east-1",          \
        .service = "service", .date = "20150830T123600Z", .path = path_,                 \
        .query = query_, .header = suite_headers, .headers = 2                           \
    }

#define S3(path_, query_, headers_)                                                      \
    {                                                                                    \
        .key_id = "AKIAIOSFODNN7EXAMPLE", .secret = S3_SECRET, .region = "us-east-1",    \
        .service = "s3", .date = "20130524T000000Z", .path = path_, .query = query_,     \
        .header = headers_, .headers = sizeof headers_ / sizeof headers_[0]              \
    }

static const struct {
    struct sigv4 s;
    const char *names, *signature;
} vectors[] = {
    // cases of AWS's test suite: get-vanilla, get-vanilla-query-order-key-case,
    // get-unreserved
    {SUITE("/", ""), "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {SUITE("/", "Param1=value1&Param2=value2"), "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {SUITE("/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", ""),
     "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    // examples of S3's page "Signature Calculations for the Authorization Header": an
    // object's first bytes, the life cycle of a bucket, and a list
    {S3("/test.txt", "", range_headers), "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {S3("/", "lifecycle=", s3_headers), "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {S3("/", "max-keys=2&prefix=J", s3_headers), "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static void published_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        struct buf got = BUF_INIT(4096), want = BUF_INIT(4096);
        const struct sigv4 *s = &vectors[i].s;
        assert_int_equal(sigv4_sign(s, &got, NULL), 0);
        assert_int_equal(buf_printf(&want,
                                    "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/"
                                    "aws4_request, SignedHeaders=%s, Signature=%s",
                                    s->key_id, s->date, s->service, vectors[i].names,
                                    vectors[i].signature),
                         0);
        assert_string_equal(buf_str(&got), buf_str(&want));
        buf_free(&got);
        buf_free(&want);
    }
}

static void without_memory(void **state)
{
    (void)state;
    for (long n = 0; n < 20; n++) {
        struct buf got = BUF_INIT(4096);
        mem_fault_after(n);
        int rc = sigv4_sign(&vectors[0].s, &got, NULL);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(struck ? rc == TUG_ENOMEM : rc == 0);
        buf_free(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_vectors),
                                       cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
