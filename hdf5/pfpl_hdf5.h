/* The HDF5 filter of pfpl: what an application needs to put it on a dataset.  The filter itself is found through HDF5_PLUGIN_PATH. */
#ifndef PFPL_HDF5_H
#define PFPL_HDF5_H

#include <stdint.h>
#include <string.h>

/* A private identifier (32768 to 65535 are for uses that The HDF Group does not track), until one is registered. */
#define PFPL_HDF5_FILTER_ID 33200

/* Client data: mode, then the bound's 64 bits, low word first.  The filter adds the element's bytes and the chunk's values by itself. */
#define PFPL_HDF5_VALUES 3
#define PFPL_HDF5_EXACT 1u  /* the bound as it is */
#define PFPL_HDF5_POWER2 2u /* the largest power of two at or below it */

/* For H5Pset_filter(dcpl, PFPL_HDF5_FILTER_ID, H5Z_FLAG_MANDATORY, PFPL_HDF5_VALUES, values). */
static inline void pfpl_hdf5_values(unsigned mode, double bound, unsigned values[PFPL_HDF5_VALUES]) {
  uint64_t bits;
  memcpy(&bits, &bound, sizeof bits);
  values[0] = mode;
  values[1] = (unsigned)bits;
  values[2] = (unsigned)(bits >> 32);
}

#endif
