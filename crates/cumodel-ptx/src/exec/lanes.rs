//! What one instruction does in all lanes of a warp at once.
//!
//! A register is an array over the lanes, so that the cost of dispatch is paid once for 32 threads and the loop over the
//! lanes can be vectorized.
use crate::code::{Lanes, Mask, Op, Pred, Reg};
use crate::types::Lane;

/// Threads of a warp.
pub(crate) const WARP: usize = 32;
/// Every lane.
pub(crate) const ALL: Mask = Mask::MAX;

/// One register of all lanes: the value in the low bits, zeros above.
pub(crate) type Slot = [u64; WARP];

/// What an instruction sees of its warp.
pub(crate) struct Frame<'w> {
    pub(crate) regs: &'w mut [Slot],
    pub(crate) preds: &'w mut [Mask],
    /// The carry flag of each lane.
    pub(crate) carry: &'w mut Mask,
    pub(crate) place: &'w Place,
}

/// Where a warp is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    pub(crate) tid: [[u32; WARP]; 3],
    pub(crate) ntid: [u32; 3],
    pub(crate) ctaid: [u32; 3],
    pub(crate) nctaid: [u32; 3],
    pub(crate) warp: u32,
    pub(crate) warps: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) total_shared: u32,
    /// Instructions of this warp until now: what stands for a clock.
    pub(crate) clock: u64,
}

/// The lanes of a mask, lowest first.
pub(crate) fn lanes(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        (lane < 32).then(|| {
            mask &= mask - 1;
            lane as usize
        })
    })
}

/// Sets the lanes of `mask` in `slot`.
#[inline(always)]
pub(crate) fn set(slot: &mut Slot, mask: Mask, value: impl Fn(usize) -> u64) {
    if mask == ALL {
        for (lane, bits) in slot.iter_mut().enumerate() {
            *bits = value(lane);
        }
    } else {
        for lane in lanes(mask) {
            slot[lane] = value(lane);
        }
    }
}

/// The lanes of `mask` in which `holds`.
#[inline(always)]
pub(crate) fn where_true(mask: Mask, holds: impl Fn(usize) -> bool) -> Mask {
    let mut result = 0;
    for lane in 0..WARP {
        result |= Mask::from(holds(lane)) << lane;
    }
    result & mask
}

/// Replaces the lanes of `mask` in `old` by those of `new`.
#[inline(always)]
pub(crate) fn blend(old: Mask, new: Mask, mask: Mask) -> Mask {
    (old & !mask) | (new & mask)
}

fn boxed(run: impl Fn(&mut Frame<'_>, Mask) + Send + Sync + 'static) -> Op {
    Op::Lanes(Box::new(run) as Lanes)
}

/// An instruction that needs the whole frame.
pub(crate) fn whole(run: impl Fn(&mut Frame<'_>, Mask) + Send + Sync + 'static) -> Op {
    boxed(run)
}

/// `d = f(a)`
pub(crate) fn one<A: Lane, R: Lane>(
    d: Reg,
    a: Reg,
    f: impl Fn(A) -> R + Send + Sync + 'static,
) -> Op {
    boxed(move |frame, mask| {
        let a = frame.regs[a as usize];
        set(&mut frame.regs[d as usize], mask, |lane| {
            f(A::from_lane(a[lane])).to_lane()
        });
    })
}

/// `d = f(a, b)`
pub(crate) fn two<A: Lane, B: Lane, R: Lane>(
    d: Reg,
    [a, b]: [Reg; 2],
    f: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Op {
    boxed(move |frame, mask| {
        let (a, b) = (frame.regs[a as usize], frame.regs[b as usize]);
        set(&mut frame.regs[d as usize], mask, |lane| {
            f(A::from_lane(a[lane]), B::from_lane(b[lane])).to_lane()
        });
    })
}

/// `d = f(a, b, c)`
pub(crate) fn three<A: Lane, B: Lane, C: Lane, R: Lane>(
    d: Reg,
    [a, b, c]: [Reg; 3],
    f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
) -> Op {
    boxed(move |frame, mask| {
        let (a, b, c) = (
            frame.regs[a as usize],
            frame.regs[b as usize],
            frame.regs[c as usize],
        );
        set(&mut frame.regs[d as usize], mask, |lane| {
            f(
                A::from_lane(a[lane]),
                B::from_lane(b[lane]),
                C::from_lane(c[lane]),
            )
            .to_lane()
        });
    })
}

/// `d = f(a, b, c, e)`
pub(crate) fn four<A: Lane, R: Lane>(
    d: Reg,
    [a, b, c, e]: [Reg; 4],
    f: impl Fn(A, A, u32, u32) -> R + Send + Sync + 'static,
) -> Op {
    boxed(move |frame, mask| {
        let [a, b, c, e] = [a, b, c, e].map(|reg| frame.regs[reg as usize]);
        set(&mut frame.regs[d as usize], mask, |lane| {
            f(
                A::from_lane(a[lane]),
                A::from_lane(b[lane]),
                c[lane] as u32,
                e[lane] as u32,
            )
            .to_lane()
        });
    })
}

/// `(d, carry) = f(a, b, c, carry)`; the flag is kept where `writes` says so.
pub(crate) fn carrying(
    d: Reg,
    [a, b, c]: [Reg; 3],
    writes: bool,
    f: impl Fn(u64, u64, u64, bool) -> (u64, bool) + Send + Sync + 'static,
) -> Op {
    boxed(move |frame, mask| {
        let (a, b, c) = (
            frame.regs[a as usize],
            frame.regs[b as usize],
            frame.regs[c as usize],
        );
        let before = *frame.carry;
        for lane in lanes(mask) {
            let (value, carry) = f(a[lane], b[lane], c[lane], before >> lane & 1 == 1);
            frame.regs[d as usize][lane] = value;
            if writes {
                *frame.carry = blend(*frame.carry, Mask::from(carry) << lane, 1 << lane);
            }
        }
    })
}

/// A comparison of two registers, lane by lane.
pub(crate) type Compare = Box<dyn Fn(&Frame<'_>, Mask) -> Mask + Send + Sync>;

/// The lanes in which `f(a, b)` holds.
pub(crate) fn compare<A: Lane>(
    [a, b]: [Reg; 2],
    f: impl Fn(A, A) -> bool + Send + Sync + 'static,
) -> Compare {
    Box::new(move |frame, mask| {
        let (a, b) = (&frame.regs[a as usize], &frame.regs[b as usize]);
        where_true(mask, |lane| f(A::from_lane(a[lane]), A::from_lane(b[lane])))
    })
}

/// Writes a predicate in the lanes of `mask`.
pub(crate) fn set_pred(frame: &mut Frame<'_>, pred: Option<Pred>, value: Mask, mask: Mask) {
    if let Some(pred) = pred {
        let pred = &mut frame.preds[pred as usize];
        *pred = blend(*pred, value, mask);
    }
}
