//! Copies and memsets.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};
use std::slice;
use std::sync::Arc;

use cumodel::hazard::{HazardKind, Party};
use cumodel::{StreamId, Target, Visibility, What};

use super::{accesses, call, Call, Handle, NULL_STREAM};
use crate::config::Pageable;
use crate::memory::Place;
use crate::run::{close_registered, open_registered, settle};
use crate::site::capture;
use crate::state::{Copy, Effect, State};
use crate::Code;

/// An address, and whether the program passes it as one of the device.
#[derive(Clone, Copy)]
enum Address {
    Host(u64),
    Device(u64),
    /// Unified: the driver finds out.
    Either(u64),
}

/// Copies device to host, in stream order (R20 for pinned destinations, R28 for managed ones, R21 for pageable ones).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyDtoHAsync_v2", |call| {
        call.copy(
            Address::Host(to as u64),
            Address::Device(from),
            bytes,
            stream,
        )
        .map(drop)
    })
}

/// Copies host to device, in stream order (R22 for pinned sources, R23 for pageable ones).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyHtoDAsync_v2", |call| {
        call.copy(
            Address::Device(to),
            Address::Host(from as u64),
            bytes,
            stream,
        )
        .map(drop)
    })
}

/// Copies device to device, in stream order (R25).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyDtoDAsync_v2", |call| {
        call.copy(Address::Device(to), Address::Device(from), bytes, stream)
            .map(drop)
    })
}

/// Copies between any two places, in stream order.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) -> u32 {
    call("cuMemcpyAsync", |call| {
        call.copy(Address::Either(to), Address::Either(from), bytes, stream)
            .map(drop)
    })
}

/// Copies device to host on the legacy default stream, and waits (R26).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> u32 {
    call("cuMemcpyDtoH_v2", |call| {
        call.copy_and_wait(Address::Host(to as u64), Address::Device(from), bytes)
    })
}

/// Copies host to device on the legacy default stream; a pageable source is only waited for until it is read (R26).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> u32 {
    call("cuMemcpyHtoD_v2", |call| {
        call.copy_and_wait(Address::Device(to), Address::Host(from as u64), bytes)
    })
}

/// Copies device to device on the legacy default stream, without any wait of the host (R25).
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    call("cuMemcpyDtoD_v2", |call| {
        call.copy(
            Address::Device(to),
            Address::Device(from),
            bytes,
            NULL_STREAM,
        )
        .map(drop)
    })
}

/// Copies between any two places on the legacy default stream, and waits as the function for those places does.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpy(to: u64, from: u64, bytes: usize) -> u32 {
    call("cuMemcpy", |call| {
        call.copy_and_wait(Address::Either(to), Address::Either(from), bytes)
    })
}

/// Copies between the memory of two devices, in stream order.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    _to_context: Handle,
    from: u64,
    _from_context: Handle,
    bytes: usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyPeerAsync", |call| {
        call.copy(Address::Device(to), Address::Device(from), bytes, stream)
            .map(drop)
    })
}

/// Copies between the memory of two devices on the legacy default stream.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyPeer(
    to: u64,
    _to_context: Handle,
    from: u64,
    _from_context: Handle,
    bytes: usize,
) -> u32 {
    call("cuMemcpyPeer", |call| {
        call.copy(
            Address::Device(to),
            Address::Device(from),
            bytes,
            NULL_STREAM,
        )
        .map(drop)
    })
}

/// The attributes of some copies of a batch (CUmemcpyAttributes).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchAttributes {
    /// When the source may be read: 1 in stream order, 2 during the call, 3 at any time.
    pub source_order: c_uint,
    /// Hints about where the two places are.
    pub hints: [[i32; 2]; 2],
    /// Whether to prefer overlap with computation.
    pub flags: c_uint,
}

/// Enqueues many copies that are not ordered with each other.
#[no_mangle]
pub unsafe extern "C" fn cuMemcpyBatchAsync(
    to: *const u64,
    from: *const u64,
    sizes: *const usize,
    count: usize,
    attributes: *const BatchAttributes,
    attribute_starts: *const usize,
    attribute_count: usize,
    failed: *mut usize,
    stream: Handle,
) -> u32 {
    call("cuMemcpyBatchAsync", |call| {
        if !failed.is_null() {
            // SAFETY: by the manual, a valid pointer or null.
            unsafe { failed.write(usize::MAX) };
        }
        let nothing = [
            to.cast::<()>(),
            from.cast(),
            sizes.cast(),
            attributes.cast(),
            attribute_starts.cast(),
        ]
        .iter()
        .any(|pointer| pointer.is_null());
        if count == 0 || nothing || attribute_count == 0 || attribute_count > count {
            let why = "a list is null or empty, or there are more attributes than copies";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        if matches!(stream, 0 | 1) {
            let why = "batches are not allowed on the legacy default stream";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        // SAFETY: by the manual, the lists have these lengths.
        let (to, from, sizes, attributes, starts) = unsafe {
            (
                slice::from_raw_parts(to, count),
                slice::from_raw_parts(from, count),
                slice::from_raw_parts(sizes, count),
                slice::from_raw_parts(attributes, attribute_count),
                slice::from_raw_parts(attribute_starts, attribute_count),
            )
        };
        if starts[0] != 0
            || starts.windows(2).any(|pair| pair[0] >= pair[1])
            || starts[attribute_count - 1] >= count
        {
            let why = "the attributes' first copies do not start at 0 and rise";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        if attributes
            .iter()
            .any(|attribute| !(1..=3).contains(&attribute.source_order))
        {
            return Err(call.refuse(Code::InvalidValue, "a source access order is not 1, 2 or 3"));
        }
        call.batch(
            to,
            from,
            sizes,
            |copy| {
                let index = starts.iter().rposition(|&start| start <= copy).unwrap_or(0);
                attributes[index].source_order
            },
            stream,
        )
        .map_err(|(index, code)| {
            if !failed.is_null() {
                // SAFETY: as above.
                unsafe { failed.write(index) };
            }
            code
        })
    })
}

/// Fills with a byte, in stream order (R35).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD8Async(
    to: u64,
    value: c_uchar,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD8Async", |call| {
        call.fill(to, u32::from(value), 1, count, stream).map(drop)
    })
}

/// Fills with a 16-bit value, in stream order; the address is a multiple of 2 (R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD16Async(
    to: u64,
    value: c_ushort,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD16Async", |call| {
        call.fill(to, u32::from(value), 2, count, stream).map(drop)
    })
}

/// Fills with a 32-bit value, in stream order; the address is a multiple of 4 (R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD32Async(
    to: u64,
    value: c_uint,
    count: usize,
    stream: Handle,
) -> u32 {
    call("cuMemsetD32Async", |call| {
        call.fill(to, value, 4, count, stream).map(drop)
    })
}

/// Fills with a byte on the legacy default stream; waits only for pinned memory (R35).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> u32 {
    call("cuMemsetD8_v2", |call| {
        call.fill_and_wait(to, u32::from(value), 1, count)
    })
}

/// Fills with a 16-bit value on the legacy default stream; waits only for pinned memory (R35, R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD16_v2(to: u64, value: c_ushort, count: usize) -> u32 {
    call("cuMemsetD16_v2", |call| {
        call.fill_and_wait(to, u32::from(value), 2, count)
    })
}

/// Fills with a 32-bit value on the legacy default stream; waits only for pinned memory (R35, R36).
#[no_mangle]
pub unsafe extern "C" fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) -> u32 {
    call("cuMemsetD32_v2", |call| {
        call.fill_and_wait(to, value, 4, count)
    })
}

/// An operation that was just submitted.
struct Submitted {
    /// Its moment, to wait for; empty when it was captured.
    target: Target,
    /// Does the synchronous form of the function wait for it?
    host_waits: bool,
}

impl Call {
    fn place(&mut self, address: Address, bytes: usize) -> Result<Place, Code> {
        let (value, device) = match address {
            Address::Host(value) | Address::Either(value) => (value, false),
            Address::Device(value) => (value, true),
        };
        let state = &*self.state;
        match state.memory.place(&state.engine, value, bytes, device) {
            Ok(place) => Ok(place),
            Err(code) => Err(self.refuse_address(code, value, bytes)),
        }
    }

    /// Refuses an address; one in memory that has been freed is reported (H06).
    fn refuse_address(&mut self, code: Code, address: u64, bytes: usize) -> Code {
        let why = format!("{bytes} bytes at {address:#x} are not inside one live allocation");
        let live = self.state.engine.region(address).is_some();
        let ended = self.state.memory.ended(address).filter(|_| !live).cloned();
        let Some(ended) = ended else {
            return self.refuse(code, &why);
        };
        let a = Party::Call {
            call: ended.call,
            does: format!("ends the life of {}", ended.region),
            site: ended.site,
        };
        self.refuse_with(code, HazardKind::UseAfterFree, &why, Some(a))
    }

    fn copy(
        &mut self,
        to: Address,
        from: Address,
        bytes: usize,
        stream: Handle,
    ) -> Result<Submitted, Code> {
        let stream = self.stream(stream)?;
        let from = self.place(from, bytes)?;
        let to = self.place(to, bytes)?;
        self.copy_places(&to, &from, bytes, stream)
    }

    /// Enqueues a copy between two places.
    ///
    /// Between two places of the host it is complete when this returns (R24); staged into pageable memory it has then
    /// run, but no manual promises that, so nothing is ordered after it (R21).
    fn copy_places(
        &mut self,
        to: &Place,
        from: &Place,
        bytes: usize,
        stream: StreamId,
    ) -> Result<Submitted, Code> {
        let what = What::Copy {
            bytes: bytes as u64,
            from: from.describe(),
            to: to.describe(),
        };
        let between_hosts = from.is_host() && to.is_host();
        let touches_pageable = from.is_pageable() || to.is_pageable();
        // A captured copy runs at a launch, when nothing is staged for it any more.
        let captured = self.state.graphs.status(stream).is_some();
        let staged = self.state.config.pageable() == Pageable::Staged && !captured;
        let read_now = staged && from.is_pageable() && !to.is_pageable() && bytes > 0;
        let effect = if read_now {
            staged_copy(&self.state, from, to, bytes)
        } else {
            Effect::Copy(Copy {
                from: from.address(),
                to: to.address(),
                bytes,
            })
        };
        let visibility = if touches_pageable && !staged {
            Visibility::Always
        } else {
            Visibility::ByRace
        };
        let finish_now = !captured && (between_hosts || to.is_pageable() && staged);
        let list = accesses(Some((from, bytes)), (to, bytes));
        let op = self.submit(stream, what, list, effect, visibility)?;
        let target = op.map_or_else(Vec::new, |op| self.state.engine.op_target(op));
        if finish_now {
            if let Some(op) = op {
                self.state.expect_a_wait_for(op);
            }
            settle(&mut self.state, &target)?;
            if between_hosts {
                self.state.host_waited(&target);
            }
        }
        Ok(Submitted {
            target,
            host_waits: !(read_now || from.is_device() && to.is_device()),
        })
    }

    fn copy_and_wait(&mut self, to: Address, from: Address, bytes: usize) -> Result<(), Code> {
        let stream = self.stream(NULL_STREAM)?;
        self.not_capturing(stream)?;
        let copy = self.copy(to, from, bytes, NULL_STREAM)?;
        if copy.host_waits {
            self.wait(&copy.target, "default stream", &capture())?;
        }
        Ok(())
    }

    /// The copies of a batch: each after the stream's work, none after another; the stream goes on after all.
    fn batch(
        &mut self,
        to: &[u64],
        from: &[u64],
        sizes: &[usize],
        source_order: impl Fn(usize) -> c_uint,
        stream: Handle,
    ) -> Result<(), (usize, Code)> {
        const IN_STREAM_ORDER: c_uint = 1;
        let first = |code| (0, code);
        let id = self.stream(stream).map_err(first)?;
        self.not_capturing(id).map_err(first)?;
        let mut places = Vec::with_capacity(to.len());
        for (index, ((&to, &from), &bytes)) in to.iter().zip(from).zip(sizes).enumerate() {
            let from = self
                .place(Address::Either(from), bytes)
                .map_err(|code| (index, code))?;
            let to = self
                .place(Address::Either(to), bytes)
                .map_err(|code| (index, code))?;
            places.push((to, from, bytes));
        }
        let legacy = self.state.engine.legacy_of(id);
        let site = capture();
        let bare = |what| {
            cumodel::Spec::bare(
                "cuMemcpyBatchAsync",
                What::Graph(what),
                site.clone(),
                Effect::Nothing,
            )
        };
        self.state.enqueue(id, bare("batch starts"), &[]);
        let start = self.state.engine.tail(id);
        let mut ends = Vec::with_capacity(places.len());
        for (index, (to, from, bytes)) in places.iter().enumerate() {
            let lane = self.state.engine.create_stream(
                format!("batch copy {}", index + 1).into(),
                cumodel::StreamKind::NonBlocking,
                legacy,
            );
            let early = source_order(index) != IN_STREAM_ORDER && *bytes > 0;
            let effect = if early {
                staged_copy(&self.state, from, to, *bytes)
            } else {
                Effect::Copy(Copy {
                    from: from.address(),
                    to: to.address(),
                    bytes: *bytes,
                })
            };
            let spec = cumodel::Spec {
                call: "cuMemcpyBatchAsync",
                what: What::Copy {
                    bytes: *bytes as u64,
                    from: from.describe(),
                    to: to.describe(),
                },
                accesses: accesses(Some((from, *bytes)), (to, *bytes)),
                late: None,
                effect,
                site: site.clone(),
                visibility: Visibility::ByRace,
            };
            self.state.enqueue(lane, spec, std::slice::from_ref(&start));
            ends.push(self.state.engine.tail(lane));
            self.state.engine.destroy_stream(lane);
        }
        self.state.enqueue(id, bare("batch ends"), &ends);
        Ok(())
    }

    fn fill(
        &mut self,
        to: u64,
        value: u32,
        width: usize,
        count: usize,
        stream: Handle,
    ) -> Result<Submitted, Code> {
        let stream = self.stream(stream)?;
        if !to.is_multiple_of(width as u64) {
            let why = format!("the address {to:#x} is not a multiple of {width}");
            return Err(self.refuse(Code::InvalidValue, &why));
        }
        let Some(bytes) = count.checked_mul(width) else {
            return Err(self.refuse(Code::InvalidValue, "the size overflows"));
        };
        let to = self.place(Address::Device(to), bytes)?;
        let what = What::Fill {
            bytes: bytes as u64,
            to: to.describe(),
        };
        let effect = Effect::Fill {
            to: to.address(),
            value,
            width,
            count,
        };
        let list = accesses(None, (&to, bytes));
        let op = self.submit(stream, what, list, effect, Visibility::ByRace)?;
        Ok(Submitted {
            target: op.map_or_else(Vec::new, |op| self.state.engine.op_target(op)),
            host_waits: !to.is_device(),
        })
    }

    fn fill_and_wait(
        &mut self,
        to: u64,
        value: u32,
        width: usize,
        count: usize,
    ) -> Result<(), Code> {
        let fill = self.fill(to, value, width, count, NULL_STREAM)?;
        if fill.host_waits {
            self.wait(&fill.target, "default stream", &capture())?;
        }
        Ok(())
    }
}

/// A copy whose source is read now, whatever is queued before it (R23).
fn staged_copy(state: &State, from: &Place, to: &Place, bytes: usize) -> Effect {
    let opened: Vec<_> = open_registered(state, from.address(), bytes).collect();
    // SAFETY: the caller of the driver function promises that a pageable source holds `bytes` bytes, and the engine's
    // view of an allocation is always readable.
    let contents = unsafe { slice::from_raw_parts(from.address() as *const u8, bytes) };
    let contents: Arc<[u8]> = contents.into();
    close_registered(state, &opened);
    Effect::Staged {
        contents,
        source: from.address(),
        to: to.address(),
    }
}
