#ifndef PFPL_H
#define PFPL_H

/* Generated from capi/src by `UPDATE=1 cargo test -p pfpl-capi --test header`: do not edit. */

#include <stdint.h>

// What every call gives back. 0 to 8 are the stream format's own statuses, which device-side outcomes hold too.
typedef enum pfpl_status {
  PFPL_OK = 0,
  // The stream does not fit; the bytes that it needs are reported.
  PFPL_OVERFLOW = 1,
  // Too short for a header, or none of the four magics.
  PFPL_NOT_A_STREAM = 2,
  // The stream holds the other element type.
  PFPL_WRONG_TYPE = 3,
  // The stream holds another number of values, or the range is not within the field.
  PFPL_WRONG_COUNT = 4,
  // The header contradicts itself.
  PFPL_BAD_HEADER = 5,
  // The stream is longer than the bytes given.
  PFPL_TRUNCATED = 6,
  // An impossible entry of the size table.
  PFPL_BAD_TABLE = 7,
  // A chunk does not add up to its length.
  PFPL_CORRUPT_CHUNK = 8,
  // A null, misaligned or overlapping pointer, a size past the address space, or an unknown type.
  PFPL_INVALID_ARGUMENT = 100,
  // The bound is not usable: zero, negative, NaN, infinite, or outside the normal float32 numbers up to half the largest.
  PFPL_INVALID_BOUND = 101,
  // No memory, or no threads, for what was asked.
  PFPL_OUT_OF_RESOURCES = 102,
  // The backend's driver or device is not there.
  PFPL_NO_DEVICE = 103,
  // The device's driver refused a call.
  PFPL_DEVICE_ERROR = 104,
  // The plan has no room for that many values or fields.
  PFPL_PLAN_TOO_SMALL = 105,
  // A defect of this library: please report it.
  PFPL_INTERNAL_ERROR = 106,
} pfpl_status;

// Element type of a field.
typedef enum pfpl_type {
  PFPL_F32 = 4,
  PFPL_F64 = 8,
} pfpl_type;

// Which devices a plan is for.
typedef enum pfpl_backend {
  // `stream` arguments are `CUstream`s, 0 the default stream.
  PFPL_CUDA = 1,
  // `stream` arguments are `hipStream_t`s, 0 the default stream.
  PFPL_HIP = 2,
} pfpl_backend;

// The kernels of a context or device and the memory they need between and during calls: opaque. Calls of one plan run one after the
// other: use a plan for each stream. A plan may be used by any thread, by one at a time.
typedef struct pfpl_plan pfpl_plan;

// Threads for the host calls: an opaque pool, to be made once and used by any thread.
typedef struct pfpl_pool pfpl_pool;

// What a plan has room for, or a call needs: add those of the fields of a list.
typedef struct pfpl_capacity {
  // Fields of a call.
  uint64_t fields;
  // Chunks of those fields together.
  uint64_t chunks;
} pfpl_capacity;

// What a call leaves in device memory, in stream order, on success too.
typedef struct pfpl_outcome {
  // Bytes of the stream: needed (compressing) or consumed (decompressing).
  uint64_t stream_bytes;
  // A `pfpl_status` from 0 to 8.
  uint32_t status;
  // Lowest chunk to blame, or `UINT32_MAX`.
  uint32_t chunk;
} pfpl_outcome;

// A field to compress on a device. All addresses are device memory.
typedef struct pfpl_encode {
  // Values, aligned to their type.
  const void *field;
  // How many.
  uint64_t n;
  // Bound to keep.
  double bound;
  // Stream to write, 4-byte aligned.
  void *stream;
  // Bytes there; 0 asks for the stream's length.
  uint64_t capacity;
  // Where to leave the outcome (8-byte aligned), or NULL.
  struct pfpl_outcome *outcome;
  // `PFPL_F32` or `PFPL_F64`.
  uint32_t element;
  // 0.
  uint32_t reserved;
} pfpl_encode;

// A field to decompress on a device, or a range of its values. All addresses are device memory.
typedef struct pfpl_decode {
  // Stream, 4-byte aligned.
  const void *stream;
  // Bytes there; what follows the stream is not looked at.
  uint64_t bytes;
  // Values of the whole field.
  uint64_t n;
  // Where to write the values wanted, aligned to their type.
  void *field;
  // First of the values wanted.
  uint64_t first;
  // How many: all of the field is `first` 0 and `count` n.
  uint64_t count;
  // Where to leave the outcome (8-byte aligned), or NULL.
  struct pfpl_outcome *outcome;
  // `PFPL_F32` or `PFPL_F64`.
  uint32_t element;
  // 0.
  uint32_t reserved;
} pfpl_decode;

// What a stream's header says.
typedef struct pfpl_header {
  // Values of the field.
  uint64_t n;
  // Bytes of the whole stream.
  uint64_t stream_bytes;
  // Chunks.
  uint64_t chunks;
  // Bound recorded.
  float bound;
  // `PFPL_F32` or `PFPL_F64`.
  uint32_t element;
  // 1 for the wide header, else 0.
  uint32_t wide;
  // 0.
  uint32_t reserved;
} pfpl_header;

// Where a decoder found a stream damaged, for `PFPL_BAD_TABLE` and `PFPL_CORRUPT_CHUNK`; `UINT64_MAX` in both for any other status.
typedef struct pfpl_damage {
  // Lowest chunk with the status.
  uint64_t chunk;
  // Where that chunk or its table entry is, in bytes from the stream's start.
  uint64_t offset;
} pfpl_damage;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What a field of `n` values needs of a plan. Any thread.
struct pfpl_capacity pfpl_capacity_of(uint32_t element, uint64_t n);

// Makes a plan with room for `capacity`, its memory allocated and cleared in the order of `stream`. The first plan of a context loads
// the kernels. `context` is, for CUDA, a `CUcontext` or NULL for the one current on this thread, which stays current; for HIP it is NULL
// and the device number `device` counts, which CUDA does not look at. Where the call fails and `message` is not NULL, up to
// `message_bytes` bytes of text, ended by a zero, say why. To be freed with `pfpl_plan_free`. Any thread.
//
// # Safety
// `context` and `stream` are alive as long as the plan; `plan` is writable; `message` is NULL or writable for `message_bytes` bytes.
enum pfpl_status pfpl_plan_new(uint32_t backend,
                               void *context,
                               int32_t device,
                               void *stream,
                               struct pfpl_capacity capacity,
                               struct pfpl_plan **plan,
                               char *message,
                               uint64_t message_bytes);

// Grows a plan where it is too small, in the order of the stream that it was used on last. With `pfpl_plan_new` the only call that
// allocates or may wait for the device. After a failure the plan is as it was.
//
// # Safety
// `plan` is NULL (which is refused) or live, and no other thread is using it.
enum pfpl_status pfpl_plan_reserve(struct pfpl_plan *plan,
                                   struct pfpl_capacity capacity);

// Frees a plan, whose last calls may still be under way; NULL is nothing to free. Captured graphs of its calls must not be launched
// afterwards.
//
// # Safety
// `plan` comes from `pfpl_plan_new`, has not been freed, and no other thread is using it; its context and last stream are alive.
void pfpl_plan_free(struct pfpl_plan *plan);

// Compresses `count` fields, of both types in any order, in the order of `stream`, with as few kernels as take them and nothing else: no
// copy, no allocation, no wait. What comes of each is for its outcome to say; the status here is of the call alone, and unless it is
// `PFPL_DEVICE_ERROR` nothing was started where it is not 0.
//
// # Safety
// `plan` is live and used by no other thread; `stream` is of its context; `fields` is readable for `count` of them, whose addresses are
// device memory of the sizes said, in no other use until the stream has come past this call.
enum pfpl_status pfpl_plan_compress(struct pfpl_plan *plan,
                                    void *stream,
                                    const struct pfpl_encode *fields,
                                    uint64_t count);

// Decompresses `count` fields or ranges, of both types in any order. As `pfpl_plan_compress` otherwise.
//
// # Safety
// As `pfpl_plan_compress`.
enum pfpl_status pfpl_plan_decompress(struct pfpl_plan *plan,
                                      void *stream,
                                      const struct pfpl_decode *fields,
                                      uint64_t count);

// Version of the library: 10000 major + 100 minor + patch. Any thread.
uint32_t pfpl_version(void);

// Version of the library as text. Never to be freed. Any thread.
const char *pfpl_version_string(void);

// Version of the stream format that this library writes and reads: 1. Any thread.
uint32_t pfpl_format_version(void);

// The largest power of two at or below `bound`, with which every bin is exact; NaN where `bound` is not usable. Any thread.
double pfpl_power_of_two_bound(double bound);

// Largest stream of a field of `n` values, in bytes; UINT64_MAX where that is past 64 bits, 0 for an unknown type. Any thread.
uint64_t pfpl_max_stream_bytes(uint32_t element,
                               uint64_t n);

// Reads the header at the start of `stream`, of which `bytes` bytes are there (32 are enough). Any thread.
//
// # Safety
// `stream` is readable for `bytes` bytes and `header` writable, or NULL (which is refused).
enum pfpl_status pfpl_read_header(const void *stream, uint64_t bytes, struct pfpl_header *header);

// Bytes of the stream that begins at `stream`, of which `bytes` bytes are there (32 are enough). Any thread.
//
// # Safety
// `stream` is readable for `bytes` bytes and `stream_bytes` writable, or NULL (which is refused).
enum pfpl_status pfpl_stream_bytes(const void *stream, uint64_t bytes, uint64_t *stream_bytes);

// Makes a pool of `threads` threads, 0 for as many as there are cores. To be freed with `pfpl_pool_free`. Any thread.
//
// # Safety
// `pool` is writable, or NULL (which is refused).
enum pfpl_status pfpl_pool_new(uint32_t threads, struct pfpl_pool **pool);

// Frees a pool that no call is using, once its threads have ended; NULL is nothing to free.
//
// # Safety
// `pool` comes from `pfpl_pool_new` and has not been freed.
void pfpl_pool_free(struct pfpl_pool *pool);

// Compresses `n` values at `field` into `capacity` bytes at `stream` and reports the stream's length in `stream_bytes`. Where the
// stream does not fit, the status is `PFPL_OVERFLOW` and `stream_bytes` says what it needs: capacity 0 (with any `stream`) asks.
// Runs on the calling thread, or on `pool` where it is not NULL. Any thread, also several at once with one pool.
//
// # Safety
// `field` is readable for `n` values of its type, `stream` writable for `capacity` bytes, `stream_bytes` writable, `pool` NULL or live.
enum pfpl_status pfpl_compress_into(uint32_t element,
                                    const void *field,
                                    uint64_t n,
                                    double bound,
                                    void *stream,
                                    uint64_t capacity,
                                    uint64_t *stream_bytes,
                                    const struct pfpl_pool *pool);

// Compresses `n` values at `field` into new memory, given in `stream` and to be freed with `pfpl_free(*stream, *stream_bytes)`. As
// `pfpl_compress_into` otherwise.
//
// # Safety
// `field` is readable for `n` values of its type, `stream` and `stream_bytes` writable, `pool` NULL or live.
enum pfpl_status pfpl_compress(uint32_t element,
                               const void *field,
                               uint64_t n,
                               double bound,
                               void **stream,
                               uint64_t *stream_bytes,
                               const struct pfpl_pool *pool);

// Frees a stream that `pfpl_compress` made, given its length; NULL is nothing to free.
//
// # Safety
// Both come from one call of `pfpl_compress` and have not been freed.
void pfpl_free(void *stream, uint64_t stream_bytes);

// Decompresses the stream at `stream`, which has at most `bytes` bytes, into `n` values at `field`. `stream_bytes` (NULL, or where to
// report the stream's length) and `damage` (NULL, or where to report what is damaged) are optional. After a refusal the values are
// unspecified. Runs on the calling thread, or on `pool` where it is not NULL. Any thread, also several at once with one pool.
//
// # Safety
// `stream` is readable for `bytes` bytes, `field` writable for `n` values of its type, the others NULL or valid.
enum pfpl_status pfpl_decompress(uint32_t element,
                                 const void *stream,
                                 uint64_t bytes,
                                 void *field,
                                 uint64_t n,
                                 uint64_t *stream_bytes,
                                 struct pfpl_damage *damage,
                                 const struct pfpl_pool *pool);

// Decompresses `count` values from value `first` on into `field`, touching only the chunks that hold them. As `pfpl_decompress`
// otherwise.
//
// # Safety
// `stream` is readable for `bytes` bytes, `field` writable for `count` values of its type, the others NULL or valid.
enum pfpl_status pfpl_decompress_range(uint32_t element,
                                       const void *stream,
                                       uint64_t bytes,
                                       uint64_t first,
                                       void *field,
                                       uint64_t count,
                                       struct pfpl_damage *damage,
                                       const struct pfpl_pool *pool);

// A few words for a status; for a number that is none, they say so. Never NULL, never to be freed. Any thread.
const char *pfpl_status_string(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PFPL_H */
