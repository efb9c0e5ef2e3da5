// Forwards the instrumentation's hooks and the primitives of executor.h to the executor.  Compiled without instrumentation.
#include "executor.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define PC __builtin_return_address(0)

namespace {
struct Hooks {                                   // the same fields in src/hooks.rs
  void (*access)(const void*, uint64_t, uint32_t, const void*);
  uint32_t (*index)(uint32_t);
  void* (*shared)(const void*, uint64_t);
  uint64_t (*barrier)(uint32_t, uint64_t, const void*);
  uint64_t (*collective)(uint32_t, uint64_t, uint32_t, const void*);
  uint64_t (*load)(const void*, uint32_t, uint32_t, const void*);
  void (*store)(void*, uint32_t, uint64_t, uint32_t, const void*);
  uint64_t (*update)(void*, uint32_t, uint32_t, uint64_t, uint64_t, uint32_t, const void*);
  void (*fence)(uint32_t);
  void (*copy)(void*, const void*, uint32_t, uint32_t, const void*);
  void (*copy_wait)(const void*);
  void (*await)();
  void (*pause)();
  void (*fail)(const char*, uint64_t, const void*);
} hooks;
enum Access : uint32_t { READ, WRITE };
}  // namespace

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start, _end;
EXPORT void lanes_bind(const Hooks* table) { hooks = *table; }
EXPORT void lanes_extent(const void** range) { range[0] = &__ehdr_start; range[1] = &_end; }
EXPORT uint32_t lanes_width() { return LANES_WIDTH; }

extern "C" {
uint32_t lanes_thread() { return hooks.index(0); }
uint32_t lanes_threads() { return hooks.index(1); }
uint32_t lanes_block() { return hooks.index(2); }
uint32_t lanes_blocks() { return hooks.index(3); }
void* lanes_shared(const void* key, uint64_t bytes) { return hooks.shared(key, bytes); }
uint64_t lanes_barrier(uint32_t op, uint64_t value) { return hooks.barrier(op, value, PC); }
uint64_t lanes_collective(uint32_t op, uint64_t value, uint32_t source) { return hooks.collective(op, value, source, PC); }
void lanes_warp_barrier() { hooks.collective(lanes::NONE, 0, 0, PC); }
uint64_t lanes_load(const void* p, uint32_t bytes, uint32_t order) { return hooks.load(p, bytes, order, PC); }
void lanes_store(void* p, uint32_t bytes, uint64_t value, uint32_t order) { hooks.store(p, bytes, value, order, PC); }
uint64_t lanes_update(void* p, uint32_t bytes, uint32_t op, uint64_t value, uint64_t expected, uint32_t order) { return hooks.update(p, bytes, op, value, expected, order, PC); }
void lanes_fence(uint32_t order) { hooks.fence(order); }
void lanes_copy(void* shared, const void* global, uint32_t bytes, uint32_t given) { hooks.copy(shared, global, bytes, given, PC); }
void lanes_copy_wait() { hooks.copy_wait(PC); }
void lanes_await() { hooks.await(); }
void lanes_pause() { hooks.pause(); }
void lanes_fail(const char* what, uint64_t value) { hooks.fail(what, value, PC); }

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define SIZE(n) \
  void __tsan_read##n(void* p) { hooks.access(p, n, READ, PC); } \
  void __tsan_write##n(void* p) { hooks.access(p, n, WRITE, PC); } \
  void __tsan_unaligned_read##n(void* p) { hooks.access(p, n, READ, PC); } \
  void __tsan_unaligned_write##n(void* p) { hooks.access(p, n, WRITE, PC); } \
  void __tsan_volatile_read##n(void* p) { hooks.access(p, n, READ, PC); } \
  void __tsan_volatile_write##n(void* p) { hooks.access(p, n, WRITE, PC); }
SIZE(1) SIZE(2) SIZE(4) SIZE(8) SIZE(16)
void __tsan_read_range(void* p, uint64_t bytes) { hooks.access(p, bytes, READ, PC); }
void __tsan_write_range(void* p, uint64_t bytes) { hooks.access(p, bytes, WRITE, PC); }
// clang's forms of the memory functions
void* __tsan_memcpy(void* d, const void* s, uint64_t n) { hooks.access(s, n, READ, PC); hooks.access(d, n, WRITE, PC); return memcpy(d, s, n); }
void* __tsan_memmove(void* d, const void* s, uint64_t n) { hooks.access(s, n, READ, PC); hooks.access(d, n, WRITE, PC); return memmove(d, s, n); }
void* __tsan_memset(void* d, int v, uint64_t n) { hooks.access(d, n, WRITE, PC); return memset(d, v, n); }
// -fsanitize=alignment,bounds,shift-exponent
void __ubsan_handle_type_mismatch_v1(void*, void* p) { hooks.fail("undefined behaviour: misaligned address", (uint64_t)p, PC); }
void __ubsan_handle_out_of_bounds(void*, void* index) { hooks.fail("undefined behaviour: index outside an array", (uint64_t)index, PC); }
void __ubsan_handle_shift_out_of_bounds(void*, void*, void* by) { hooks.fail("undefined behaviour: shift by too much", (uint64_t)by, PC); }
}
