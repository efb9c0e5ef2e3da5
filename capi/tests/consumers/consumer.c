/* A C11 program against the installed library: a round trip of each type, a range, a size query, and arguments that make no sense. */
#include <math.h>
#include <pfpl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef NDEBUG
#include <assert.h>

enum { N = 100000 };

static void round_trip(uint32_t element, void *field, void *restored, double bound, pfpl_pool *pool) {
  uint64_t needed = 0, written = 0, consumed = 0;
  assert(pfpl_compress_into(element, field, N, bound, NULL, 0, &needed, pool) == PFPL_OVERFLOW);
  assert(needed > 24 && needed <= pfpl_max_stream_bytes(element, N));
  void *stream = malloc(needed);
  assert(pfpl_compress_into(element, field, N, bound, stream, needed, &written, pool) == PFPL_OK && written == needed);
  assert(pfpl_decompress(element, stream, needed, restored, N, &consumed, NULL, pool) == PFPL_OK && consumed == needed);

  void *allocated = NULL;
  uint64_t length = 0;
  assert(pfpl_compress(element, field, N, bound, &allocated, &length, NULL) == PFPL_OK);
  assert(length == needed && memcmp(allocated, stream, needed) == 0);
  pfpl_free(allocated, length);

  pfpl_header header;
  assert(pfpl_read_header(stream, 32, &header) == PFPL_OK);
  assert(header.n == N && header.element == element && header.stream_bytes == needed && header.bound <= bound);
  uint64_t stream_bytes = 0;
  assert(pfpl_stream_bytes(stream, needed, &stream_bytes) == PFPL_OK && stream_bytes == needed);

  char part[8 * 100];
  assert(pfpl_decompress_range(element, stream, needed, 54321, part, 100, NULL, NULL) == PFPL_OK);
  assert(memcmp(part, (char *)restored + 54321 * element, 100 * element) == 0);
  assert(pfpl_decompress_range(element, stream, needed, N, part, 1, NULL, NULL) == PFPL_WRONG_COUNT);

  pfpl_damage damage;
  assert(pfpl_decompress(element, stream, needed - 1, restored, N, NULL, &damage, NULL) == PFPL_TRUNCATED && damage.chunk == UINT64_MAX);
  memset((char *)stream + 24 + 4 * 3, 0xff, 4);
  assert(pfpl_decompress(element, stream, needed, restored, N, NULL, &damage, pool) == PFPL_BAD_TABLE && damage.chunk == 3);
  assert(pfpl_decompress(element == PFPL_F32 ? PFPL_F64 : PFPL_F32, stream, needed, restored, N / 2, NULL, NULL, NULL) == PFPL_WRONG_TYPE);
  assert(pfpl_decompress(element, stream, needed, restored, N - 1, NULL, NULL, NULL) == PFPL_WRONG_COUNT);
  free(stream);
}

static void nonsense(void) {
  static float field[64];
  static char stream[20000];
  uint64_t bytes = 0;
  pfpl_header header;
  assert(pfpl_compress_into(PFPL_F32, NULL, 64, 1, stream, sizeof stream, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(PFPL_F32, (char *)field + 1, 63, 1, stream, sizeof stream, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(PFPL_F32, field, 64, 1, NULL, sizeof stream, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(PFPL_F32, field, 64, 1, stream, sizeof stream, NULL, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(PFPL_F32, field, 64, 1, (char *)field + 200, 100, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(7, field, 64, 1, stream, sizeof stream, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_compress_into(PFPL_F32, field, UINT64_MAX / 2, 1, stream, sizeof stream, &bytes, NULL) == PFPL_INVALID_ARGUMENT);
  const double unusable[] = {0, -1, NAN, INFINITY, 1e-40, 1e39};
  for (size_t i = 0; i < sizeof unusable / sizeof *unusable; i++)
    assert(pfpl_compress_into(PFPL_F32, field, 64, unusable[i], stream, sizeof stream, &bytes, NULL) == PFPL_INVALID_BOUND);
  assert(pfpl_decompress(PFPL_F32, NULL, 100, field, 64, NULL, NULL, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_decompress(PFPL_F32, stream, UINT64_MAX, field, 64, NULL, NULL, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_decompress(PFPL_F32, stream, 10, field, 64, NULL, NULL, NULL) == PFPL_NOT_A_STREAM);
  assert(pfpl_read_header(stream, sizeof stream, NULL) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_read_header(NULL, 0, &header) == PFPL_NOT_A_STREAM);
  assert(pfpl_pool_new(1, NULL) == PFPL_INVALID_ARGUMENT);
  pfpl_pool_free(NULL);
  pfpl_free(NULL, 10);
  assert(pfpl_max_stream_bytes(7, 1) == 0 && pfpl_max_stream_bytes(PFPL_F64, UINT64_MAX) > UINT64_MAX / 2);
  assert(strcmp(pfpl_status_string(PFPL_BAD_TABLE), "bad table") == 0 && strcmp(pfpl_status_string(-5), "unknown status") == 0);
  assert(pfpl_power_of_two_bound(0.3) == 0.25 && isnan(pfpl_power_of_two_bound(-1)));
}

/* No context is current here, so that no plan comes of it, whatever the machine has. */
static void devices(void) {
  pfpl_plan *plan = NULL;
  char message[200] = "";
  pfpl_capacity capacity = pfpl_capacity_of(PFPL_F64, 5000);
  assert(capacity.fields == 1 && capacity.chunks == 3);
  for (uint32_t backend = PFPL_CUDA; backend <= PFPL_HIP; backend++) {
    assert(pfpl_plan_new(backend, NULL, 999, NULL, capacity, &plan, message, sizeof message) == PFPL_NO_DEVICE ||
           pfpl_plan_new(backend, NULL, 999, NULL, capacity, &plan, NULL, 0) == PFPL_DEVICE_ERROR);
    assert(plan == NULL);
    printf("C: no plan: %s\n", message);
  }
  assert(pfpl_plan_new(3, NULL, 0, NULL, capacity, &plan, NULL, 0) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_plan_new(PFPL_CUDA, NULL, 0, NULL, capacity, NULL, NULL, 0) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_plan_new(PFPL_CUDA, NULL, 0, NULL, capacity, &plan, message, 5) != PFPL_OK && strlen(message) < 5);
  assert(pfpl_plan_reserve(NULL, capacity) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_plan_compress(NULL, NULL, NULL, 0) == PFPL_INVALID_ARGUMENT);
  assert(pfpl_plan_decompress(NULL, NULL, NULL, 0) == PFPL_INVALID_ARGUMENT);
  pfpl_plan_free(NULL);
}

int main(void) {
  float *f = malloc(N * sizeof *f), *fr = malloc(N * sizeof *fr);
  double *d = malloc(N * sizeof *d), *dr = malloc(N * sizeof *dr);
  for (int i = 0; i < N; i++) f[i] = (float)(d[i] = 0.5 * sin(i * 1e-3));
  pfpl_pool *pool = NULL;
  assert(pfpl_pool_new(2, &pool) == PFPL_OK);
  round_trip(PFPL_F32, f, fr, 1e-4, pool);
  round_trip(PFPL_F64, d, dr, 1e-9, NULL);
  pfpl_pool_free(pool);
  nonsense();
  devices();
  free(f), free(fr), free(d), free(dr);
  printf("C: pfpl %s, format %u\n", pfpl_version_string(), pfpl_format_version());
  return 0;
}
