/* The HDF5 filter of pfpl, as a dynamic plugin: a chunk of a float or double dataset becomes one PFPL stream.  Streams say all that a
 * reader needs, so that reading looks at no client data, and a stream made elsewhere can be put into a file with H5Dwrite_chunk. */
#include <H5PLextern.h>
#include <hdf5.h>
#include <pfpl.h>

#include "pfpl_hdf5.h"

/* Client data that the filter adds to what the application gave. */
enum { ELEMENT_BYTES = PFPL_HDF5_VALUES, CHUNK_VALUES, ALL_VALUES };

/* Refuses with a message on HDF5's error stack. */
#define REFUSE(RESULT, ...) \
  return H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_PLINE, H5E_CANTFILTER, "pfpl: " __VA_ARGS__), (RESULT)

static double bound_of(const unsigned values[]) {
  const uint64_t bits = (uint64_t)values[2] << 32 | values[1];
  double bound;
  memcpy(&bound, &bits, sizeof bound);
  return values[0] == PFPL_HDF5_POWER2 ? pfpl_power_of_two_bound(bound) : bound;
}

/* Bytes of the element where streams can hold it, else 0. */
static unsigned element_bytes(hid_t type) {
  if (H5Tequal(type, H5T_IEEE_F32LE) > 0) return PFPL_F32;
  if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return PFPL_F64;
  return 0;
}

/* A negative result, unlike 0, refuses the dataset even where the filter was asked for as optional. */
static htri_t can_apply(hid_t dcpl, hid_t type, hid_t space) {
  unsigned flags, values[PFPL_HDF5_VALUES + 1] = {0};
  size_t count = PFPL_HDF5_VALUES + 1;
  uint64_t needed;
  (void)space;
  if (!element_bytes(type)) REFUSE(-1, "the dataset's type is neither little-endian float32 nor float64");
  if (H5Pget_filter_by_id2(dcpl, PFPL_HDF5_FILTER_ID, &flags, &count, values, 0, NULL, NULL) < 0) return -1;
  if (count < PFPL_HDF5_VALUES) REFUSE(-1, "give mode and bound as %d client data values", PFPL_HDF5_VALUES);
  if (values[0] != PFPL_HDF5_EXACT && values[0] != PFPL_HDF5_POWER2) REFUSE(-1, "unknown mode %u", values[0]);
  if (pfpl_compress_into(PFPL_F32, NULL, 0, bound_of(values), NULL, 0, &needed, NULL) == PFPL_INVALID_BOUND)
    REFUSE(-1, "the bound %g is not usable", bound_of(values));
  return 1;
}

static herr_t set_local(hid_t dcpl, hid_t type, hid_t space) {
  unsigned flags, values[ALL_VALUES] = {0};
  size_t count = ALL_VALUES;
  hsize_t lengths[H5S_MAX_RANK];
  (void)space;
  if (H5Pget_filter_by_id2(dcpl, PFPL_HDF5_FILTER_ID, &flags, &count, values, 0, NULL, NULL) < 0) return -1;
  const int rank = H5Pget_chunk(dcpl, H5S_MAX_RANK, lengths);
  if (rank < 0) return -1;
  values[ELEMENT_BYTES] = element_bytes(type);
  values[CHUNK_VALUES] = 1;
  for (int axis = 0; axis < rank; ++axis) values[CHUNK_VALUES] *= (unsigned)lengths[axis]; /* HDF5 has no chunk of 4 GiB */
  return H5Pmodify_filter(dcpl, PFPL_HDF5_FILTER_ID, flags, ALL_VALUES, values);
}

/* Puts `bytes` bytes of `result` (in `room` bytes) in the place of HDF5's buffer. */
static size_t replace(void **buffer, size_t *buffer_bytes, void *result, size_t room, size_t bytes) {
  H5free_memory(*buffer);
  *buffer = result;
  *buffer_bytes = room;
  return bytes;
}

static size_t encode(size_t count, const unsigned values[], size_t bytes, size_t *buffer_bytes, void **buffer) {
  if (count <= ELEMENT_BYTES) REFUSE(0, "no element type: the dataset was made without this filter");
  const unsigned element = values[ELEMENT_BYTES];
  if ((element != PFPL_F32 && element != PFPL_F64) || bytes % element) REFUSE(0, "a chunk of %zu bytes is no field", bytes);
  const size_t room = (size_t)pfpl_max_stream_bytes(element, bytes / element);
  void *stream = H5allocate_memory(room, 0);
  if (!stream) REFUSE(0, "no memory for a stream of up to %zu bytes", room);
  uint64_t length = 0;
  const pfpl_status status = pfpl_compress_into(element, *buffer, bytes / element, bound_of(values), stream, room, &length, NULL);
  if (status != PFPL_OK) {
    H5free_memory(stream);
    REFUSE(0, "%s", pfpl_status_string(status));
  }
  return replace(buffer, buffer_bytes, stream, room, (size_t)length);
}

static size_t decode(size_t count, const unsigned values[], size_t bytes, size_t *buffer_bytes, void **buffer) {
  pfpl_header header;
  pfpl_status status = pfpl_read_header(*buffer, bytes, &header);
  if (status == PFPL_OK && header.stream_bytes > bytes) status = PFPL_TRUNCATED; /* before anything is sized by the header */
  if (status != PFPL_OK) REFUSE(0, "%s", pfpl_status_string(status));
  /* HDF5 reads a whole chunk of whatever it is given */
  if (count >= ALL_VALUES && (header.element != values[ELEMENT_BYTES] || header.n != values[CHUNK_VALUES]))
    REFUSE(0, "a stream of %llu values of %u bytes in a chunk of %u of %u bytes", (unsigned long long)header.n, header.element,
           values[CHUNK_VALUES], values[ELEMENT_BYTES]);
  const size_t room = (size_t)(header.n * header.element);
  void *field = H5allocate_memory(room ? room : 1, 0);
  if (!field) REFUSE(0, "no memory for a chunk of %zu bytes", room);
  pfpl_damage damage;
  status = pfpl_decompress(header.element, *buffer, bytes, field, header.n, NULL, &damage, NULL);
  if (status != PFPL_OK) {
    H5free_memory(field);
    REFUSE(0, "%s (pfpl chunk %lld)", pfpl_status_string(status), (long long)damage.chunk);
  }
  return replace(buffer, buffer_bytes, field, room, room);
}

static size_t filter(unsigned flags, size_t count, const unsigned values[], size_t bytes, size_t *buffer_bytes, void **buffer) {
  return flags & H5Z_FLAG_REVERSE ? decode(count, values, bytes, buffer_bytes, buffer) : encode(count, values, bytes, buffer_bytes, buffer);
}

static const H5Z_class2_t pfpl_filter = {
    H5Z_CLASS_T_VERS, PFPL_HDF5_FILTER_ID, 1, 1, "pfpl: error-bounded compression", can_apply, set_local, filter,
};

H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void *H5PLget_plugin_info(void) { return &pfpl_filter; }
