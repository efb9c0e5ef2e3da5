//! The format in plain scalar code, step by step as its specification tells it, and independent of the product: what every instruction
//! set is compared with.
#![allow(dead_code)] // each user takes a part of it

use std::fmt::Debug;

pub const CHUNK: usize = 16384;
pub const RAW: u32 = 1 << 31;

/// `f32` or `f64`.
pub trait Value: pfpl_host::Element + Copy + Debug + 'static {
    const WIDTH: usize;
    const DIGIT: u8;
    const RADIUS: u64;
    const CODES: usize = CHUNK * 8 / Self::WIDTH;

    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
    /// Step 1, with or without the second try.
    fn code(self, bound: f32, second_try: bool) -> u64;
    /// Its inverse.
    fn value(code: u64, bound: f32) -> Self;
}

macro_rules! value {
    ($value:ident, $bits:ident, $digit:literal, $radius:expr) => {
        impl Value for $value {
            const WIDTH: usize = $bits::BITS as usize;
            const DIGIT: u8 = $digit;
            const RADIUS: u64 = $radius;

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn of_bits(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn code(self, bound: f32, second_try: bool) -> u64 {
                let eb = Self::from(bound);
                let eb2 = 2.0 * eb;
                let inv = 1.0 / eb2;
                let holds = |q: Self| q.abs() < Self::RADIUS as Self && (self - q * eb2).abs() <= eb;
                let mut q = (self * inv).round_ties_even();
                if second_try && !holds(q) {
                    q += if self > q * eb2 { 1.0 } else { -1.0 };
                }
                if holds(q) {
                    let q = q as i64;
                    ((q << 1) ^ (q >> 63)) as u64
                } else {
                    self.bits()
                }
            }

            fn value(code: u64, bound: f32) -> Self {
                if code >= 2 * Self::RADIUS {
                    return Self::of_bits(code);
                }
                let q = (code >> 1) as i64 ^ -((code & 1) as i64);
                q as Self * (2.0 * Self::from(bound))
            }
        }
    };
}

value!(f32, u32, b'4', 1 << 22);
value!(f64, u64, b'8', 1 << 51);

fn mask<T: Value>() -> u64 {
    u64::MAX >> (64 - T::WIDTH)
}

fn negabinary<T: Value>() -> u64 {
    0xAAAA_AAAA_AAAA_AAAA & mask::<T>()
}

/// Where bit `WIDTH - 1 - plane` of a chunk's word `i` goes: byte and bit.
fn place<T: Value>(i: usize, plane: usize) -> (usize, usize) {
    let (group, e) = (i / T::WIDTH, i % T::WIDTH);
    let bit = T::WIDTH - 1 - e;
    ((plane * (T::CODES / T::WIDTH) + group) * (T::WIDTH / 8) + bit / 8, bit % 8)
}

/// Steps 2 to 4.
fn planes<T: Value>(codes: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; CHUNK];
    let mut before = 0;
    for i in 0..T::CODES {
        let code = codes.get(i).copied().unwrap_or(0);
        let difference = code.wrapping_sub(before).wrapping_add(negabinary::<T>()) & mask::<T>() ^ negabinary::<T>();
        before = code;
        for plane in 0..T::WIDTH {
            let (byte, bit) = place::<T>(i, plane);
            bytes[byte] |= ((difference >> (T::WIDTH - 1 - plane) & 1) as u8) << bit;
        }
    }
    bytes
}

fn unplanes<T: Value>(bytes: &[u8]) -> Vec<u64> {
    let mut before = 0u64;
    (0..T::CODES)
        .map(|i| {
            let difference = (0..T::WIDTH).fold(0, |word, plane| {
                let (byte, bit) = place::<T>(i, plane);
                word << 1 | u64::from(bytes[byte] >> bit & 1)
            });
            before = before.wrapping_add((difference ^ negabinary::<T>()).wrapping_sub(negabinary::<T>())) & mask::<T>();
            before
        })
        .collect()
}

fn pack(flags: impl Iterator<Item = bool>) -> Vec<u8> {
    flags.collect::<Vec<_>>().chunks(8).map(|flags| flags.iter().rev().fold(0, |byte, &flag| byte << 1 | u8::from(flag))).collect()
}

fn flag(bitmap: &[u8], i: usize) -> bool {
    bitmap[i / 8] >> (i % 8) & 1 == 1
}

/// Step 5, or `None` where that is not shorter than the planes.
pub fn eliminate_zeros(planes: &[u8]) -> Option<Vec<u8>> {
    let mut out: Vec<u8> = planes.iter().copied().filter(|&byte| byte != 0).collect();
    if !out.is_empty() {
        let mut bitmap = pack(planes.iter().map(|&byte| byte != 0));
        for _ in 0..3 {
            let changed = |i: usize| bitmap[i] != if i == 0 { 0 } else { bitmap[i - 1] };
            out.extend((0..bitmap.len()).filter(|&i| changed(i)).map(|i| bitmap[i]));
            bitmap = pack((0..bitmap.len()).map(changed));
        }
        out.extend(bitmap);
    }
    out.extend((CHUNK as u16).to_le_bytes());
    (out.len() < CHUNK).then_some(out)
}

fn restore_zeros(coded: &[u8]) -> Option<Vec<u8>> {
    let (mut body, size) = coded.split_at_checked(coded.len().checked_sub(2)?)?;
    if size != (CHUNK as u16).to_le_bytes() {
        return None;
    }
    if body.is_empty() {
        return Some(vec![0; CHUNK]);
    }
    let mut last = |count: usize| {
        let (before, part) = body.split_at_checked(body.len().checked_sub(count)?)?;
        body = before;
        Some(part.to_vec())
    };
    let mut bitmap = last(4)?;
    for length in [32, 256, 2048] {
        let kept = last((0..length).filter(|&i| flag(&bitmap, i)).count())?;
        let (mut kept, mut byte) = (kept.into_iter(), 0);
        bitmap = (0..length)
            .map(|i| {
                if flag(&bitmap, i) {
                    byte = kept.next().unwrap();
                }
                byte
            })
            .collect();
    }
    if (0..CHUNK).filter(|&i| flag(&bitmap, i)).count() != body.len() {
        return None;
    }
    let mut nonzero = body.iter();
    Some((0..CHUNK).map(|i| if flag(&bitmap, i) { *nonzero.next().unwrap() } else { 0 }).collect())
}

/// The coded bytes of a chunk's codes, and the table entry.
pub fn encode_chunk<T: Value>(codes: &[u64]) -> (Vec<u8>, u32) {
    let planes = planes::<T>(codes);
    match eliminate_zeros(&planes) {
        Some(coded) => {
            let length = coded.len() as u32;
            (coded, length)
        }
        None => (planes, RAW | CHUNK as u32),
    }
}

/// Puts coded chunks together; the wide header where `wide` asks for it or the narrow one does not do.
pub fn assemble<T: Value>(n: usize, bound: f32, wide: bool, chunks: &[(Vec<u8>, u32)]) -> Vec<u8> {
    let wide = wide || 24 + chunks.len() as u64 * 16388 >= 1 << 32;
    let table: Vec<u8> = chunks.iter().flat_map(|(_, entry)| entry.to_le_bytes()).collect();
    let mut body = [table, chunks.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect()].concat();
    body.resize(body.len().next_multiple_of(4), 0);
    let mut out = Vec::from([b'P', b'F', if wide { b'W' } else { b'P' }, T::DIGIT]);
    if wide {
        out.extend(bound.to_le_bytes());
        out.extend((n as u64).to_le_bytes());
        out.extend((body.len() as u64).to_le_bytes());
        out.extend((chunks.len() as u64).to_le_bytes());
    } else {
        out.extend((body.len() as u32 + 8).to_le_bytes());
        out.extend(bound.to_le_bytes());
        out.extend((n as u32).to_le_bytes());
        out.extend((chunks.len() as u32 * CHUNK as u32).to_le_bytes());
        out.extend((chunks.len() as u32).to_le_bytes());
    }
    out.extend(body);
    out
}

pub fn compress<T: Value>(field: &[T], bound: f32, wide: bool) -> Vec<u8> {
    let chunks: Vec<_> =
        field.chunks(T::CODES).map(|values| encode_chunk::<T>(&values.iter().map(|x| x.code(bound, true)).collect::<Vec<_>>())).collect();
    assemble::<T>(field.len(), bound, wide, &chunks)
}

/// Status, and the chunk to blame.
pub type Refusal = (u32, Option<u64>);

/// What a decoder owes for `stream`, told that it holds `n` values: these, or the refusal.
pub fn decompress<T: Value>(stream: &[u8], n: u64) -> Result<Vec<T>, Refusal> {
    let word = |at: usize| u64::from(u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()));
    let long = |at: usize| word(at) | word(at + 4) << 32;
    if stream.len() < 16 || &stream[..2] != b"PF" || !b"PW".contains(&stream[2]) || !b"48".contains(&stream[3]) {
        return Err((2, None));
    }
    let wide = stream[2] == b'W';
    if wide && stream.len() < 32 {
        return Err((2, None));
    }
    if stream[3] != T::DIGIT {
        return Err((3, None));
    }
    let (bound, count, archive) = if wide { (word(4), long(8), long(16)) } else { (word(8), word(12), word(4)) };
    if count != n {
        return Err((4, None));
    }
    let bound = f32::from_bits(bound as u32);
    if !(f32::MIN_POSITIVE..=f32::MAX / 2.0).contains(&bound) {
        return Err((5, None));
    }
    let chunks = n.div_ceil(T::CODES as u64);
    let (header, words) = if wide { (32, 0) } else { (16, 8) };
    if u128::from(archive) < u128::from(words) + 4 * u128::from(chunks) || wide && long(24) != chunks {
        return Err((5, None));
    }
    if !wide {
        if stream.len() < 24 {
            return Err((6, None));
        }
        if word(16) != chunks * CHUNK as u64 || word(20) != chunks {
            return Err((5, None));
        }
    }
    if (stream.len() as u128) < u128::from(header) + u128::from(archive) {
        return Err((6, None));
    }
    let (table, end) = ((header + words) as usize, (header + archive) as usize);
    let mut at = table + 4 * chunks as usize;
    let mut parts = Vec::new();
    for chunk in 0..chunks {
        let entry = word(table + 4 * chunk as usize) as u32;
        let (raw, length) = (entry & RAW != 0, (entry & !RAW) as usize);
        let possible = if raw { length == CHUNK } else { length == 2 || (10..CHUNK).contains(&length) };
        if !possible || at + length > end {
            return Err((7, Some(chunk)));
        }
        parts.push((raw, &stream[at..at + length]));
        at += length;
    }
    let mut values = Vec::new();
    for (chunk, (raw, coded)) in parts.into_iter().enumerate() {
        let planes = if raw { coded.to_vec() } else { restore_zeros(coded).ok_or((8, Some(chunk as u64)))? };
        values.extend(unplanes::<T>(&planes).into_iter().map(|code| T::value(code, bound)));
    }
    values.truncate(n as usize);
    Ok(values)
}

/// `|x - y| <= bound` in exact arithmetic.
///
/// The difference `d` is rounded once; two-sum gives the rest `e` exactly, with `d` the double nearest to `d + e`. As `bound` is a
/// double too, it lies on the same side of `d + e` as of `d` unless it is `d`, and then the sign of `e` tells.
pub fn within(x: f64, y: f64, bound: f32) -> bool {
    let bound = f64::from(bound);
    let d = x - y;
    let part = d - x;
    let e = (x - (d - part)) - (y + part);
    // an overflow or NaN is within no bound
    if d == bound {
        e <= 0.0
    } else if d == -bound {
        e >= 0.0
    } else {
        d.abs() < bound
    }
}

/// What became of binary32 patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Patterns {
    /// Patterns sent.
    pub all: u64,
    /// Kept raw, with the second try and without it.
    pub raw: [u64; 2],
    /// Came back farther than the bound, or not bit for bit where kept raw.
    pub broken: u64,
    /// Came back as another value than the model's.
    pub unlike: u64,
}

impl std::ops::AddAssign for Patterns {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.raw = [self.raw[0] + other.raw[0], self.raw[1] + other.raw[1]];
        self.broken += other.broken;
        self.unlike += other.unlike;
    }
}

impl Patterns {
    /// Sends the patterns `first..first + n`, each times `factor` (odd, so that all remain different), there and back with each of `codecs`.
    pub fn send(first: u32, n: usize, factor: u32, bound: pfpl_host::Bound, codecs: &[pfpl_host::internal::Codec]) -> Vec<Self> {
        let field: Vec<f32> = (0..n as u32).map(|i| f32::from_bits(first.wrapping_add(i).wrapping_mul(factor))).collect();
        let eb = bound.get();
        let codes: Vec<u64> = field.iter().map(|x| x.code(eb, true)).collect();
        let binned = |code: u64| code < 2 * f32::RADIUS;
        let raw = [codes.iter().filter(|&&code| !binned(code)).count(), field.iter().filter(|x| !binned(x.code(eb, false))).count()];
        let mut stream = vec![0; pfpl_host::max_stream_bytes::<f32>(n as u64) as usize];
        let mut values = vec![0f32; n];
        let send = |codec: &pfpl_host::internal::Codec| {
            codec.compress_into(&field, bound, &mut stream).expect("the largest stream fits");
            codec.decompress(&stream, &mut values).expect("its own stream");
            let mut found = Self { all: n as u64, raw: raw.map(|raw| raw as u64), ..Self::default() };
            for ((x, y), &code) in field.iter().zip(&values).zip(&codes) {
                let kept = if binned(code) { within((*x).into(), (*y).into(), eb) } else { x.bits() == y.bits() };
                found.broken += u64::from(!kept);
                found.unlike += u64::from(y.bits() != f32::value(code, eb).bits());
            }
            found
        };
        codecs.iter().map(send).collect()
    }
}
