// What a kernel source needs to run lane by lane on the CPU: every call suspends the lane's fiber or reports to the executor.
// Plain loads and stores report themselves: the sources are compiled with the instrumentation of -fsanitize=thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

extern "C" {
uint32_t lanes_thread();                         // index of the lane in its block
uint32_t lanes_threads();                        // lanes of a block
uint32_t lanes_block();
uint32_t lanes_blocks();
void* lanes_shared(const void* key, uint64_t bytes);      // one allocation a key and block; key 0: the launch's dynamic part
uint64_t lanes_barrier(uint32_t op, uint64_t value);      // all lanes of the block; the result of `op` over their values
uint64_t lanes_collective(uint32_t op, uint64_t value, uint32_t source);   // all lanes of the warp; orders no memory
void lanes_warp_barrier();                       // all lanes of the warp; orders memory
uint64_t lanes_load(const void* p, uint32_t bytes, uint32_t order);
void lanes_store(void* p, uint32_t bytes, uint64_t value, uint32_t order);
uint64_t lanes_update(void* p, uint32_t bytes, uint32_t op, uint64_t value, uint64_t expected, uint32_t order);
void lanes_fence(uint32_t order);
void lanes_copy(void* shared, const void* global, uint32_t bytes, uint32_t given);   // asynchronous; given..bytes become zero
void lanes_copy_wait();                          // until this lane's copies are complete
void lanes_await();                              // before it, no access to global memory: what a launch that may begin early must wait for
void lanes_pause();                              // another lane may run
void lanes_fail(const char* what, uint64_t value);        // a fault
}

namespace lanes {
enum Order : uint32_t { RELAXED = 0, ACQUIRE = 1, RELEASE = 2, ACQ_REL = 3 };
enum Op : uint32_t { NONE, BALLOT, SHUFFLE, SCAN, ADD, MIN, MAX, AND, OR, XOR, EXCHANGE, COMPARE_EXCHANGE };

// Calls a kernel with arguments laid out one after the other, each at its alignment, as a launch passes them.
template <class... A, size_t... I> void call(void (*kernel)(A...), const unsigned char* arguments, std::index_sequence<I...>) {
  size_t offsets[sizeof...(A) + 1] = {}, at = 0, k = 0;
  ((at = (at + alignof(A) - 1) / alignof(A) * alignof(A), offsets[k++] = at, at += sizeof(A)), ...);
  kernel(*(const std::remove_reference_t<A>*)(arguments + offsets[I])...);
}
template <class... A> void call(void (*kernel)(A...), const unsigned char* arguments) {
  call(kernel, arguments, std::index_sequence_for<A...>{});
}
}  // namespace lanes

// Makes `kernel` known to the executor under `name`.
#define LANES_EXPORT(name, ...) \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) void lanes_kernel_##name(const unsigned char* arguments) { lanes::call(__VA_ARGS__, arguments); }
// Launches of these kernels may begin early: each lane calls lanes_await() before it accesses global memory.
#define LANES_EARLY extern "C" __attribute__((visibility("default"))) const unsigned lanes_early = 1;
// Tells how many lanes a block of `kernel` has.
#define LANES_THREADS(kernel, count) \
  extern "C" { extern __attribute__((visibility("default"))) const unsigned lanes_threads_##kernel; const unsigned lanes_threads_##kernel = count; }
