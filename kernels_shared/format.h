// The stream format and the launch arguments, once for every kernel language: NVRTC, clang for AMD GPUs, and plain C++17 (the
// lane-by-lane executor of the tests).  FORMAT.md's vocabulary throughout.  No includes, so that NVRTC and hiprtc need no headers.
//
// The includer defines PFPL_FN (for example `__device__ __forceinline__`) before, and PFPL_MEMCPY where there is no __builtin_memcpy.
// Floating point: every operation rounds once, to nearest even; nothing is contracted (compile with -fmad=false or
// -ffp-contract=off) and nothing is flushed to zero.
#pragma once

#ifndef PFPL_MEMCPY
#define PFPL_MEMCPY __builtin_memcpy
#endif

namespace pfpl {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;
static_assert(sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(void*) == 8, "64-bit targets only");

// ---------------------------------------------------------------- format
constexpr u32 CHUNK_BYTES = 16384;
constexpr u32 RAW_FLAG = 0x80000000u;          // in a size-table entry: the chunk is stored raw
constexpr u32 EMPTY_CHUNK_BYTES = 2;           // coded length of a chunk with no nonzero byte
constexpr u32 MIN_CODED_BYTES = 10;            // shortest coded length of any other chunk
constexpr u32 NARROW_HEADER = 16, WIDE_HEADER = 32, NARROW_WORDS = 8;   // NARROW_WORDS: padded bytes and chunk count, in the archive
constexpr u32 MAGIC_P = 0x00504650u;           // "PFP"; the fourth byte is '4' or '8'
constexpr u32 MAGIC_W = 0x00574650u;           // "PFW"

enum Status : u32 { OK = 0, OVERFLOW_ = 1, NOT_A_STREAM = 2, WRONG_TYPE = 3, WRONG_COUNT = 4, BAD_HEADER = 5, TRUNCATED = 6, BAD_TABLE = 7, CORRUPT_CHUNK = 8 };
constexpr u32 NO_CHUNK = 0xffffffffu;          // Outcome::chunk when no chunk is to blame

// Element types: value, code (an unsigned word of the same width), and what FORMAT.md fixes for them.
template <class Value> struct Element;
template <> struct Element<float> {
  using Code = u32; using Signed = i32;
  static constexpr u32 WIDTH = 32, CODES = 4096;
  static constexpr u32 TYPE_BYTE = 0x34000000u;                            // '4'
  static constexpr float RADIUS = 4194304.f;                               // 2^22
  static constexpr float ROUND = 12582912.f;                               // 1.5 * 2^23
  static constexpr Code ROUND_BITS = 0x4B400000u, NEGABINARY = 0xAAAAAAAAu, LAST_BIN_CODE = 2u * 4194304u - 1;
};
template <> struct Element<double> {
  using Code = u64; using Signed = i64;
  static constexpr u32 WIDTH = 64, CODES = 2048;
  static constexpr u32 TYPE_BYTE = 0x38000000u;                            // '8'
  static constexpr double RADIUS = 2251799813685248.;                      // 2^51
  static constexpr double ROUND = 6755399441055744.;                       // 1.5 * 2^52
  static constexpr Code ROUND_BITS = 0x4338000000000000ull, NEGABINARY = 0xAAAAAAAAAAAAAAAAull, LAST_BIN_CODE = 2ull * 2251799813685248ull - 1;
};

PFPL_FN u32 bits_of(float v) { u32 b; PFPL_MEMCPY(&b, &v, 4); return b; }
PFPL_FN u64 bits_of(double v) { u64 b; PFPL_MEMCPY(&b, &v, 8); return b; }
PFPL_FN float value_of(u32 b) { float v; PFPL_MEMCPY(&v, &b, 4); return v; }
PFPL_FN double value_of(u64 b) { double v; PFPL_MEMCPY(&v, &b, 8); return v; }
PFPL_FN float magnitude(float v) { return value_of(bits_of(v) & 0x7fffffffu); }
PFPL_FN double magnitude(double v) { return value_of(bits_of(v) & 0x7fffffffffffffffull); }

// ---------------------------------------------------------------- quantizer (FORMAT.md, coding a chunk, step 1)
template <class Value> struct Step {            // eb, eb2 = 2 eb, inv = 1 / eb2, in the field's type; inv comes from the host
  Value eb, eb2, inv;
};

// Value -> code, both tries, without a branch.  Adding 1.5 * 2^23 (2^52) rounds to an integer, ties to even, for |p| <= 2^22 (2^51), and
// leaves the integer in the sum's bits.  Beyond, no bin holds, but q may be a half integer below -2^22 (-2^51): hence the test of |q|
// before the second try.
template <class Value> PFPL_FN typename Element<Value>::Code quantize(Value x, const Step<Value>& k) {
  using E = Element<Value>; using Code = typename E::Code; using Signed = typename E::Signed;
  const Value q1 = (x * k.inv + E::ROUND) - E::ROUND;
  const Value d1 = x - q1 * k.eb2;                                         // its sign says on which side of the bin x is
  const Value one = value_of((bits_of(d1) & ((Code)1 << (E::WIDTH - 1))) | bits_of((Value)1));
  const Value q2 = q1 + one, d2 = x - q2 * k.eb2;
  const bool ok1 = (magnitude(d1) <= k.eb) & (magnitude(q1) < E::RADIUS);  // false for NaN
  const bool ok2 = (magnitude(d2) <= k.eb) & (magnitude(q2) < E::RADIUS) & (magnitude(q1) <= E::RADIUS);
  const Value q = ok1 ? q1 : q2;
  const Signed i = (Signed)(bits_of(q + E::ROUND) - E::ROUND_BITS);
  const Code zigzag = ((Code)i << 1) ^ (Code)(i >> (E::WIDTH - 1));
  return ok1 | ok2 ? zigzag : bits_of(x);
}

// Code -> value.  |q| < 2^22 (2^51), so the integer becomes a float exactly through the same constant; -0 never comes from bin 0.
template <class Value> PFPL_FN Value dequantize(typename Element<Value>::Code c, Value eb2) {
  using E = Element<Value>; using Code = typename E::Code;
  const Code q = (c >> 1) ^ ((Code)0 - (c & 1));
  const Value v = (value_of((Code)(q + E::ROUND_BITS)) - E::ROUND) * eb2;
  return c <= E::LAST_BIN_CODE ? v : value_of(c);
}

// ---------------------------------------------------------------- sizes
template <class Value> PFPL_FN u64 chunks_of(u64 n) { return n / Element<Value>::CODES + (n % Element<Value>::CODES != 0); }
PFPL_FN bool takes_wide_header(u64 chunks) { return 24 + chunks * (CHUNK_BYTES + 4ull) >= 1ull << 32; }
PFPL_FN u64 table_offset(bool wide) { return wide ? WIDE_HEADER : NARROW_HEADER + NARROW_WORDS; }

// ---------------------------------------------------------------- reading a header (FORMAT.md, what a decoder refuses: 2 to 6)
struct Layout {                                 // where a stream's parts are, in bytes from its start
  u64 table, payload, end;                      // end: header and archive
  float bound;
  u32 status;                                   // OK, or NOT_A_STREAM .. TRUNCATED
};
PFPL_FN u64 word64(const u32* p) { return (u64)p[1] << 32 | p[0]; }

// `stream` is 4-byte aligned; nothing at or past `bytes` is read.  `n`: the caller's count.
template <class Value> PFPL_FN Layout read_header(const u32* stream, u64 bytes, u64 n) {
  Layout l{0, 0, 0, 0.f, OK};
  if (bytes < NARROW_HEADER) { l.status = NOT_A_STREAM; return l; }
  const u32 magic = stream[0], type = magic & 0xff000000u, family = magic & 0x00ffffffu;
  const bool wide = family == MAGIC_W;
  if ((family != MAGIC_P && !wide) || (type != Element<float>::TYPE_BYTE && type != Element<double>::TYPE_BYTE) || (wide && bytes < WIDE_HEADER)) { l.status = NOT_A_STREAM; return l; }
  if (type != Element<Value>::TYPE_BYTE) { l.status = WRONG_TYPE; return l; }
  const u64 count = wide ? word64(stream + 2) : stream[3];
  if (count != n) { l.status = WRONG_COUNT; return l; }
  const u32 bound = wide ? stream[1] : stream[2];
  const u64 archive = wide ? word64(stream + 4) : stream[1], chunks = chunks_of<Value>(n);
  if (bound - 0x00800000u > 0x7effffffu - 0x00800000u) { l.status = BAD_HEADER; return l; }          // normal, positive, at most half the largest
  // chunks < 2^53, so the products below do not wrap
  if (archive < (wide ? 0 : NARROW_WORDS) + 4 * chunks || (wide && word64(stream + 6) != chunks)) { l.status = BAD_HEADER; return l; }
  if (!wide) {
    if (bytes < NARROW_HEADER + NARROW_WORDS) { l.status = TRUNCATED; return l; }
    if (stream[5] != chunks || stream[4] != (u64)chunks * CHUNK_BYTES) { l.status = BAD_HEADER; return l; }
  }
  const u64 header = wide ? WIDE_HEADER : NARROW_HEADER;
  if (bytes < header || bytes - header < archive) { l.status = TRUNCATED; return l; }
  l.table = table_offset(wide); l.payload = l.table + 4 * chunks; l.end = header + archive; l.bound = value_of(bound);
  return l;
}
// A size-table entry that no encoder may have meant.
PFPL_FN bool bad_entry(u32 entry) {
  const u32 length = entry & ~RAW_FLAG;
  return entry & RAW_FLAG ? length != CHUNK_BYTES : length != EMPTY_CHUNK_BYTES && (length < MIN_CODED_BYTES || length >= CHUNK_BYTES);
}

// ---------------------------------------------------------------- launch arguments: the contract with src/device/args.rs
struct Outcome { u64 stream_bytes; u32 status, chunk; };                     // 16 bytes in device memory, 8-byte aligned

struct EncodeField {                            // 64 bytes
  u64 field;                                    // device address of n values, aligned to the element
  u64 stream;                                   // device address of the stream, 4-byte aligned
  u64 n;
  u64 capacity;                                 // bytes at `stream`; 0 asks for the length
  u64 outcome;                                  // device address of an Outcome, or 0
  double inverse;                               // 1 / (2 bound) in the field's type, widened
  float bound;                                  // as recorded: rounded and checked by the host
  u32 wide;                                     // 1: the wide header
  u32 first_chunk;                              // chunks of the fields before this one in the launch
  u32 reserved;
};
struct DecodeField {                            // 64 bytes
  u64 field;                                    // device address of `count` values, aligned to the element
  u64 stream;                                   // device address of the stream, 4-byte aligned
  u64 n;                                        // values of the whole field
  u64 bytes;                                    // bytes given at `stream`
  u64 outcome;                                  // device address of an Outcome, or 0
  u64 first, count;                             // the range of values wanted: all of the field is 0, n
  u32 first_chunk;                              // chunks touched by the fields before this one in the launch
  u32 reserved;
};
static_assert(sizeof(Outcome) == 16 && sizeof(EncodeField) == 64 && sizeof(DecodeField) == 64, "launch ABI");

// First argument of every kernel.  The second is the list itself, passed by value (a struct of 1 or more fields); where `list` is not
// 0 it is a device address of the fields instead.
struct Launch {
  u64 state;                                    // the plan's state: CONTROL_BYTES, then 16 bytes a field of a list, then 8 bytes a chunk
  u64 list;                                     // 0: the fields are the kernel's second argument
  u32 field_capacity;                           // fields that the state has room for (fixes where the chunk words begin)
  u32 fields, chunks;                           // in this launch; first_chunk of a field runs up to `chunks`
  u32 chunk_capacity;                           // chunks that the state has room for, at least `chunks`
};
constexpr u32 CONTROL_BYTES = 4096;
// Who uses which part of the state, so that calls of both directions and types can follow each other without clearing.  Encoders:
// control bytes 0 to 127, and the first 4 bytes a chunk of the chunk words (an array of chunk_capacity u32).  Decoders: control bytes
// from 128 on, the bytes of fields, and the second half of the chunk words.
static_assert(sizeof(Launch) == 32, "launch ABI");

}  // namespace pfpl
