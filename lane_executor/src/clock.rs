//! What happened before what: stamps of accesses, and what one lane knows of the others.
//!
//! Every block has a counter of its own synchronization events; a lane's time is the counter's value at its last event (barrier, warp
//! barrier, or own release).  Within a block an access happened before another lane's if a barrier of the block, or a warp barrier that
//! both took part in, came between; across blocks, or through atomics, if a release that the lane's [`Knowledge`] holds came after it.

use std::rc::Rc;

/// Who made an access, in 64 bits: nobody (0), a lane, several lanes of a warp, several warps of a block, or several blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp(u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Lane(u32),
    Warp(u32),
    Block,
    Many,
}

pub(crate) const TIMES: u32 = 1 << 26;
pub(crate) const BLOCKS: u32 = 1 << 13;
pub(crate) const LANES: u32 = 1 << 10;
pub(crate) const LAUNCHES: u32 = 1 << 12;

impl Stamp {
    pub(crate) const NONE: Stamp = Stamp(0);

    pub(crate) fn new(launch: u32, block: u32, by: By, time: u32, atomic: bool) -> Self {
        let (kind, id) = match by {
            By::Lane(lane) => (0, lane),
            By::Warp(warp) => (1, warp),
            By::Block => (2, 0),
            By::Many => (3, 0),
        };
        Stamp(
            u64::from(launch) << 52 | u64::from(block) << 39 | u64::from(atomic) << 38 | kind << 36 | u64::from(id) << 26 | u64::from(time),
        )
    }
    pub(crate) fn launch(self) -> u32 {
        (self.0 >> 52) as u32
    }
    pub(crate) fn block(self) -> u32 {
        (self.0 >> 39) as u32 & (BLOCKS - 1)
    }
    pub(crate) fn atomic(self) -> bool {
        self.0 >> 38 & 1 != 0
    }
    pub(crate) fn time(self) -> u32 {
        self.0 as u32 & (TIMES - 1)
    }
    pub(crate) fn by(self) -> By {
        let id = (self.0 >> 26) as u32 & (LANES - 1);
        match self.0 >> 36 & 3 {
            0 => By::Lane(id),
            1 => By::Warp(id),
            2 => By::Block,
            _ => By::Many,
        }
    }
}

/// Where a lane is: itself and the times of its last events.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub launch: u32,
    pub block: u32,
    pub lane: u32,
    pub width: u32,
    /// Last barrier of the block.
    pub block_time: u32,
    /// Last barrier of the block or of the warp.
    pub warp_time: u32,
    /// Last event of the lane.
    pub time: u32,
}

impl Now {
    pub(crate) fn stamp(&self, atomic: bool) -> Stamp {
        Stamp::new(self.launch, self.block, By::Lane(self.lane), self.time, atomic)
    }
    /// Whether an access of the same block happened before, by its barriers alone.
    pub(crate) fn follows_in_block(&self, s: Stamp) -> bool {
        s.time() < self.block_time
            || match s.by() {
                By::Lane(lane) => lane == self.lane || (lane / self.width == self.lane / self.width && s.time() < self.warp_time),
                By::Warp(warp) => warp == self.lane / self.width && s.time() < self.warp_time,
                By::Block | By::Many => false,
            }
    }
}

/// What is known of one block: everything before a time, and more of some lanes and their warps.
#[derive(Clone, Default)]
struct Known {
    block_time: u32,
    lanes: Vec<Reached>,
}
#[derive(Clone, Copy)]
struct Reached {
    lane: u32,
    time: u32,
    warp_time: u32,
}

/// The accesses of other lanes that happened before, beyond what barriers say.
#[derive(Clone, Default)]
pub(crate) struct Knowledge {
    blocks: Vec<Known>,
}

impl Knowledge {
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
    }
    fn known(&mut self, block: usize) -> &mut Known {
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, Known::default);
        }
        &mut self.blocks[block]
    }
    pub(crate) fn join(&mut self, other: &Knowledge) {
        for (block, theirs) in other.blocks.iter().enumerate().filter(|(_, k)| k.block_time > 0 || !k.lanes.is_empty()) {
            let ours = self.known(block);
            ours.block_time = ours.block_time.max(theirs.block_time);
            for &reached in &theirs.lanes {
                ours.add(reached);
            }
            let block_time = ours.block_time;
            ours.lanes.retain(|r| r.time > block_time);
        }
    }
    /// Adds the lane itself: what it, its warp and its block did before their last events.
    pub(crate) fn add(&mut self, now: &Now) {
        let known = self.known(now.block as usize);
        known.block_time = known.block_time.max(now.block_time);
        known.add(Reached { lane: now.lane, time: now.time, warp_time: now.warp_time });
    }
    pub(crate) fn covers(&self, s: Stamp, width: u32) -> bool {
        let Some(known) = self.blocks.get(s.block() as usize) else { return false };
        s.time() < known.block_time
            || match s.by() {
                By::Lane(lane) => known
                    .lanes
                    .iter()
                    .any(|r| (r.lane == lane && s.time() < r.time) || (r.lane / width == lane / width && s.time() < r.warp_time)),
                By::Warp(warp) => known.lanes.iter().any(|r| r.lane / width == warp && s.time() < r.warp_time),
                By::Block | By::Many => false,
            }
    }
}

impl Known {
    fn add(&mut self, reached: Reached) {
        match self.lanes.iter_mut().find(|r| r.lane == reached.lane) {
            Some(ours) => {
                ours.time = ours.time.max(reached.time);
                ours.warp_time = ours.warp_time.max(reached.warp_time);
            }
            None => self.lanes.push(reached),
        }
    }
}

/// One store to an atomic word.
pub(crate) struct Store {
    pub value: u64,
    pub stamp: Stamp,
    /// What acquiring this store makes known.
    pub release: Option<Rc<Knowledge>>,
}

/// The recent stores to one atomic word, oldest first, and who saw which: a load may give any store that is not older than one the lane
/// must already know.
pub(crate) struct Word {
    pub bytes: u32,
    pub stores: Vec<Store>,
    /// Stores dropped from the front.
    pub dropped: usize,
    /// A load's stamp and the index (counted with `dropped`) of the store that it gave.
    pub seen: Vec<(Stamp, usize)>,
}

impl Word {
    const KEPT_STORES: usize = 8;
    const KEPT_LOADS: usize = 256;

    pub(crate) fn new(bytes: u32, value: u64) -> Self {
        Word { bytes, stores: vec![Store { value, stamp: Stamp::NONE, release: None }], dropped: 0, seen: Vec::new() }
    }
    pub(crate) fn last(&self) -> &Store {
        self.stores.last().expect("a word has a value")
    }
    pub(crate) fn push(&mut self, store: Store) {
        self.stores.push(store);
        if self.stores.len() > Self::KEPT_STORES {
            self.stores.remove(0);
            self.dropped += 1;
        }
    }
    /// The oldest store that a load may give; `before` says whether a stamp happened before the load.
    pub(crate) fn oldest(&self, before: impl Fn(Stamp) -> bool) -> usize {
        let written = self.stores.iter().rposition(|s| before(s.stamp)).unwrap_or(0);
        let seen = self
            .seen
            .iter()
            .filter(|(stamp, index)| *index > self.dropped + written && before(*stamp))
            .map(|(_, index)| index - self.dropped)
            .max();
        seen.unwrap_or(written)
    }
    pub(crate) fn saw(&mut self, stamp: Stamp, index: usize) {
        let index = index + self.dropped;
        if index == 0 {
            return;
        }
        match self.seen.iter_mut().find(|(s, _)| s.block() == stamp.block() && s.by() == stamp.by()) {
            Some(entry) => *entry = (stamp, index),
            None => self.seen.push((stamp, index)),
        }
        if self.seen.len() > Self::KEPT_LOADS {
            // fewer weak outcomes, never a wrong one
            self.dropped += self.stores.len() - 1;
            self.stores.drain(..self.stores.len() - 1);
            self.seen.clear();
        }
    }
}
