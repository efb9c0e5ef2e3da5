//! Checkpoints: one HDF5 file each, a dataset a field, its one chunk a PFPL stream. Written beside its place, synced and renamed.

use std::ffi::{CString, c_void};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use hdf5_metno as hdf5;
use hdf5_metno_sys::h5d::{H5Dclose, H5Dcreate2, H5Dread_chunk, H5Dwrite_chunk};
use hdf5_metno_sys::h5p::{H5P_CLS_DATASET_CREATE, H5P_DEFAULT, H5Pclose, H5Pcreate, H5Pset_chunk, H5Pset_filter};
use hdf5_metno_sys::h5s::{H5Sclose, H5Screate_simple};
use hdf5_metno_sys::h5t::{H5T_IEEE_F32LE, H5T_IEEE_F64LE};
use hdf5_metno_sys::h5z::H5Z_FLAG_OPTIONAL;
use pfpl::{ElementType, Header};

/// The HDF5 filter of pfpl: PFPL_HDF5_FILTER_ID of pfpl_hdf5.h. Its client data are for writers that go through it.
const FILTER: i32 = 33200;
const EXACT: u32 = 1;

/// A compressed field.
pub struct Stream {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// What a file holds.
pub struct Checkpoint {
    pub step: u64,
    pub streams: Vec<Stream>,
}

fn path(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("checkpoint-{step:010}.h5"))
}

/// All checkpoints of a folder, oldest first.
fn all(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("checkpoint-") && name.ends_with(".h5")) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The latest checkpoint of a folder.
pub fn latest(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    Ok(all(folder)?.pop())
}

/// Writes the checkpoint of `step` into `folder`, and removes all but the one before it. Whatever happens, the one before stays readable.
pub fn write(folder: &Path, step: u64, bound: f64, streams: &[Stream]) -> anyhow::Result<()> {
    let place = path(folder, step);
    let beside = tempfile::Builder::new().prefix(".checkpoint-").suffix(".h5.part").tempfile_in(folder)?;
    fill(beside.path(), step, bound, streams).with_context(|| format!("cannot write {}", place.display()))?;
    beside.as_file().sync_all()?;
    beside.persist(&place)?;
    File::open(folder)?.sync_all()?;
    let older = all(folder)?;
    for path in &older[..older.len().saturating_sub(2)] {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn fill(path: &Path, step: u64, bound: f64, streams: &[Stream]) -> anyhow::Result<()> {
    let file = hdf5::File::create(path)?;
    file.new_attr::<u64>().create("step")?.write_scalar(&step)?;
    file.new_attr::<f64>().create("bound")?.write_scalar(&bound)?;
    let values = [EXACT, bound.to_bits() as u32, (bound.to_bits() >> 32) as u32];
    for stream in streams {
        let header = Header::read(&stream.bytes)?;
        let dataset = create(&file, &stream.name, header.element, header.n, &values)?;
        dataset.new_attr::<u32>().create("crc32")?.write_scalar(&crc32fast::hash(&stream.bytes))?;
        // SAFETY: a live dataset whose one chunk begins at offset 0, and as many bytes as are said
        let status = hdf5::sync::sync(|| unsafe {
            H5Dwrite_chunk(dataset.id(), H5P_DEFAULT, 0, [0].as_ptr(), stream.bytes.len(), stream.bytes.as_ptr().cast::<c_void>())
        });
        ensure!(status >= 0, "H5Dwrite_chunk refused {}", stream.name);
    }
    file.flush()?;
    Ok(())
}

/// A dataset of one chunk whose filter is pfpl's. By HDF5's own calls: the crate's want the plugin, which writing streams does not need.
fn create(file: &hdf5::File, name: &str, element: ElementType, n: u64, values: &[u32]) -> anyhow::Result<hdf5::Dataset> {
    let element = match element {
        ElementType::F32 => *H5T_IEEE_F32LE,
        ElementType::F64 => *H5T_IEEE_F64LE,
    };
    let c_name = CString::new(name)?;
    let created = hdf5::sync::sync(|| {
        // SAFETY: live identifiers, closed below; the arrays have one length for the one dimension
        unsafe {
            let (space, plist) = (H5Screate_simple(1, &raw const n, std::ptr::null()), H5Pcreate(*H5P_CLS_DATASET_CREATE));
            H5Pset_chunk(plist, 1, &raw const n);
            H5Pset_filter(plist, FILTER, H5Z_FLAG_OPTIONAL, values.len(), values.as_ptr());
            let dataset = H5Dcreate2(file.id(), c_name.as_ptr(), element, space, H5P_DEFAULT, plist, H5P_DEFAULT);
            H5Sclose(space);
            H5Pclose(plist);
            dataset >= 0 && H5Dclose(dataset) >= 0
        }
    });
    ensure!(created, "H5Dcreate2 refused {name}");
    Ok(file.dataset(name)?)
}

/// Reads a checkpoint, and checks each stream against its sum.
pub fn read(path: &Path) -> anyhow::Result<Checkpoint> {
    let file = hdf5::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let step = file.attr("step")?.read_scalar()?;
    let mut names = file.member_names()?;
    names.sort();
    let streams = names
        .into_iter()
        .map(|name| {
            let dataset = file.dataset(&name)?;
            let Some(chunk) = dataset.chunk_info(0) else { bail!("{name} has no chunk") };
            let (mut stream, mut mask) = (vec![0u8; chunk.size as usize], 0);
            // SAFETY: a live dataset whose one chunk begins at offset 0; room for as many bytes as it has
            let status = hdf5::sync::sync(|| unsafe {
                H5Dread_chunk(dataset.id(), H5P_DEFAULT, [0].as_ptr(), &raw mut mask, stream.as_mut_ptr().cast::<c_void>())
            });
            ensure!(status >= 0, "cannot read {name}");
            ensure!(crc32fast::hash(&stream) == dataset.attr("crc32")?.read_scalar::<u32>()?, "{name} is damaged: its sum is wrong");
            Ok(Stream { name, bytes: stream })
        })
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Checkpoint { step, streams })
}

/// The bound that a checkpoint was written with.
pub fn bound(path: &Path) -> anyhow::Result<f64> {
    Ok(hdf5::File::open(path)?.attr("bound")?.read_scalar()?)
}
