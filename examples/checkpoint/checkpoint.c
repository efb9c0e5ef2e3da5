/* The core of the checkpoint example in C: fields on the CPU, streams of libpfpl, one HDF5 file with H5Dwrite_chunk, written beside its
 * place, synced and renamed; then read back and compared.  On a GPU, pfpl_plan_compress takes the place of pfpl_compress_into: all fields in
 * one call, outcomes in device memory, and the streams copied once the outcomes are.
 *
 *     cc -std=c11 checkpoint.c $(pkg-config --cflags --libs pfpl hdf5) -lm -o checkpoint && ./checkpoint FOLDER
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <pfpl.h>
#include <pfpl_hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIELDS = 6, SIDE = 200, N = SIDE * SIDE, STEPS = 20 };
static const double BOUND = 1e-3;

static void fail(const char *what) {
  fprintf(stderr, "checkpoint: %s\n", what);
  exit(1);
}

static void step(const double *old, double *new) {
  for (int i = 0; i < N; i++) {
    const int row = i / SIDE, column = i % SIDE;
    const int rim = row == 0 || column == 0 || row == SIDE - 1 || column == SIDE - 1;
    new[i] = rim ? old[i] : old[i] + 0.2 * ((old[i - 1] + old[i + 1]) + (old[i - SIDE] + old[i + SIDE]) - 4 * old[i]);
  }
}

/* One dataset whose one chunk is the stream.  Optional, so that writing does not need the plugin; readers do. */
static void put(hid_t file, const char *name, const void *stream, size_t bytes) {
  const hsize_t n = N, offset = 0;
  unsigned values[PFPL_HDF5_VALUES];
  pfpl_hdf5_values(PFPL_HDF5_EXACT, BOUND, values);
  hid_t space = H5Screate_simple(1, &n, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plist, 1, &n);
  H5Pset_filter(plist, PFPL_HDF5_FILTER_ID, H5Z_FLAG_OPTIONAL, PFPL_HDF5_VALUES, values);
  hid_t dataset = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  if (dataset < 0 || H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &offset, bytes, stream) < 0) fail("HDF5 refused a dataset");
  H5Dclose(dataset), H5Pclose(plist), H5Sclose(space);
}

static void sync_path(const char *path) {
  const int file = open(path, O_RDONLY);
  if (file < 0 || fsync(file) != 0 || close(file) != 0) fail("cannot sync");
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : ".";
  char place[4096], beside[4096];
  snprintf(place, sizeof place, "%s/checkpoint.h5", folder);
  snprintf(beside, sizeof beside, "%s/.checkpoint.h5.part", folder);

  static double fields[FIELDS][N], next[N], restored[N];
  for (int f = 0; f < FIELDS; f++) {
    for (int i = 0; i < N; i++) fields[f][i] = 10 * sin((f + 1) * 0.03 * (i % SIDE)) * cos(0.05 * (i / SIDE));
    for (int s = 0; s < STEPS; s++) step(fields[f], next), memcpy(fields[f], next, sizeof next);
  }

  const uint64_t room = pfpl_max_stream_bytes(PFPL_F64, N);
  void *stream = malloc(room);
  uint64_t total = 0;
  hid_t file = H5Fcreate(beside, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (!stream || file < 0) fail("cannot make the file");
  for (int f = 0; f < FIELDS; f++) {
    char name[32];
    uint64_t bytes = 0;
    const pfpl_status status = pfpl_compress_into(PFPL_F64, fields[f], N, BOUND, stream, room, &bytes, NULL);
    if (status != PFPL_OK) fail(pfpl_status_string(status));
    snprintf(name, sizeof name, "field_%d", f);
    put(file, name, stream, bytes);
    total += bytes;
  }
  if (H5Fclose(file) < 0) fail("cannot close the file");
  sync_path(beside);
  if (rename(beside, place) != 0) fail("cannot rename");
  sync_path(folder);

  file = H5Fopen(place, H5F_ACC_RDONLY, H5P_DEFAULT);
  double largest = 0;
  for (int f = 0; f < FIELDS; f++) {
    char name[32];
    snprintf(name, sizeof name, "field_%d", f);
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hsize_t offset = 0;
    hsize_t bytes = 0;
    uint32_t mask = 0;
    if (H5Dget_chunk_storage_size(dataset, &offset, &bytes) < 0 || bytes > room || H5Dread_chunk(dataset, H5P_DEFAULT, &offset, &mask, stream) < 0)
      fail("cannot read a dataset");
    const pfpl_status status = pfpl_decompress(PFPL_F64, stream, bytes, restored, N, NULL, NULL, NULL);
    if (status != PFPL_OK) fail(pfpl_status_string(status));
    for (int i = 0; i < N; i++) largest = fmax(largest, fabs(restored[i] - fields[f][i]));
    H5Dclose(dataset);
  }
  H5Fclose(file);
  free(stream);
  printf("%d fields of %d values in %llu bytes, largest error %g\n", FIELDS, N, (unsigned long long)total, largest);
  return largest <= BOUND ? 0 : 1;
}
