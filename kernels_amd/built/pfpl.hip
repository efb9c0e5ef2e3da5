// Entry points of the AMD kernels.  Arguments: a Launch, then MAX_FIELDS fields by value, of which Launch.fields count (4000 bytes in all).
// The encoder: persistent blocks of 256 threads, one chunk at a time, in ticket order.
//
// Barriers of a chunk:
//   values -> shared memory (each wave its own part) -> runs in registers; quantize, difference
//   1  values all read       transpose; plane words -> shared memory
//   2  planes complete       each thread takes 64 consecutive bytes into registers: flags, counts, the bitmap's own flags
//   3  counts here           size known -> published; the next chunk's values are requested; nonzero bytes -> shared memory, whole words
//   4  whole words stored    the bytes at the ends of the runs; meanwhile the sizes of the chunks before this one arrive
//   5  coded bytes complete  -> the stream
//   6  shared memory free
//
// Look-back (notes/amd-lookback.md): every chunk publishes one 64-bit word, the launch's epoch above its coded size.  A block knows the
// offset behind the last chunk it coded, and adds the sizes of the chunks since.
// What the encoder and the decoder share: how a block of 256 threads holds a chunk, and the steps between words and planes.
//
// A thread owns RUN = 16 words of 32 bits of the chunk: 16 codes of 32 bits, or 8 of 64.  In shared memory the chunk's 4096 words lie
// in order (of the values, or of the planes), with 16-byte units moved within 128 bytes (swizzle) so that threads reading their run of
// four units and waves writing plane words both meet all banks.
// What the AMD kernels need of the machine, each as a plain function: clang's built-ins here; with PFPL_LANES defined, the same names on
// top of the executor that runs these sources lane by lane on the CPU.  No other file uses a built-in.  The compiler is given the wave
// width as PFPL_WAVE: 64 or 32.
//
// Rules the kernel sources keep: every wave primitive is called by all WAVE lanes, barriers by all threads of the block; lanes of a wave
// exchange through shared memory only across a barrier or warp_barrier().  Global memory is reached through the functions below (a
// pointer made from an address would compile to flat instructions); shared memory by plain C++ accesses.

#ifdef PFPL_LANES
#else

#define PFPL_FN __attribute__((device)) inline __attribute__((always_inline))
#define PFPL_UNROLL _Pragma("unroll")
#define PFPL_ROLL _Pragma("nounroll")
#define PFPL_GLOBAL __attribute__((address_space(1)))
#define PFPL_CONSTANT __attribute__((address_space(4)))
#define PFPL_SHARED(TYPE, NAME) __attribute__((shared)) TYPE NAME
// PFPL_KERNEL(name, threads a block, waves a SIMD)(parameters) { .. }
#define PFPL_KERNEL(NAME, THREADS, WAVES) extern "C" __attribute__((global, amdgpu_flat_work_group_size(THREADS, THREADS), amdgpu_waves_per_eu(WAVES))) void NAME

// The stream format and the launch arguments, once for every kernel language: NVRTC, clang for AMD GPUs, and plain C++17 (the
// lane-by-lane executor of the tests).  FORMAT.md's vocabulary throughout.  No includes, so that NVRTC and hiprtc need no headers.
//
// The includer defines PFPL_FN (for example `__device__ __forceinline__`) before, and PFPL_MEMCPY where there is no __builtin_memcpy.
// Floating point: every operation rounds once, to nearest even; nothing is contracted (compile with -fmad=false or
// -ffp-contract=off) and nothing is flushed to zero.

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

namespace pfpl {

constexpr u32 WAVE = PFPL_WAVE;
template <u32 W> struct MaskOf;
template <> struct MaskOf<32> { using Type = u32; };
template <> struct MaskOf<64> { using Type = u64; };
using Mask = MaskOf<WAVE>::Type;                // one bit a lane

typedef float Pair __attribute__((vector_size(8)));
struct alignas(16) Words4 { u32 x, y, z, w; };

// ---------------------------------------------------------------- the grid
PFPL_FN u32 thread_index() { return __builtin_amdgcn_workitem_id_x(); }
PFPL_FN u32 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
// The number of blocks: the dispatch packet's grid size is in threads.
PFPL_FN u32 grid_blocks(u32 threads) { return ((const u32 PFPL_CONSTANT*)__builtin_amdgcn_dispatch_ptr())[3] / threads; }
PFPL_FN u32 lane_index() { return WAVE == 64 ? __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)) : __builtin_amdgcn_mbcnt_lo(~0u, 0); }
// A kernel's arguments and fields: read-only during the launch, so that uniform reads are scalar.  The fields are in device memory, or
// behind Launch in the arguments.
using LaunchPointer = const Launch PFPL_CONSTANT*;
template <class Field> using FieldPointer = const Field PFPL_CONSTANT*;
PFPL_FN LaunchPointer launch_of(const Launch&) { return (LaunchPointer)__builtin_amdgcn_kernarg_segment_ptr(); }
template <class Field, class List> PFPL_FN FieldPointer<Field> fields_of(LaunchPointer launch, const List&) {
  return launch->list ? (FieldPointer<Field>)launch->list : (FieldPointer<Field>)(launch + 1);
}
// v itself, in a way that keeps what is computed from it from being hoisted or merged.
PFPL_FN u32 opaque(u32 v) { asm volatile("" : "+v"(v)); return v; }
PFPL_FN u32 opaque_uniform(u32 v) { asm volatile("" : "+s"(v)); return v; }
// The same pointer: what is read through it is read here, not kept in registers since an earlier read.
template <class T> PFPL_FN const T PFPL_CONSTANT* again(const T PFPL_CONSTANT* f) { asm volatile("" : "+s"(f)); return f; }

// ---------------------------------------------------------------- barriers
PFPL_FN void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
PFPL_FN void warp_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}

// ---------------------------------------------------------------- a wave's lanes
PFPL_FN Mask ballot(bool p) {
#if PFPL_WAVE == 64
  return __builtin_amdgcn_ballot_w64(p);
#else
  return __builtin_amdgcn_ballot_w32(p);
#endif
}
PFPL_FN bool any(bool p) { return ballot(p) != 0; }
PFPL_FN u32 uniform(u32 v) { return __builtin_amdgcn_readfirstlane(v); }                   // v is the same in all lanes
PFPL_FN u64 uniform(u64 v) { return (u64)uniform((u32)(v >> 32)) << 32 | uniform((u32)v); }
PFPL_FN u32 lane_value(u32 v, u32 lane) { return __builtin_amdgcn_readlane(v, lane); }     // `lane` is the same in all lanes
PFPL_FN u32 shuffle(u32 v, u32 lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, v); }
PFPL_FN u32 lanes_below(Mask m) {                                                          // bits of m below this lane's
#if PFPL_WAVE == 64
  return __builtin_amdgcn_mbcnt_hi((u32)(m >> 32), __builtin_amdgcn_mbcnt_lo((u32)m, 0));
#else
  return __builtin_amdgcn_mbcnt_lo(m, 0);
#endif
}
namespace dpp {                                 // data-parallel primitives: operand lanes chosen by the instruction
constexpr int QUAD_SAME = 0xE4, QUAD_XOR_1 = 0xB1, QUAD_XOR_2 = 0x4E, ROW_SHIFT_1 = 0x111, ROW_SHIFT_2 = 0x112, ROW_SHIFT_4 = 0x114, ROW_SHIFT_8 = 0x118;
constexpr int WAVE_SHIFT_1 = 0x138, ROW_BROADCAST_15 = 0x142, ROW_BROADCAST_31 = 0x143;
constexpr int ALL = 0xf, ODD_ROWS = 0xa, UPPER_ROWS = 0xc;
template <int CONTROL, int ROWS = ALL> PFPL_FN u32 move(u32 old, u32 v) { return __builtin_amdgcn_update_dpp(old, v, CONTROL, ROWS, 0xf, false); }
PFPL_FN u32 last_of_other_row(u32 v) { return __builtin_amdgcn_permlanex16(0, v, ~0u, ~0u, true, false); }     // gfx10 and later
}  // namespace dpp
template <u32 BY> PFPL_FN u32 shuffle_xor(u32 v) {
  static_assert(BY == 1 || BY == 2);
  return dpp::move<BY == 1 ? dpp::QUAD_XOR_1 : dpp::QUAD_XOR_2>(v, v);
}
PFPL_FN u32 lane_before(u32 v, u32 first) {     // v of the lane before; `first` in lane 0
#ifdef __GFX9__
  return dpp::move<dpp::WAVE_SHIFT_1>(first, v);
#else
  u32 into = first;
  if (WAVE == 64) into = lane_index() < 32 ? first : lane_value(v, 31);
  into = dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(into, dpp::last_of_other_row(v));
  return dpp::move<dpp::ROW_SHIFT_1>(into, v);
#endif
}
PFPL_FN u32 warp_scan(u32 v) {                  // inclusive sums
  v += dpp::move<dpp::ROW_SHIFT_1>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_2>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_4>(0, v);
  v += dpp::move<dpp::ROW_SHIFT_8>(0, v);
#ifdef __GFX9__
  v += dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, v);
  v += dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, v);
#else
  v += dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row(v));
  if (WAVE == 64) v += lane_index() < 32 ? 0 : lane_value(v, 31);
#endif
  return v;
}
PFPL_FN u32 row_scan_4(u32 v) { v += dpp::move<dpp::ROW_SHIFT_1>(0, v); return v + dpp::move<dpp::ROW_SHIFT_2>(0, v); }     // inclusive sums, right in the first 4 lanes
PFPL_FN u32 row_scan_8(u32 v) { v = row_scan_4(v); return v + dpp::move<dpp::ROW_SHIFT_4>(0, v); }                          // in the first 8
// What a row mask does to the carry of the lanes it disables is not documented: opaque() keeps masked moves out of the additions.
PFPL_FN u64 warp_scan(u64 v) {
  const auto add = [&](u32 low, u32 high) { v += (u64)high << 32 | low; };
  add(dpp::move<dpp::ROW_SHIFT_1>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_1>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_2>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_2>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_4>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_4>(0, (u32)(v >> 32)));
  add(dpp::move<dpp::ROW_SHIFT_8>(0, (u32)v), dpp::move<dpp::ROW_SHIFT_8>(0, (u32)(v >> 32)));
#ifdef __GFX9__
  add(opaque(dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, (u32)v)), opaque(dpp::move<dpp::ROW_BROADCAST_15, dpp::ODD_ROWS>(0, (u32)(v >> 32))));
  add(opaque(dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, (u32)v)), opaque(dpp::move<dpp::ROW_BROADCAST_31, dpp::UPPER_ROWS>(0, (u32)(v >> 32))));
#else
  add(opaque(dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row((u32)v))), opaque(dpp::move<dpp::QUAD_SAME, dpp::ODD_ROWS>(0, dpp::last_of_other_row((u32)(v >> 32)))));
  if (WAVE == 64) { const u32 low = lane_value((u32)v, 31), high = lane_value((u32)(v >> 32), 31), upper = lane_index() < 32 ? 0 : ~0u; add(low & upper, high & upper); }
#endif
  return v;
}

// ---------------------------------------------------------------- bits
// Byte i of the result is byte (byte i of `selector`) of the eight bytes low, high; 0x0C gives 0.
PFPL_FN u32 permute_bytes(u32 low, u32 high, u32 selector) { return __builtin_amdgcn_perm(high, low, selector); }
PFPL_FN u32 select(u32 mask, u32 a, u32 b) { return (a & mask) | (b & ~mask); }            // v_bfi_b32
PFPL_FN u32 align_bytes(u32 low, u32 high, u32 by) { return __builtin_amdgcn_alignbyte(high, low, by); }     // low word of high:low >> 8 (by & 3)
PFPL_FN u32 shift_right(u32 v, u32 by) { return __builtin_amdgcn_alignbit(0, v, by); }     // v >> (by & 31)
PFPL_FN u32 popcount(u32 v) { return __builtin_popcount(v); }
PFPL_FN u32 popcount(u64 v) { return __builtin_popcountll(v); }
PFPL_FN u32 lowest_bit(u32 v) { return __builtin_ctz(v); }                                 // v != 0
PFPL_FN u32 lowest_bit(u64 v) { return __builtin_ctzll(v); }
// Sum of the products of the four unsigned bytes of a and b, plus c.
PFPL_FN u32 dot_bytes(u32 a, u32 b, u32 c) {
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || (!defined(__GFX9__) && !defined(__gfx1010__) && !defined(__gfx1013__))
  return __builtin_amdgcn_udot4(a, b, c, false);
#else
  PFPL_UNROLL for (u32 i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
#endif
}
PFPL_FN float larger(float a, float b) { return __builtin_fmaxf(a, b); }                   // of numbers: NaN loses

// ---------------------------------------------------------------- global memory, by address
PFPL_FN u32 load_word(u64 at) { return *(const u32 PFPL_GLOBAL*)at; }
PFPL_FN u32 load_byte(u64 at) { return *(const u8 PFPL_GLOBAL*)at; }
typedef u32 UnitVector __attribute__((ext_vector_type(4), aligned(4)));                   // a unit of four words; word alignment is enough
PFPL_FN Words4 load_unit(u64 at) { const UnitVector v = *(const UnitVector PFPL_GLOBAL*)at; return {v.x, v.y, v.z, v.w}; }
PFPL_FN void store_unit(u64 at, Words4 v) { UnitVector u; u.x = v.x; u.y = v.y; u.z = v.z; u.w = v.w; *(UnitVector PFPL_GLOBAL*)at = u; }
PFPL_FN void store_word(u64 at, u32 v) { *(u32 PFPL_GLOBAL*)at = v; }
PFPL_FN void store_byte(u64 at, u32 v) { *(u8 PFPL_GLOBAL*)at = (u8)v; }
PFPL_FN const u32* words_at(u64 at) { return (const u32*)(const u32 PFPL_GLOBAL*)at; }
// Words that other blocks access at the same time: agent scope.
PFPL_FN u64 load_relaxed(u64 at) { return __hip_atomic_load((u64 PFPL_GLOBAL*)at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void store_relaxed(u64 at, u64 v) { __hip_atomic_store((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void store_release(u64 at, u64 v) { __hip_atomic_store((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT); }
// Each gives the value before.
PFPL_FN u64 fetch_add(u64 at, u64 v) { return __hip_atomic_fetch_add((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN u64 fetch_add_ordered(u64 at, u64 v) { return __hip_atomic_fetch_add((u64 PFPL_GLOBAL*)at, v, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN u64 fetch_max(u64 at, u64 v) { return __hip_atomic_fetch_max((u64 PFPL_GLOBAL*)at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
PFPL_FN void fence_acquire() { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
PFPL_FN void pause() { __builtin_amdgcn_s_sleep(1); }

}  // namespace pfpl
#endif

namespace pfpl {

constexpr u32 THREADS = 256, WAVES = THREADS / WAVE, RUN = 16, CHUNK_WORDS = CHUNK_BYTES / 4, UNITS = RUN / 4;
constexpr u32 WAVE_UNITS = WAVE * UNITS;        // units that a wave owns

// Position of word `a`: bits 2 and 3 are xored with bits 5 and 6 (runs), bits 3 and 4 with bits 10 and 11 (planes).
PFPL_FN u32 swizzle(u32 a) { return a ^ (a >> 3 & 0xC) ^ (a >> 7 & 0x18); }

// Unit k of this thread's run is at word base ^ 4k, with base = swizzle(RUN * thread).
PFPL_FN void read_run(const u32* words, u32 base, u32* r) {
  PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) {
    const Words4 v = *(const Words4*)(words + (base ^ 4 * k));
    r[4 * k] = v.x; r[4 * k + 1] = v.y; r[4 * k + 2] = v.z; r[4 * k + 3] = v.w;
  }
}
PFPL_FN void write_run(u32* words, u32 base, const u32* r) {
  PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) *(Words4*)(words + (base ^ 4 * k)) = Words4{r[4 * k], r[4 * k + 1], r[4 * k + 2], r[4 * k + 3]};
}

// ---------------------------------------------------------------- transposes (FORMAT.md, coding a chunk, step 4)
// A 32x32 bit matrix has row 31 - e for element e, so that plane 31 - j is its transpose's row j.  Of the elements, one of two
// threads holds 0..15 (rows 31..16), the other 16..31; of the planes, the first holds 0..15 and the second 16..31.  For 64-bit codes
// one matrix is made of the elements' upper words (planes 0..31), one of the lower (32..63): thread bit 0 says which, bit 1 which half.
template <class Value> struct Place {
  static constexpr bool WIDE = Element<Value>::WIDTH == 64;
  static constexpr u32 PLANE_WORDS = CHUNK_WORDS / Element<Value>::WIDTH, PARTNER = WIDE ? 2 : 1;
  u32 even, odd;                                // where plane words go, for j even and odd
  u32 half_even, half_odd;                      // and where the upper 16 planes of each matrix are zero
  u32 join;                                     // byte selector that exchanges halves with the partner
  u32 low, high;                                // byte selectors of the stage by 8; of 64-bit codes, the lower words' threads hold rows r and r + 8 swapped
  u32 pack;                                     // the same where the upper 16 planes are zero

  PFPL_FN Place(u32 thread, bool decoding) {
    const bool second = thread & PARTNER, swapped = WIDE && (thread & 1);
    const u32 plane = WIDE ? (thread & 1) * 32 : 0, column = WIDE ? thread >> 2 ^ 1 : thread >> 1;
    even = swizzle((plane + (second ? 16 : 0)) * PLANE_WORDS + column); odd = even ^ 8;
    half_even = swizzle((plane + (second ? 24 : 16)) * PLANE_WORDS + column); half_odd = half_even ^ 8;
    join = second ? 0x05040100u : 0x03020706u;
    low = !swapped ? 0x06020400u : decoding ? 0x07030501u : 0x02060004u;
    high = !swapped ? 0x07030501u : decoding ? 0x06020400u : 0x03070105u;
    pack = swapped ? 0x01050004u : 0x05010400u;
  }
  // Plane word j (0..15) of this thread: the i-th plane of its 16 with i = 15 - j.  Bit 10 (64-bit codes: 6) is a source of the swizzle.
  PFPL_FN u32 word(u32 j) const {
    const u32 i = 15 - j;
    return ((WIDE ? i & 1 : i & 8) ? odd : even) + i * PLANE_WORDS;
  }
  PFPL_FN u32 half_word(u32 j) const {          // j in 0..7, of 8 planes
    const u32 i = 7 - j;
    return ((WIDE && (i & 1)) ? half_odd : half_even) + i * PLANE_WORDS;
  }
};

// One stage: of rows i and i + S, the columns that differ in bit S of their number change places.
template <u32 S, u32 ROWS> PFPL_FN void stage(u32* r) {
  constexpr u32 MASK = S == 4 ? 0x0F0F0F0Fu : S == 2 ? 0x33333333u : 0x55555555u;
  PFPL_UNROLL for (u32 i = 0; i < ROWS; i++)
    if (!(i & S)) {
      const u32 a = r[i], b = r[i + S];
      r[i] = select(MASK, a, b << S); r[i + S] = select(MASK, a >> S, b);
    }
}
template <u32 ROWS, class Value> PFPL_FN void join_halves(u32* r, const Place<Value>& place) {
  PFPL_UNROLL for (u32 i = 0; i < ROWS; i++) r[i] = permute_bytes(r[i], shuffle_xor<Place<Value>::PARTNER>(r[i]), place.join);
}
template <class Value> PFPL_FN void exchange_8(u32* r, const Place<Value>& place) {
  PFPL_UNROLL for (u32 i = 0; i < 8; i++) {
    const u32 a = r[i], b = r[i + 8];
    r[i] = permute_bytes(a, b, place.low); r[i + 8] = permute_bytes(a, b, place.high);
  }
}
// Words -> planes and back.  `half`: the upper 16 planes are zero; then a register holds rows i and i + 8, and 8 plane words come out.
template <class Value> PFPL_FN void planes_of_words(u32* r, const Place<Value>& place, bool half) {
  if (half) {
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) r[i] = permute_bytes(r[i], r[i + 8], place.pack);
    stage<4, 8>(r); stage<2, 8>(r); stage<1, 8>(r);
    join_halves<8>(r, place);
  } else {
    exchange_8(r, place);
    stage<4, 16>(r); stage<2, 16>(r); stage<1, 16>(r);
    join_halves<16>(r, place);
  }
}
template <class Value> PFPL_FN void words_of_planes(u32* r, const Place<Value>& place, bool half) {
  if (half) {
    join_halves<8>(r, place);
    stage<1, 8>(r); stage<2, 8>(r); stage<4, 8>(r);
    const u32 first = (place.low & 0x01010101u) != 0 ? 0x0C0C0301u : 0x0C0C0200u;        // bytes 0, 2 are row i's, 1, 3 row i + 8's; or swapped
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) { const u32 v = r[i]; r[i] = permute_bytes(v, 0, first); r[i + 8] = permute_bytes(v, 0, first ^ 0x00000101u); }
  } else {
    join_halves<16>(r, place);
    stage<1, 16>(r); stage<2, 16>(r); stage<4, 16>(r);
    exchange_8(r, place);
  }
}

// The planes in four parts of 4096 bytes, 16 KiB in all: which of them hold a one bit (bit i for part i).  A wave's bytes lie in one part.
// `r`: the words of all lanes.  Matrices have two parts each of 16 planes (64-bit codes), or one has four of 8.
constexpr u32 PART_BYTES = CHUNK_BYTES / 4;
template <class Value> struct Parts {
  static constexpr u32 UPPER = Element<Value>::WIDTH == 64 ? 0x5 : 0x3;    // the parts of the upper 16 planes
};
PFPL_FN u32 parts_of(const u32* r, float) {
  u32 all = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN; i++) all |= r[i];
  return (any(all >> 24) ? 1 : 0) | (any(all & 0xff0000u) ? 2 : 0) | (any(all & 0xff00u) ? 4 : 0) | (any(all & 0xffu) ? 8 : 0);
}
PFPL_FN u32 parts_of(const u32* r, double) {
  u32 all = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN; i++) all |= r[i];
  const Mask upper = ballot(all >> 16), lower = ballot(all & 0xffffu), even = (Mask)0x5555555555555555ull;
  return (upper & even ? 1 : 0) | (lower & even ? 2 : 0) | (upper & ~even ? 4 : 0) | (lower & ~even ? 8 : 0);
}
PFPL_FN u32 or_all(const u32* all) {
  u32 v = 0;
  PFPL_UNROLL for (u32 w = 0; w < WAVES; w++) v |= all[w];
  return uniform(v);
}
PFPL_FN bool has_part(u32 parts, u32 wave) { return parts >> (wave * 4 / WAVES) & 1; }

// ---------------------------------------------------------------- bytes
// The top bit of each byte: is it nonzero.
PFPL_FN u32 nonzero_bytes(u32 v) { return ((v & 0x7f7f7f7fu) + 0x7f7f7f7fu | v) & 0x80808080u; }
// Flags of the eight bytes of two words, times 128.
PFPL_FN u32 flags_of(u32 a, u32 b) { return dot_bytes(nonzero_bytes(a), 0x08040201u, dot_bytes(nonzero_bytes(b), 0x80402010u, 0)); }
PFPL_FN u32 flag_word(const u32* r) {            // of eight words
  return flags_of(r[0], r[1]) >> 7 | flags_of(r[2], r[3]) << 1 | flags_of(r[4], r[5]) << 9 | flags_of(r[6], r[7]) << 17;
}

// Entry of a table by the four flags of a word's bytes: a byte selector, and how far the position among the nonzero bytes advances.
struct Spread { u32 selector, advance; };
constexpr u32 ZERO_BYTE = 0x0C;                 // in a selector
// Moves the flagged bytes to the front; advances in bits.
PFPL_FN Spread compaction(u32 flags) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) if (flags >> b & 1) selector |= b << 8 * n++;
  for (u32 b = n; b < 4; b++) selector |= ZERO_BYTE << 8 * b;
  return {selector, 8 * n};
}
// And back; advances in bytes.
PFPL_FN Spread expansion(u32 flags) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) selector |= (flags >> b & 1 ? n++ : ZERO_BYTE) << 8 * b;
  return {selector, n};
}
// The entries of the eight words that a flag word covers.
PFPL_FN void read_entries(const Spread* table, u32 flags, Spread* entries) {
  const u32 even = opaque(flags << 3 & 0x78787878u), odd = opaque(flags >> 1 & 0x78787878u);       // bytes: offsets into the table
  PFPL_UNROLL for (u32 k = 0; k < 8; k++) entries[k] = *(const Spread*)((const u8*)table + ((k & 1 ? odd : even) >> 8 * (k / 2) & 0xff));
}

// ---------------------------------------------------------------- sums over the block
// `mine` holds this wave's sum and `all` the waves': the sum of the waves before this one, and of all.
struct Sums { u32 before, total; };
PFPL_FN Sums sums_of_waves(const u32* all, u32 lane, u32 wave) {
  const u32 v = all[lane & (WAVES - 1)], sums = WAVES == 4 ? row_scan_4(v) : row_scan_8(v);
  return {wave ? lane_value(sums, wave - 1) : 0, lane_value(sums, WAVES - 1)};
}
// A wave's sum of v, for 64-bit sums of sizes (below 2^54): the upper parts are rarely there.
PFPL_FN u64 wave_sum(u64 v) {
  u64 sum = lane_value(warp_scan((u32)v & 0xffffffu), WAVE - 1);
  if (any(v >> 24 != 0)) sum += (u64)lane_value(warp_scan((u32)(v >> 24)), WAVE - 1) << 24;
  return sum;
}
PFPL_FN u64 sum_all(const u64* all) {
  u64 sum = 0;
  PFPL_UNROLL for (u32 w = 0; w < WAVES; w++) sum += all[w];
  return uniform(sum);
}

// ---------------------------------------------------------------- lists of fields
// The last field whose first chunk is at most `chunk`: the one that holds it (empty fields share their successor's first chunk).
template <class Field> PFPL_FN u32 find_field(FieldPointer<Field> fields, u32 count, u32 chunk, u32 lane) {
  u32 low = 0;
  while (count > 1) {                           // fields low .. low + count - 1, of which the first qualifies
    const u32 step = (count + WAVE - 1) / WAVE, i = lane * step;
    const bool holds = i < count && fields[low + i].first_chunk <= chunk;
    const u32 part = popcount(ballot(holds)) - 1;
    low += part * step;
    count = count - part * step < step ? count - part * step : step;
  }
  return low;
}

// Where the state's parts are (Launch::state); TICKET and EPOCH are words of their own cache lines.
constexpr u32 TICKET = 0, EPOCH = 256, FIELD_STATE_BYTES = 16;
PFPL_FN u64 field_state(LaunchPointer launch, u32 field) { return launch->state + CONTROL_BYTES + (u64)field * FIELD_STATE_BYTES; }
PFPL_FN u64 chunk_words(LaunchPointer launch) { return field_state(launch, launch->field_capacity); }

}  // namespace pfpl

namespace pfpl {

struct EncodeShared {
  alignas(16) u32 words[CHUNK_WORDS + 4];       // values, then planes, then the coded bytes
  Spread table[16];
  u64 sums[WAVES];
  u64 ticket, epoch;
  alignas(8) Mask changed[WAVES];               // level-3 bitmap
  u32 counts[WAVES], counts3[WAVES], parts[WAVES];
};
constexpr u32 SIZE_BITS = 15;                   // of a published word; a coded size is 2 .. 16384

// ---------------------------------------------------------------- values
// A chunk's values as a wave loads them (unit i of a lane is unit i * WAVE + lane of the wave's part), and the value before the part.
template <class Value> struct Values {
  Words4 unit[UNITS];
  Value before;
};
template <class Value> PFPL_FN Value load_value(u64 at) {
  if constexpr (sizeof(Value) == 4) return value_of(load_word(at));
  else return value_of((u64)load_word(at + 4) << 32 | load_word(at));
}
template <class Value> PFPL_FN Values<Value> load_values(u64 chunk, u64 left, u32 lane, u32 wave) {
  Values<Value> v;
  const u32 first = wave * WAVE_UNITS * (16 / sizeof(Value));            // of the wave
  const u64 at = chunk + (u64)first * sizeof(Value) + lane * 16;
  v.before = 0;
  if (left >= Element<Value>::CODES) {
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) v.unit[i] = load_unit(at + i * WAVE * 16);
  } else {                                      // the field's last chunk: zeros, whose code is 0, fill it up
    const u32 words = (u32)left * (sizeof(Value) / 4);
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 w = (wave * WAVE_UNITS + i * WAVE + lane) * 4;
      const auto word = [&](u32 k) { const u32 there = load_word(chunk + 4ull * (w + k < words ? w + k : words - 1)); return w + k < words ? there : 0; };
      v.unit[i] = {word(0), word(1), word(2), word(3)};
    }
  }
  if (wave && first - 1 < left) v.before = load_value<Value>(chunk + (u64)(first - 1) * sizeof(Value));
  return v;
}

// ---------------------------------------------------------------- words of a run (FORMAT.md, coding a chunk, steps 1 to 3)
// Codes of N values, elements 0, 1, .. of `x`: the first try of quantize() for all, two at a time where the machine has packed
// operations; where it does not hold for some value of the wave, both tries.
template <u32 N> PFPL_FN void quantize_group(const float* x, const Step<float>& step, u32* codes) {
  using E = Element<float>;
  bool missed = false;
  float bin = 0;
  PFPL_UNROLL for (u32 e = 0; e < N; e += 2) {
    const Pair v = {x[e], x[e + 1]}, sum = v * step.inv + E::ROUND, q = sum - E::ROUND, d = v - q * step.eb2;
    PFPL_UNROLL for (u32 k = 0; k < 2; k++) {
      missed |= !(magnitude(d[k]) <= step.eb);                             // also where x, and so q, is NaN or infinite
      bin = larger(bin, magnitude(q[k]));
      const i32 sign = (i32)bits_of((float)q[k]) >> 31;
      codes[e + k] = 2 * bits_of((float)sum[k]) - 2 * E::ROUND_BITS ^ (u32)sign;
    }
  }
  if (any(missed | !(bin < E::RADIUS))) PFPL_UNROLL for (u32 e = 0; e < N; e++) codes[e] = quantize(x[e], step);
}
template <u32 N> PFPL_FN void quantize_group(const double* x, const Step<double>& step, u64* codes) {
  using E = Element<double>;
  bool missed = false;
  PFPL_UNROLL for (u32 e = 0; e < N; e++) {
    const double sum = x[e] * step.inv + E::ROUND, q = sum - E::ROUND, d = x[e] - q * step.eb2;
    missed |= !(magnitude(d) <= step.eb) | !(magnitude(q) < E::RADIUS);
    const i64 i = (i64)(bits_of(sum) - E::ROUND_BITS);
    codes[e] = (u64)i << 1 ^ (u64)(i >> 63);
  }
  if (any(missed)) PFPL_UNROLL for (u32 e = 0; e < N; e++) codes[e] = quantize(x[e], step);
}
// r: the thread's values, then its words as rows of the transpose.
PFPL_FN void words_of_values(u32* r, float before, const Step<float>& step, u32) {
  using E = Element<float>;
  u32 c[RUN];
  PFPL_UNROLL for (u32 g = 0; g < RUN; g += 4) {
    const float x[4] = {value_of(r[g]), value_of(r[g + 1]), value_of(r[g + 2]), value_of(r[g + 3])};
    quantize_group<4>(x, step, c + g);
  }
  u32 previous = lane_before(c[RUN - 1], quantize(before, step));
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) { r[RUN - 1 - e] = (c[e] - previous + E::NEGABINARY) ^ E::NEGABINARY; previous = c[e]; }
}
// Of 64-bit codes the even thread of a pair gets the upper words of both threads' elements, the odd one the lower.
PFPL_FN void words_of_values(u32* r, double before, const Step<double>& step, u32 thread) {
  using E = Element<double>;
  u64 c[RUN / 2];
  PFPL_UNROLL for (u32 g = 0; g < RUN / 2; g += 2) {
    const double x[2] = {value_of((u64)r[2 * g + 1] << 32 | r[2 * g]), value_of((u64)r[2 * g + 3] << 32 | r[2 * g + 2])};
    quantize_group<2>(x, step, c + g);
  }
  const u64 first = quantize(before, step), last = c[RUN / 2 - 1];
  u64 previous = (u64)lane_before((u32)(last >> 32), (u32)(first >> 32)) << 32 | lane_before((u32)last, (u32)first);
  const bool odd = thread & 1;
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) {
    const u64 w = (c[e] - previous + E::NEGABINARY) ^ E::NEGABINARY;
    previous = c[e];
    const u32 high = (u32)(w >> 32), low = (u32)w;
    r[RUN - 1 - e] = odd ? low : high;                                     // elements 0..7 of 16 in the even thread, 8..15 in the odd one: see Place
    r[RUN / 2 - 1 - e] = shuffle_xor<1>(odd ? high : low);
  }
}

// ---------------------------------------------------------------- compaction (FORMAT.md, step 5)
// Appends flagged bytes at byte `bits / 8` of shared memory.  Whole words are stored as they fill up, by the run that fills them; what a
// run leaves in its last word is stored by finish(), after a barrier: the run that fills that word has stored zeros there.
struct Append {
  u32 start, bits, pending, word_at;            // start and word_at (of the word that is filling up) in bytes
  PFPL_FN explicit Append(u32 at) : start(at), bits(8 * at), pending(0), word_at(at & ~3u) {}
  PFPL_FN void word(u8* bytes, u32 v, const Spread& spread) {
    const u32 front = permute_bytes(v, 0, spread.selector), next = bits + spread.advance;
    pending |= front << (bits & 31);
    if ((next ^ bits) > 31) {
      *(u32*)(bytes + word_at) = pending;
      word_at += 4;
      pending = shift_right(front >> 1, ~bits);
    }
    bits = next;
  }
  PFPL_FN void finish(u8* bytes) const {
    const u32 from = word_at == (start & ~3u) ? start & 3 : 0, to = bits >> 3 & 3;
    PFPL_UNROLL for (u32 b = 0; b < 3; b++) if (b >= from && b < to) bytes[word_at + b] = (u8)(pending >> 8 * b);
  }
};

// Flags of the nonzero bytes among 8 (as 64 bits: eight bitmap bytes, which of them differ from the byte before).
PFPL_FN u32 changed_bytes(u64 bitmap, u32 before) {
  const u64 x = bitmap ^ (bitmap << 8 | before), low = 0x7f7f7f7f7f7f7f7full;
  u64 t = (((x & low) + low) | x) & ~low;
  t = t >> 7; t |= t >> 7; t |= t >> 14; t |= t >> 28;                     // bit 8 k to bit k
  return (u32)t & 0xff;
}
// Flags of the `N` bytes of shared memory from byte `at` of the (swizzled) planes: bit i for byte i.
template <u32 N> PFPL_FN u64 flags_before(const u32* words, u32 at, u32 lane) {
  u64 flags = 0;
  PFPL_UNROLL for (u32 i = 0; i < N; i += WAVE) {
    const u32 b = at + i + (N < WAVE ? lane & (N - 1) : lane);
    flags |= (u64)ballot(((const u8*)(words + swizzle(b >> 2)))[b & 3] != 0) << i;
  }
  return N < 64 ? flags & ((1ull << (N & 63)) - 1) : flags;
}

// ---------------------------------------------------------------- the stream
// `length` bytes of shared memory -> device memory at any alignment.
PFPL_FN void copy_out(const u32* words, u64 to, u32 length, u32 thread) {
  u32 head = (0u - (u32)to) & 3;                                           // bytes before the first whole word
  if (head > length) head = length;
  const u32 units = (length - head) / 16;
  PFPL_ROLL for (u32 u = thread; u < units; u += THREADS) {
    const Words4 v = *(const Words4*)(words + 4 * u);
    const u32 next = words[4 * u + 4];
    store_unit(to + head + 16 * u, Words4{align_bytes(v.x, v.y, head), align_bytes(v.y, v.z, head), align_bytes(v.z, v.w, head), align_bytes(v.w, next, head)});
  }
  const u32 done = head + units * 16, i = thread < 4 ? thread : done + thread - 4;
  if (thread < 20 && (thread < 4 ? i < head : i < length)) store_byte(to + i, ((const u8*)words)[i]);
}

// Header, padding and outcome of a stream whose payload ends at byte `end`.
template <class Value> PFPL_FN void finish_stream(u64 stream, u64 n, u64 capacity, u64 outcome, float bound, bool wide, u64 end) {
  const u64 bytes = (end + 3) & ~3ull, chunks = chunks_of<Value>(n);
  if (bytes <= capacity) PFPL_UNROLL for (u32 i = 0; i < 3; i++) if (end + i < bytes) store_byte(stream + end + i, 0);
  const u32 type = Element<Value>::TYPE_BYTE;
  if (wide && capacity >= WIDE_HEADER) {
    const u64 archive = bytes - WIDE_HEADER;
    const u32 header[8] = {MAGIC_W | type, bits_of(bound), (u32)n, (u32)(n >> 32), (u32)archive, (u32)(archive >> 32), (u32)chunks, (u32)(chunks >> 32)};
    PFPL_UNROLL for (u32 i = 0; i < 8; i++) store_word(stream + 4 * i, header[i]);
  }
  if (!wide && capacity >= NARROW_HEADER) {
    const u32 header[6] = {MAGIC_P | type, (u32)(bytes - NARROW_HEADER), bits_of(bound), (u32)n, (u32)chunks * CHUNK_BYTES, (u32)chunks};
    PFPL_UNROLL for (u32 i = 0; i < 6; i++) if (i < 4 || capacity >= NARROW_HEADER + NARROW_WORDS) store_word(stream + 4 * i, header[i]);
  }
  if (outcome) {
    store_word(outcome, (u32)bytes); store_word(outcome + 4, (u32)(bytes >> 32));
    store_word(outcome + 8, bytes <= capacity ? OK : OVERFLOW_); store_word(outcome + 12, NO_CHUNK);
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value> PFPL_FN void encode(LaunchPointer launch, FieldPointer<EncodeField> fields, EncodeShared& s) {
  using E = Element<Value>;
  u32 thread = thread_index(), lane = lane_index();
  u32 wave = uniform(thread / WAVE);
  const u32 blocks = grid_blocks(THREADS);
  const u64 sizes = chunk_words(launch);        // the published words
  if (thread < 16) s.table[thread] = compaction(thread);
  // Every block reads the epoch before it draws; the draw that ends the launch advances it.
  const auto draw = [&](bool first) {
    const LaunchPointer l = again(launch);
    const u64 ticket = first ? fetch_add_ordered(l->state + TICKET, 1) : fetch_add(l->state + TICKET, 1);
    if (ticket == (u64)l->chunks + blocks - 1) {
      fence_acquire();
      store_relaxed(l->state + TICKET, 0);
      store_relaxed(l->state + EPOCH, s.epoch + 1);
    }
    s.ticket = ticket;
  };
  if (thread == 0) { s.epoch = load_relaxed(launch->state + EPOCH); draw(true); }
  for (u64 f = (u64)block_index() * THREADS + thread; f < launch->fields; f += (u64)blocks * THREADS)
    if (fields[f].n == 0) finish_stream<Value>(fields[f].stream, 0, fields[f].capacity, fields[f].outcome, fields[f].bound, fields[f].wide, table_offset(fields[f].wide));
  barrier();
  const u64 tag = uniform(s.epoch) << SIZE_BITS;
  u64 ticket = uniform(s.ticket);

  const Place<Value> place(thread, false);
  const u32 run = swizzle(RUN * thread), unit = swizzle(4 * (wave * WAVE_UNITS + lane));
  u32 field = 0, next_first = 0;                // next_first: the first chunk behind the field's
  FieldPointer<EncodeField> f = fields;
  u64 left = 0;                                 // values from this chunk on
  Values<Value> values;
  u64 known_offset = 0; u32 known = 0;          // payload bytes of the field's chunks before chunk `known` of the launch
  bool fresh = false;                           // the next chunk is of another field than the one before
  const auto take = [&](u32 chunk) {            // makes `chunk` the next one and requests its values
    fresh = chunk >= next_first;
    if (fresh) {
      field = find_field<EncodeField>(fields, again(launch)->fields, chunk, lane);
      f = fields + field;
      next_first = field + 1 < launch->fields ? fields[field + 1].first_chunk : launch->chunks;
      known = f->first_chunk; known_offset = 0;
    }
    const u64 first = (u64)(chunk - f->first_chunk) * E::CODES;
    left = f->n - first;
    values = load_values<Value>(f->field + first * sizeof(Value), left, lane, wave);
  };
  if (ticket < launch->chunks) take((u32)ticket);

  while (ticket < launch->chunks) {
    const u32 chunk = (u32)ticket;
    thread = opaque(thread); lane = opaque(lane); wave = opaque_uniform(wave);     // masks made of them are cheaper to make again than to keep
    Step<Value> step;
    step.eb = f->bound; step.eb2 = 2 * step.eb; step.inv = (Value)f->inverse;

    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) *(Words4*)(s.words + unit + i * WAVE * 4) = values.unit[i];
    warp_barrier();
    u32 r[RUN];
    read_run(s.words, run, r);
    words_of_values(r, values.before, step, thread);
    const u32 own_parts = parts_of(r, Value());
    if (lane == 0) s.parts[wave] = own_parts;
    barrier();                                  // 1: values all read
    const u32 parts = or_all(s.parts);          // parts of the planes that are not all zero; of the others nothing is read
    const bool half = !(parts & Parts<Value>::UPPER);
    planes_of_words(r, place, half);
    if (half) PFPL_UNROLL for (u32 j = 0; j < 8; j++) s.words[place.half_word(j)] = r[j];
    else PFPL_UNROLL for (u32 j = 0; j < RUN; j++) s.words[place.word(j)] = r[j];
    if (thread == 0) draw(false);
    barrier();                                  // 2: planes complete
    ticket = uniform(s.ticket);

    // Levels 1 to 3: flags of the run's 64 bytes; which of these 8 bitmap bytes differ from the byte before; whether that byte does.
    u64 bitmap_before = 0, byte_before = 0;     // of the 64 bytes before the wave's, and the 8 before those
    if (wave && has_part(parts, wave - 1)) {
      bitmap_before = flags_before<64>(s.words, wave * WAVE * 64 - 64, lane);
      byte_before = flags_before<8>(s.words, wave * WAVE * 64 - 72, lane);
    }
    u32 flags[2] = {0, 0};
    if (has_part(parts, wave)) {
      read_run(s.words, run, r);
      flags[0] = flag_word(r); flags[1] = flag_word(r + 8);
    } else PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = 0;
    const u32 previous = lane_before(flags[1], (u32)(bitmap_before >> 32));
    const u32 kept = flags_of(flags[0] ^ align_bytes(previous, flags[0], 3), flags[1] ^ align_bytes(flags[0], flags[1], 3)) >> 7;
    const bool change = kept != lane_before(kept, changed_bytes(bitmap_before, (u32)byte_before));
    const Mask changed = ballot(change);
    const u32 count = popcount(flags[0]) + popcount(flags[1]) | popcount(kept) << 16, count_sums = warp_scan(count);
    if (lane == WAVE - 1) { s.counts[wave] = count_sums; s.counts3[wave] = popcount(changed); s.changed[wave] = changed; }
    barrier();                                  // 3: counts here, planes all read

    const Sums counts = sums_of_waves(s.counts, lane, wave), counts3 = sums_of_waves(s.counts3, lane, wave);
    const u32 level3 = ((const u8*)s.changed)[lane & 31];
    const u32 level3_before = lane_before(level3, 0);
    const Mask changed3 = ballot(lane < 32 && level3 != level3_before);
    const u32 nonzero = counts.total & 0xffff, kept2 = nonzero + (counts.total >> 16), kept3 = kept2 + counts3.total, kept4 = kept3 + popcount(changed3);
    const u32 coded = nonzero ? kept4 + 6 : EMPTY_CHUNK_BYTES;
    const bool raw = coded >= CHUNK_BYTES;
    const u32 size = raw ? CHUNK_BYTES : coded;
    FieldPointer<EncodeField> here = again(f);
    if (thread == 0) {
      store_release(sizes + 8ull * chunk, tag | size);
      const u64 entry = table_offset(here->wide) + 4ull * (chunk - here->first_chunk);
      if (entry + 4 <= here->capacity) store_word(here->stream + entry, raw ? CHUNK_BYTES | RAW_FLAG : coded);
    }
    u32 from = known; u64 offset = known_offset;
    known = chunk + 1;
    if (ticket < launch->chunks) take((u32)ticket);

    const u32 before = counts.before + count_sums - count;
    Append nonzeros(before & 0xffff), bitmap(nonzero + (before >> 16));
    if (raw) {
      PFPL_UNROLL for (u32 k = 0; k < UNITS; k++) *(Words4*)(s.words + RUN * thread + 4 * k) = Words4{r[4 * k], r[4 * k + 1], r[4 * k + 2], r[4 * k + 3]};
    } else {
      u8* const bytes = (u8*)s.words;
      PFPL_UNROLL for (u32 g = 0; g < 2; g++)
        if (any(flags[g] != 0)) {
          Spread spread[8];
          read_entries(s.table, flags[g], spread);
          PFPL_UNROLL for (u32 k = 0; k < 8; k++) nonzeros.word(bytes, r[8 * g + k], spread[k]);
        }
      if (any(kept != 0)) {
        const Spread low = s.table[kept & 15], high = s.table[kept >> 4];
        bitmap.word(bytes, flags[0], low); bitmap.word(bytes, flags[1], high);
      }
      if (change) bytes[kept2 + counts3.before + lanes_below(changed)] = (u8)kept;
      if (wave == WAVES - 1) {
        if (nonzero) {
          if ((u64)changed3 >> lane & 1) bytes[kept3 + lanes_below(changed3)] = (u8)level3;
          if (lane < 4) bytes[kept4 + lane] = (u8)((u32)changed3 >> 8 * lane);
        }
        if (lane < 2) bytes[coded - 2 + lane] = (u8)(CHUNK_BYTES >> 8 * lane);
      }
    }
    // The sizes since the last chunk whose offset is known.
    u64 sum = 0;
    for (u32 c = from + thread; c < chunk; c += THREADS) {
      u64 word;
      while ((word = load_relaxed(sizes + 8ull * c) - tag) - 1 >= CHUNK_BYTES) pause();
      sum += word;
    }
    fence_acquire();
    sum = wave_sum(sum);
    if (lane == 0) s.sums[wave] = sum;
    barrier();                                  // 4: whole words stored
    if (!raw) { nonzeros.finish((u8*)s.words); bitmap.finish((u8*)s.words); }
    offset += sum_all(s.sums);
    barrier();                                  // 5: coded bytes complete
    here = again(here);
    const u64 start = table_offset(here->wide) + 4 * chunks_of<Value>(here->n) + offset;
    if (start + size <= here->capacity) copy_out(s.words, here->stream + start, size, thread);
    if (!fresh) known_offset = offset + size;
    if (thread == 0 && (u64)(chunk - here->first_chunk + 1) * E::CODES >= here->n)
      finish_stream<Value>(here->stream, here->n, here->capacity, here->outcome, here->bound, here->wide, start + size);
    barrier();                                  // 6: shared memory free
  }
}

}  // namespace pfpl
// The decoder: blocks take chunks round robin; the size table says where each is, so that no block waits for another.
//
// Barriers of a chunk:
//   coded bytes -> shared memory
//   0  coded bytes here     levels 4 to 2 of the bitmap, in every wave
//   1  level-2 counts       level 1; the table entries up to this block's next chunk are summed, its coded bytes requested
//   2  level-1 counts       nonzero bytes -> the thread's 64 bytes of the planes, in registers
//   3  coded bytes all read planes -> shared memory
//   4  planes complete      transpose back, undo the difference
//   5  sums here            dequantize; values through the wave's own part of shared memory to the field
//   6  shared memory free

namespace pfpl {

struct DecodeShared {
  alignas(16) u32 words[CHUNK_WORDS + 8];       // coded bytes, then planes, then values
  Spread table[16];
  u32 runs[32];                                 // by the flags of four bitmap bytes (+ 16: nothing was kept before): byte selector of a running index
  u64 sums[WAVES], totals[WAVES];
  u32 counts[WAVES], counts2[WAVES], parts[WAVES];
};

constexpr u64 BAD_ENTRY = 1ull << 60;           // above every sum of sizes

// A verdict: status above chunk, so that the smallest wins.
constexpr u64 NO_VERDICT = ~0ull;
PFPL_FN u64 verdict(u32 status, u32 chunk) { return (u64)status << 32 | chunk; }
PFPL_FN u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

PFPL_FN void store_outcome(u64 outcome, u64 found, u64 consumed) {
  if (!outcome) return;
  const bool ok = found == NO_VERDICT;
  const u64 bytes = ok ? consumed : 0;
  store_word(outcome, (u32)bytes); store_word(outcome + 4, (u32)(bytes >> 32));
  store_word(outcome + 8, ok ? OK : (u32)(found >> 32)); store_word(outcome + 12, ok ? NO_CHUNK : (u32)found);
}

// The chunks that hold values first .. first + count - 1.
struct ChunkRange { u64 first; u32 count; };
template <class Value> PFPL_FN ChunkRange chunks_touched(u64 first, u64 count) {
  if (count == 0) return {0, 0};
  const u64 from = first / Element<Value>::CODES;
  return {from, (u32)((first + count - 1) / Element<Value>::CODES - from + 1)};
}

// The lowest of the table's first `count` chunks that is bad or ends past `room` bytes; there is one.
PFPL_FN u32 first_bad(u64 table, u64 count, u64 room, u32 lane) {
  u64 sum = 0;
  PFPL_ROLL for (u64 i = 0;; i += WAVE) {
    const bool there = i + lane < count;
    const u32 e = there ? load_word(table + 4 * (i + lane)) : EMPTY_CHUNK_BYTES;
    const bool bad = bad_entry(e);
    const u32 sums = warp_scan(bad ? 0 : e & ~RAW_FLAG);
    const Mask past = ballot(bad || (there && sum + sums > room));
    if (past || i + WAVE >= count) return (u32)i + (past ? lowest_bit(past) : 0);
    sum += lane_value(sums, WAVE - 1);
  }
}

// ---------------------------------------------------------------- coded bytes
struct Coded { Words4 unit[UNITS]; u32 last; };  // unit thread + i * THREADS; of thread 0, the word behind all units
// `length` bytes from the word-aligned address `at`, of which `there` exist: of what lies behind them nothing is read.
PFPL_FN Coded load_coded(u64 at, u32 length, u64 there, u32 thread) {
  Coded c;
  if (there >= (length + 15 & ~15u)) {
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 byte = 16 * (thread + i * THREADS);
      if (byte < length) c.unit[i] = load_unit(at + byte);
    }
    if (length > CHUNK_BYTES) c.last = load_word(at + CHUNK_BYTES);
  } else {                                      // the stream's last chunk; the header lies before it, so that `at` - 4 exists
    const u32 whole = (u32)there & ~3u;
    u32 tail = 0;
    PFPL_ROLL for (u32 b = 0; b < (there & 3); b++) tail |= load_byte(at + whole + b) << 8 * b;
    const auto word = [&](u32 byte) { const u32 w = load_word(at - 4 + (byte < whole ? byte + 4 : whole)); return byte < whole ? w : byte == whole ? tail : 0; };
    PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
      const u32 byte = 16 * (thread + i * THREADS);
      c.unit[i] = {word(byte), word(byte + 4), word(byte + 8), word(byte + 12)};
    }
    c.last = word(CHUNK_BYTES);
  }
  return c;
}

PFPL_FN u32 byte_at(const u32* words, u32 at) { return ((const u8*)words)[at]; }
PFPL_FN u32 word_at(const u32* words, u32 at) { return align_bytes(words[at >> 2], words[(at >> 2) + 1], at); }     // any byte address

// Four bytes of a bitmap by their flags: a flagged byte is the next kept one, another repeats the byte before (0 before the first).
// `kept`: address of the kept bytes, of which `rank` come before these four.
PFPL_FN u32 repeat_bytes(const DecodeShared& s, u32 flags, u32 kept, u32 rank) {
  const u32 at = kept + (rank ? rank - 1 : 0), low = s.words[at >> 2], high = s.words[(at >> 2) + 1];
  return permute_bytes(align_bytes(low, high, at), align_bytes(high, 0, at), s.runs[flags + (rank ? 0 : 16)]);
}
// Of the bytes from the running one on; where there is none, of the bytes to come.
PFPL_FN u32 repeat_selector(u32 flags, bool none) {
  u32 selector = 0, n = 0;
  for (u32 b = 0; b < 4; b++) { n += flags >> b & 1; selector |= (!none ? n : n ? n - 1 : ZERO_BYTE) << 8 * b; }
  return selector;
}

// ---------------------------------------------------------------- codes of a run (FORMAT.md, decoding)
// r: rows of the transpose; then the thread's codes, summed within the thread, as 32-bit words in order.
PFPL_FN u32 sum_words(u32* r, float, u32) {
  using E = Element<float>;
  u32 sum = 0;
  PFPL_UNROLL for (u32 i = 0; i < RUN / 2; i++) { const u32 a = r[i]; r[i] = r[RUN - 1 - i]; r[RUN - 1 - i] = a; }
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) r[e] = sum += (r[e] ^ E::NEGABINARY) - E::NEGABINARY;
  return sum;
}
PFPL_FN u64 sum_words(u32* r, double, u32 thread) {
  using E = Element<double>;
  const bool odd = thread & 1;
  u64 sum = 0, c[RUN / 2];
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) {
    const u32 own = r[RUN - 1 - e], other = shuffle_xor<1>(r[RUN / 2 - 1 - e]);      // what the partner holds of this thread's element
    const u64 w = odd ? (u64)other << 32 | own : (u64)own << 32 | other;
    c[e] = sum += (w ^ E::NEGABINARY) - E::NEGABINARY;
  }
  PFPL_UNROLL for (u32 e = 0; e < RUN / 2; e++) { r[2 * e] = (u32)c[e]; r[2 * e + 1] = (u32)(c[e] >> 32); }
  return sum;
}
PFPL_FN void values_of(u32* r, u32 before, float eb2) {
  PFPL_UNROLL for (u32 e = 0; e < RUN; e++) r[e] = bits_of(dequantize<float>(r[e] + before, eb2));
}
PFPL_FN void values_of(u32* r, u64 before, double eb2) {
  PFPL_UNROLL for (u32 e = 0; e < RUN; e += 2) {
    const u64 v = bits_of(dequantize<double>(((u64)r[e + 1] << 32 | r[e]) + before, eb2));
    r[e] = (u32)v; r[e + 1] = (u32)(v >> 32);
  }
}
// Values of a wave's part of the chunk from shared memory to the field; of the chunk, values from .. to - 1 are wanted, the first at `at`.
template <class Value> PFPL_FN void store_values(const u32* words, u32 unit, u64 at, u32 from, u32 to, u32 lane, u32 wave) {
  const bool whole = from == 0 && to == Element<Value>::CODES;
  const u64 base = at - (u64)from * sizeof(Value);                         // of the chunk's value 0, wanted or not
  PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) {
    const Words4 v = *(const Words4*)(words + unit + i * WAVE * 4);
    const u32 w = (wave * WAVE_UNITS + i * WAVE + lane) * 4;
    if (whole) store_unit(base + 4 * w, v);
    else {
      const u32 low = from * (sizeof(Value) / 4), high = to * (sizeof(Value) / 4), part[4] = {v.x, v.y, v.z, v.w};
      PFPL_UNROLL for (u32 k = 0; k < 4; k++) if (w + k >= low && w + k < high) store_word(base + 4 * (w + k), part[k]);
    }
  }
}

// ---------------------------------------------------------------- the kernel
template <class Value> PFPL_FN void decode(LaunchPointer launch, FieldPointer<DecodeField> fields, DecodeShared& s) {
  using E = Element<Value>;
  using Code = typename E::Code;
  u32 thread = thread_index(), lane = lane_index(), wave = uniform(thread / WAVE);
  const u32 blocks = grid_blocks(THREADS);
  if (thread < 16) s.table[thread] = expansion(thread);
  if (thread < 32) s.runs[thread] = repeat_selector(thread & 15, thread >= 16);

  // Fields of which no chunk is wanted have a verdict too.
  for (u64 i = (u64)block_index() * THREADS + thread; i < launch->fields; i += (u64)blocks * THREADS)
    if (fields[i].count == 0) {
      const Layout l = read_header<Value>(words_at(fields[i].stream), fields[i].bytes, fields[i].n);
      store_outcome(fields[i].outcome, l.status == OK ? NO_VERDICT : verdict(l.status, NO_CHUNK), l.end);
    }

  const Place<Value> place(thread, true);
  const u32 run = swizzle(RUN * thread), unit = swizzle(4 * (wave * WAVE_UNITS + lane));
  FieldPointer<DecodeField> f = fields;
  u32 field = 0, next_first = 0;                // next_first: the first chunk behind the field's
  Layout layout{};
  u64 found = NO_VERDICT; u32 arrived = 0;      // what this block has to report of the field

  // Reports to the field's state; the last block to do so knows the outcome, and leaves the state as it was.
  const auto report = [&] {
    if (thread == 0 && arrived) {
      const u64 state = field_state(launch, field);
      u64 done;
      if (found != NO_VERDICT) { fetch_max(state + 8, ~found); done = fetch_add_ordered(state, arrived); }
      else done = fetch_add(state, arrived);
      if (done + arrived == chunks_touched<Value>(f->first, f->count).count) {
        fence_acquire();
        store_outcome(f->outcome, ~load_relaxed(state + 8), layout.end);
        store_relaxed(state, 0); store_relaxed(state + 8, 0);
      }
    }
    found = NO_VERDICT; arrived = 0;
  };

  // The block's next chunk: its number within the field, and where it is.
  u32 chunk = block_index();
  u64 index = 0, offset = 0;                    // offset: from the stream's start
  u32 entry = 0;
  u64 at = 0;                                   // the field's chunk that `offset` belongs to while the table is summed
  const auto sum_table = [&] {                  // moves to `chunk`; the sizes in between go to s.sums
    if (chunk >= next_first) {
      report();
      field = find_field<DecodeField>(fields, launch->fields, chunk, lane);
      f = fields + field;
      next_first = field + 1 < launch->fields ? fields[field + 1].first_chunk : launch->chunks;
      const Layout l = read_header<Value>(words_at(f->stream), f->bytes, f->n);
      layout.payload = uniform(l.payload); layout.table = uniform(l.table); layout.end = uniform(l.end);
      layout.status = uniform(l.status); layout.bound = value_of(uniform(bits_of(l.bound)));
      if (layout.status != OK) found = verdict(layout.status, NO_CHUNK);
      at = 0; offset = layout.payload;
    }
    index = chunk - f->first_chunk + f->first / E::CODES;
    u64 sum = 0;
    bool bad = false;
    if (layout.status == OK) {
      const u64 table = f->stream + layout.table;
      for (u64 i = at + thread; i < index; i += THREADS) {
        const u32 e = load_word(table + 4 * i);
        bad |= bad_entry(e);
        sum += e & ~RAW_FLAG;
      }
      entry = uniform(load_word(table + 4 * index));
    }
    at = index;
    sum = wave_sum(sum);
    bad = any(bad);
    if (lane == 0) s.sums[wave] = sum + (bad ? BAD_ENTRY : 0);
  };
  bool ok = false; u32 length = 0;
  Coded coded;
  const auto request = [&] {                    // after a barrier: `offset` is the chunk's; its bytes are requested
    const u64 sum = sum_all(s.sums);
    length = entry & ~RAW_FLAG;
    ok = layout.status == OK;
    const bool bad = sum >= BAD_ENTRY;          // found by the block that decodes that chunk, if one does
    offset += sum & (BAD_ENTRY - 1);
    if (ok && (bad || offset > layout.end) && index == f->first / E::CODES)
      found = smaller(found, verdict(BAD_TABLE, first_bad(f->stream + layout.table, index, layout.end - layout.payload, lane)));
    ok = ok && !bad;
    if (ok && (bad_entry(entry) || offset > layout.end || length > layout.end - offset)) { ok = false; found = smaller(found, verdict(BAD_TABLE, (u32)index)); }
    if (ok) coded = load_coded(f->stream + (offset & ~3ull), length + (offset & 3), layout.end - (offset & ~3ull), thread);
  };
  if (chunk < launch->chunks) {
    sum_table();
    barrier();
    request();
  }

  while (chunk < launch->chunks) {
    thread = opaque(thread); lane = opaque(lane); wave = opaque_uniform(wave);     // masks made of them are cheaper to make again than to keep
    // `sum_table` and `request` move on to the next chunk while this one is decoded: what belongs to this one
    const bool good = ok, raw = entry >> 31;
    const u32 e0 = offset & 3, e1 = e0 + length;                           // the chunk is bytes e0 .. e1 - 1 of s.words
    const FieldPointer<DecodeField> here = f;
    const Value eb2 = 2 * (Value)layout.bound;
    const u64 number = index;
    if (good) {
      PFPL_UNROLL for (u32 i = 0; i < UNITS; i++) if (16 * (thread + i * THREADS) < e1) *(Words4*)(s.words + 4 * (thread + i * THREADS)) = coded.unit[i];
      if (thread == 0 && e1 > CHUNK_BYTES) s.words[CHUNK_WORDS] = coded.last;
    }
    barrier();                                  // 0: coded bytes here

    // Levels 4, 3 and 2, from the chunk's end; `end` is where the part not yet explained ends.
    bool intact = good, some = false;           // some: a chunk with nonzero bytes
    u32 end = e1, kept = 0;                     // kept: the thread's level-2 byte, flags of its 8 bitmap bytes
    if (good && !raw) {
      intact = (word_at(s.words, e1 - 2) & 0xffff) == CHUNK_BYTES;
      some = intact && length > EMPTY_CHUNK_BYTES;
    }
    intact = uniform((u32)intact); some = uniform((u32)some);
    if (some) {
      const u32 flags3 = uniform(word_at(s.words, e1 - 6)), i = lane & 31;
      end = e1 - 6;
      u32 n = popcount(flags3);
      if (n > end - e0) intact = some = false;
      else {
        end -= n;
        const u32 rank = popcount(flags3 & (2u << i) - 1);
        const u32 level3 = rank && lane < 32 ? byte_at(s.words, end + rank - 1) : 0;
        const u32 sums = warp_scan(popcount(level3));
        n = lane_value(sums, WAVE - 1);
        if (n > end - e0) intact = some = false;
        else {
          end -= n;
          const bool flag = shuffle(level3, thread >> 3) >> (thread & 7) & 1;
          const u32 before = wave ? lane_value(sums, wave * (WAVE / 8) - 1) : 0;
          const u32 rank2 = before + lanes_below(ballot(flag)) + flag;
          if (rank2) kept = byte_at(s.words, end + rank2 - 1);
        }
      }
    }
    const u32 sums2 = warp_scan(popcount(kept));
    if (lane == WAVE - 1) s.counts2[wave] = sums2;
    const u32 next = chunk + blocks;
    const bool more = next > chunk && next < launch->chunks;
    chunk = more ? next : launch->chunks;
    if (!intact && good) found = smaller(found, verdict(CORRUPT_CHUNK, (u32)number));
    barrier();                                  // 1: level-2 counts here

    u32 flags[2] = {0, 0};
    if (some) {
      const Sums counts = sums_of_waves(s.counts2, lane, wave);
      if (counts.total > end - e0) intact = some = false;
      else {
        end -= counts.total;
        const u32 low = kept & 15;
        u32 rank = counts.before + sums2 - popcount(kept);
        flags[0] = repeat_bytes(s, low, end, rank);
        rank += popcount(low);
        flags[1] = repeat_bytes(s, kept >> 4, end, rank);
      }
    }
    const u32 count = popcount(flags[0]) + popcount(flags[1]), sums1 = warp_scan(count);
    if (lane == WAVE - 1) s.counts[wave] = sums1;
    barrier();                                  // 2: level-1 counts here

    u32 r[RUN];
    PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = 0;
    if (some) {
      const Sums counts = sums_of_waves(s.counts, lane, wave);
      if (counts.total != end - e0) intact = some = false;
      else {
        u32 position = e0 + counts.before + sums1 - count;
        PFPL_UNROLL for (u32 g = 0; g < 2; g++)
          if (any(flags[g] != 0)) {
            Spread spread[8];
            read_entries(s.table, flags[g], spread);
            PFPL_UNROLL for (u32 k = 0; k < 8; k++) {
              r[8 * g + k] = permute_bytes(word_at(s.words, position), 0, spread[k].selector);
              position += spread[k].advance;
            }
          }
      }
    } else if (good && raw) {
      PFPL_UNROLL for (u32 k = 0; k < RUN; k++) r[k] = word_at(s.words, e0 + 4 * (RUN * thread + k));
    }
    const u32 own_parts = (raw && good) || any((flags[0] | flags[1]) != 0) ? 1u << (wave * 4 / WAVES) : 0;
    if (lane == 0) s.parts[wave] = own_parts;
    if (good && !raw && !intact) found = smaller(found, verdict(CORRUPT_CHUNK, (u32)number));
    arrived++;
    barrier();                                  // 3: coded bytes all read

    const bool half = !(or_all(s.parts) & Parts<Value>::UPPER);
    if (!half || !has_part(Parts<Value>::UPPER, wave)) write_run(s.words, run, r);
    if (more) sum_table();
    barrier();                                  // 4: planes complete
    if (more) request();

    if (half) PFPL_UNROLL for (u32 j = 0; j < 8; j++) r[j] = s.words[place.half_word(j)];
    else PFPL_UNROLL for (u32 j = 0; j < RUN; j++) r[j] = s.words[place.word(j)];
    words_of_planes(r, place, half);
    const Code total = sum_words(r, Value(), thread), sums = warp_scan(total);
    if (lane == WAVE - 1) s.totals[wave] = sums;
    barrier();                                  // 5: sums here, planes all read
    Code before = sums - total;
    PFPL_UNROLL for (u32 w = 0; w + 1 < WAVES; w++) before += w < wave ? (Code)s.totals[w] : 0;
    values_of(r, before, eb2);
    write_run(s.words, run, r);
    warp_barrier();
    const u64 start = number * E::CODES, first = here->first, last = first + here->count;
    const u32 from = start < first ? (u32)(first - start) : 0, to = last - start < E::CODES ? (u32)(last - start) : E::CODES;
    if (good && intact) store_values<Value>(s.words, unit, here->field + (start + from - first) * sizeof(Value), from, to, lane, wave);
    barrier();                                  // 6: shared memory free
  }
  report();
}

}  // namespace pfpl

namespace pfpl {
constexpr u32 MAX_FIELDS = 62;
template <class Field> struct Fields { Field field[MAX_FIELDS]; };
}  // namespace pfpl
using namespace pfpl;

PFPL_KERNEL(pfpl_encode_f32, THREADS, 3)(Launch launch, Fields<EncodeField> list) {
  PFPL_SHARED(EncodeShared, shared);
  encode<float>(launch_of(launch), fields_of<EncodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_encode_f64, THREADS, 3)(Launch launch, Fields<EncodeField> list) {
  PFPL_SHARED(EncodeShared, shared);
  encode<double>(launch_of(launch), fields_of<EncodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_decode_f32, THREADS, 3)(Launch launch, Fields<DecodeField> list) {
  PFPL_SHARED(DecodeShared, shared);
  decode<float>(launch_of(launch), fields_of<DecodeField>(launch_of(launch), list), shared);
}
PFPL_KERNEL(pfpl_decode_f64, THREADS, 3)(Launch launch, Fields<DecodeField> list) {
  PFPL_SHARED(DecodeShared, shared);
  decode<double>(launch_of(launch), fields_of<DecodeField>(launch_of(launch), list), shared);
}
