// Entry points of the CUDA kernels, and how they are launched.
//
// Encoders, T = f32 or f64: parameters are a Launch, then that many EncodeFields by value.
//   pfpl_encode_T_small     one field of at most ENCODE_SMALL_CHUNKS chunks; grid = max(chunks, 1), best while all fit the device
//   pfpl_encode_T_1         one field
//   pfpl_encode_T_63        up to 63 fields, or any number at Launch::list
//   pfpl_encode_T_511       up to 511 fields
// Threads a block, blocks an SM and bytes of dynamic shared memory (above 48 KiB: opt in) are the constants below.  Grid of all but
// `small`: min(chunks, SMs * blocks an SM), at least 1; any grid from 1 on is right.
//
// Decoders: parameters are a Launch, then that many DecodeFields by value; the state's words of the fields are all they use of it.
//   pfpl_decode_T_small     one field, or a range of it; grid = max(chunks, 1), best while all fit the device
//   pfpl_decode_T_1         one field, or a range of it
//   pfpl_decode_T_63        up to 63, or any number at Launch::list
//   pfpl_decode_T_511       up to 511
// Grid of all but `small`: min(chunks, SMs * blocks an SM), at least 1; any grid from 1 on is right.
//
// The image for compute capability 9.0 may be launched with programmatic stream serialization.
#include "decode_small.h"
#include "encode.h"

using namespace pfpl;

template <u32 COUNT> struct EncodeList { EncodeField field[COUNT]; };

constexpr u32 ENCODE_SMALL_CHUNKS = 512;
static_assert(ENCODE_SMALL_CHUNKS == SMALL_CHUNKS, "");
static_assert(ENCODE_THREADS == 128 && ENCODE_BLOCKS == 5 && sizeof(Shared<float>) == 45552 && sizeof(Shared<double>) == 45552, "");
static_assert(SMALL_THREADS == 256 && SMALL_BLOCKS == 4 && sizeof(SmallShared<float>) == 52176 && sizeof(SmallShared<double>) == 52176, "");

#define PFPL_ENCODE(NAME, VALUE, COUNT)                                                                                            \
  PFPL_KERNEL(NAME, ENCODE_THREADS, ENCODE_BLOCKS)(PFPL_PARAMETER Launch launch, PFPL_PARAMETER EncodeList<COUNT> list) {          \
    await_predecessors();                                                                                                          \
    encode_chunks<VALUE, (COUNT > 1)>(launch, COUNT > 1 && launch.list ? (const EncodeField*)launch.list : list.field);            \
  }
#define PFPL_ENCODE_SMALL(NAME, VALUE)                                                                                             \
  PFPL_KERNEL(NAME, SMALL_THREADS, SMALL_BLOCKS)(PFPL_PARAMETER Launch launch, PFPL_PARAMETER EncodeList<1> list) {                \
    encode_small<VALUE>(launch, list.field[0]);                                                                                    \
  }

PFPL_ENCODE_SMALL(pfpl_encode_f32_small, float)
PFPL_ENCODE(pfpl_encode_f32_1, float, 1)
PFPL_ENCODE(pfpl_encode_f32_63, float, 63)
PFPL_ENCODE(pfpl_encode_f32_511, float, 511)
PFPL_ENCODE_SMALL(pfpl_encode_f64_small, double)
PFPL_ENCODE(pfpl_encode_f64_1, double, 1)
PFPL_ENCODE(pfpl_encode_f64_63, double, 63)
PFPL_ENCODE(pfpl_encode_f64_511, double, 511)

template <u32 COUNT> struct DecodeList { DecodeField field[COUNT]; };

static_assert(DECODE_THREADS == 128 && DECODE_BLOCKS == 6 && sizeof(DecodeShared<float>) == 37888 && sizeof(DecodeShared<double>) == 37888, "");

static_assert(DECODE_SMALL_THREADS == 256 && DECODE_SMALL_BLOCKS == 4 && sizeof(DecodeSmallShared<float>) == 21632 && sizeof(DecodeSmallShared<double>) == 21632, "");

#define PFPL_DECODE(NAME, VALUE, COUNT, FIELDS)                                                                                    \
  PFPL_KERNEL(NAME, DECODE_THREADS, DECODE_BLOCKS)(PFPL_PARAMETER Launch launch, PFPL_PARAMETER DecodeList<COUNT> list) {          \
    await_predecessors();                                                                                                          \
    decode<VALUE>(launch, FIELDS);                                                                                                 \
  }
#define PFPL_DECODE_SMALL(NAME, VALUE)                                                                                             \
  PFPL_KERNEL(NAME, DECODE_SMALL_THREADS, DECODE_SMALL_BLOCKS)(PFPL_PARAMETER Launch launch, PFPL_PARAMETER DecodeList<1> list) {  \
    decode_small<VALUE>(launch, list.field[0]);                                                                                    \
  }
#define PFPL_DECODE_1(NAME, VALUE) PFPL_DECODE(NAME, VALUE, 1, OneField{list.field[0]})
#define PFPL_DECODE_LIST(NAME, VALUE, COUNT) PFPL_DECODE(NAME, VALUE, COUNT, FieldList{launch.list ? (const DecodeField*)launch.list : list.field})

PFPL_DECODE_SMALL(pfpl_decode_f32_small, float)
PFPL_DECODE_1(pfpl_decode_f32_1, float)
PFPL_DECODE_LIST(pfpl_decode_f32_63, float, 63)
PFPL_DECODE_LIST(pfpl_decode_f32_511, float, 511)
PFPL_DECODE_SMALL(pfpl_decode_f64_small, double)
PFPL_DECODE_1(pfpl_decode_f64_1, double)
PFPL_DECODE_LIST(pfpl_decode_f64_63, double, 63)
PFPL_DECODE_LIST(pfpl_decode_f64_511, double, 511)
