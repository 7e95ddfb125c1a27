//! The pool in every order that the model has: values, counts, and no hazard.

mod orders;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;

use anyhow::Result;
use cudarc::driver::{sys, CudaContext, CudaSlice, CudaStream};
use orders::{failing, in_every_order, on_the_model, Run};
use pinned_pool::{Error, Pool};

/// Elements of a buffer: 4 KiB.
const LEN: usize = 1024;

fn device(stream: &Arc<CudaStream>, value: u32) -> Result<CudaSlice<u32>> {
    let mut device = stream.alloc_zeros::<u32>(LEN)?;
    lab::fill(stream, &mut device, value)?;
    Ok(device)
}

#[test]
fn more_downloads_than_buffers_arrive() {
    in_every_order(|ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 2, LEN)?;
        for value in 0..8 {
            let source = device(&stream, value)?;
            let mut lease = pool.acquire()?;
            lease.download(&stream, &source)?;
            assert_eq!(lease.as_slice()?, [value; LEN]);
        }
        Ok(())
    });
}

#[test]
fn a_lease_given_back_in_flight_keeps_its_values_until_the_copy_has_run() {
    in_every_order(|ctx| {
        // On the default stream cudarc tracks no pinned memory, so nothing helps the pool.
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 2, LEN)?;
        let mut devices = Vec::new();
        for value in 0..8 {
            let mut target = stream.alloc_zeros::<u32>(LEN)?;
            let mut lease = pool.acquire()?;
            lease.as_mut_slice()?.fill(value);
            lease.upload(&stream, &mut target)?;
            drop(lease);
            devices.push(target);
        }
        for (value, source) in (0..8).zip(&devices) {
            let mut lease = pool.acquire()?;
            lease.download(&stream, source)?;
            assert_eq!(lease.as_slice()?, [value; LEN]);
        }
        Ok(())
    });
}

#[test]
fn a_shorter_copy_leaves_the_rest_of_the_buffer() {
    in_every_order(|ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let mut lease = pool.acquire()?;
        lease.as_mut_slice()?.fill(1);
        let mut short = stream.alloc_zeros::<u32>(LEN / 2)?;
        lab::fill(&stream, &mut short, 7)?;
        lease.download(&stream, &short)?;
        let (copied, rest) = lease.as_slice()?.split_at(LEN / 2);
        assert_eq!((copied, rest), (&[7; LEN / 2][..], &[1; LEN / 2][..]));
        Ok(())
    });
}

#[test]
fn copies_of_one_lease_on_two_streams_follow_each_other() {
    in_every_order(|ctx| {
        let (out, back) = (ctx.new_stream()?, ctx.new_stream()?);
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let source = device(&out, 7)?;
        let mut target = back.alloc_zeros::<u32>(LEN)?;
        let mut lease = pool.acquire()?;
        lease.download(&out, &source)?;
        lease.upload(&back, &mut target)?;
        lease.download(&back, &target)?;
        assert_eq!(lease.as_slice()?, [7; LEN]);
        out.synchronize()?;
        Ok(())
    });
}

#[test]
fn the_device_memory_is_reused_behind_the_barrier() {
    in_every_order(|ctx| {
        // SAFETY: every order between streams in this test is made by hand; that is what it is about.
        unsafe { ctx.disable_event_tracking() };
        let (compute, copy) = (ctx.new_stream()?, ctx.new_stream()?);
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let mut source = device(&compute, 7)?;
        copy.join(&compute)?;
        let mut lease = pool.acquire()?;
        lease.download(&copy, &source)?;
        lease.order_before(&compute)?;
        lab::fill(&compute, &mut source, 9)?;
        assert_eq!(lease.as_slice()?, [7; LEN]);
        compute.synchronize()?;
        Ok(())
    });
}

#[test]
fn no_more_buffers_are_lent_than_there_are() {
    const BUFFERS: usize = 3;
    in_every_order(|ctx| {
        let pool = Pool::<u32>::new(ctx, BUFFERS, LEN)?;
        let (lent, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |value| -> Result<()> {
            ctx.bind_to_thread()?;
            let stream = ctx.new_stream()?;
            let source = device(&stream, value)?;
            for _ in 0..4 {
                let mut lease = pool.acquire()?;
                most.fetch_max(lent.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                lease.download(&stream, &source)?;
                assert_eq!(lease.as_slice()?, [value; LEN]);
                lent.fetch_sub(1, Ordering::SeqCst);
            }
            stream.synchronize()?;
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|value| scope.spawn(move || work(value)))
                .collect();
            for thread in threads {
                thread.join().expect("no thread panics")?;
            }
            anyhow::Ok(())
        })?;
        let most = most.into_inner();
        assert!((1..=BUFFERS).contains(&most), "{most} buffers were lent");
        assert_eq!((pool.lent(), pool.buffers()), (0, BUFFERS));
        Ok(())
    });
}

#[test]
fn acquire_waits_until_a_buffer_comes_back() {
    in_every_order(|ctx| {
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let lease = pool.acquire()?;
        let (asks, asked) = mpsc::channel();
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                asks.send(()).expect("somebody listens");
                pool.acquire().map(|lease| (lease, pool.lent()))
            });
            asked.recv()?;
            assert!(pool.try_acquire()?.is_none());
            drop(lease);
            let (second, lent) = second.join().expect("no thread panics")?;
            assert_eq!(lent, 1);
            drop(second);
            anyhow::Ok(())
        })?;
        assert_eq!(pool.lent(), 0);
        Ok(())
    });
}

#[test]
fn try_acquire_lends_nothing_while_the_copy_is_pending() {
    on_the_model("schedule=last", |ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let source = device(&stream, 7)?;
        let mut lease = pool.acquire()?;
        lease.download(&stream, &source)?;
        drop(lease);
        assert_eq!(pool.lent(), 0);
        assert!(pool.try_acquire()?.is_none());
        stream.synchronize()?;
        assert!(pool.try_acquire()?.is_some());
        Ok(())
    });
}

#[test]
fn acquire_returns_after_the_last_copy_of_the_buffer() {
    on_the_model("schedule=last", |ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let source = device(&stream, 7)?;
        let mut lease = pool.acquire()?;
        let before_the_copy = stream.record_event(None)?;
        lease.download(&stream, &source)?;
        drop(lease);
        let _lease = pool.acquire()?;
        // The wait for the copy completed this too; nobody has looked into the buffer yet.
        assert!(before_the_copy.try_is_complete()?);
        stream.synchronize()?;
        Ok(())
    });
}

#[test]
fn another_buffer_is_lent_while_the_copy_of_the_first_is_pending() {
    on_the_model("schedule=last", |ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 2, LEN)?;
        let source = device(&stream, 7)?;
        let (mut first, second) = (pool.acquire()?, pool.acquire()?);
        first.download(&stream, &source)?;
        drop((first, second));
        // The first came back first, but the second needs no wait.
        let second = pool.acquire()?;
        assert_eq!(second.as_slice()?, [0; LEN]);
        stream.synchronize()?;
        Ok(())
    });
}

#[test]
fn a_pool_dropped_in_flight_waits_before_it_frees() {
    in_every_order(|ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let mut target = device(&stream, 0)?;
        let mut lease = pool.acquire()?;
        lease.as_mut_slice()?.fill(7);
        lease.upload(&stream, &mut target)?;
        drop((lease, pool));
        assert_eq!(stream.clone_dtoh(&target)?, [7; LEN]);
        stream.synchronize()?;
        Ok(())
    });
}

#[test]
fn a_lease_outlives_its_pool() {
    in_every_order(|ctx| {
        let stream = ctx.default_stream();
        let mut lease = Pool::<u32>::new(ctx, 1, LEN)?.acquire()?;
        let source = device(&stream, 7)?;
        lease.download(&stream, &source)?;
        let elsewhere = thread::spawn(move || lease.as_slice().map(<[u32]>::to_vec));
        assert_eq!(elsewhere.join().expect("no thread panics")?, [7; LEN]);
        Ok(())
    });
}

#[test]
fn what_cannot_be_a_pool_is_refused_in_a_sentence() {
    in_every_order(|ctx| {
        let sentence = |buffers, len| {
            let refused = Pool::<u32>::new(ctx, buffers, len).map(drop);
            refused.expect_err("that is no pool").to_string()
        };
        assert_eq!(
            sentence(0, LEN),
            "a pool of 0 buffers of 4096 bytes holds nothing: ask for at least one buffer of at least one byte"
        );
        assert!(sentence(2, 0).starts_with("a pool of 2 buffers of 0 bytes holds nothing"));
        for len in [usize::MAX, usize::MAX / 4] {
            assert_eq!(
                sentence(1, len),
                format!("a buffer of {len} elements is larger than any address space")
            );
        }
        Ok(())
    });
}

#[test]
fn a_copy_that_does_not_fit_is_refused_and_the_lease_goes_on() {
    in_every_order(|ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let mut long = stream.alloc_zeros::<u32>(LEN + 1)?;
        let mut lease = pool.acquire()?;
        for refused in [
            lease.download(&stream, &long),
            lease.upload(&stream, &mut long),
        ] {
            let error = refused.expect_err("it does not fit");
            assert_eq!(
                error.to_string(),
                "1025 elements do not fit into a buffer of 1024: copy them in parts, or make the pool's buffers longer"
            );
        }
        lease.download(&stream, &device(&stream, 7)?)?;
        assert_eq!(lease.as_slice()?, [7; LEN]);
        Ok(())
    });
}

#[test]
fn a_stream_of_another_context_is_refused() {
    on_the_model("devices=2", |ctx| {
        let other = CudaContext::new(1)?;
        let stream = other.default_stream();
        let foreign = stream.alloc_zeros::<u32>(LEN)?;
        let mut lease = Pool::<u32>::new(ctx, 1, LEN)?.acquire()?;
        let refused = lease.download(&stream, &foreign);
        assert!(matches!(refused, Err(Error::OtherContext)), "{refused:?}");
        // cudarc frees a slice in whatever context is current.
        drop(lease);
        other.bind_to_thread()?;
        drop((foreign, stream, other));
        ctx.bind_to_thread()?;
        Ok(())
    });
}

#[test]
fn pinned_memory_that_runs_out_leaves_nothing_behind() {
    let run = failing("fail=cuMemHostAlloc:2:2", |ctx| {
        let refused = Pool::<u32>::new(ctx, 3, LEN).map(drop);
        let error = refused.expect_err("the second allocation fails");
        assert_eq!(
            error.to_string().split(": ").next(),
            Some("pinning buffer 2 of 3 (4096 bytes each)")
        );
        Ok(())
    });
    assert_eq!(run.ids(), [""; 0], "{run:?}");
}

#[test]
fn a_copy_without_its_event_is_still_waited_for() {
    let run = failing("fail=cuEventRecord:1:999", |ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let mut target = device(&stream, 0)?;
        let mut lease = pool.acquire()?;
        lease.as_mut_slice()?.fill(7);
        let refused = lease.upload(&stream, &mut target);
        let error = refused.expect_err("the event is not recorded").to_string();
        assert!(
            error.starts_with("recording the event behind a copy: "),
            "{error}"
        );
        // The copy may be queued all the same: nobody gets the buffer before it is certain that it has run.
        drop(lease);
        assert!(pool.try_acquire()?.is_none());
        pool.acquire()?.as_mut_slice()?.fill(9);
        assert_eq!(stream.clone_dtoh(&target)?, [7; LEN]);
        stream.synchronize()?;
        Ok(())
    });
    assert_eq!(run.ids(), [""; 0], "{run:?}");
}

#[test]
fn a_driver_that_fails_in_the_wait_gets_the_buffer_leaked() {
    let run = failing("fail=cuEventSynchronize:2:999", |ctx| {
        let stream = ctx.default_stream();
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let source = device(&stream, 7)?;
        let mut lease = pool.acquire()?;
        lease.download(&stream, &source)?;
        drop((lease, pool));
        stream.synchronize()?;
        Ok(())
    });
    // The wait in the destructor failed, and the buffer is leaked; a free in flight would be H03.
    assert_eq!(run.ids(), ["H27", "H28"], "{run:?}");
}

/// The check that all tests above lean on can fail: cudarc's own pinned memory on the default stream is not waited for.
#[test]
fn a_missing_wait_is_found() {
    if !orders::has_model() {
        return;
    }
    let run = Run::new("schedule=last", |ctx| {
        let stream = ctx.default_stream();
        let source = device(&stream, 7)?;
        // SAFETY: the memory is filled before anything reads it.
        let mut host = unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0) }?;
        host.as_mut_slice()?.fill(1);
        stream.memcpy_dtoh(&source, &mut host)?;
        assert_eq!(lab::probe(host.as_slice()?), 1);
        stream.synchronize()?;
        Ok(())
    });
    assert_eq!(run.ids(), ["H01"], "{run:?}");
}

#[test]
fn flags_are_zero_and_pages_are_there() {
    on_the_model("schedule=last", |ctx| {
        let pool = Pool::<u32>::new(ctx, 1, LEN)?;
        let lease = pool.acquire()?;
        let mut flags = u32::MAX;
        let address = lease.as_slice()?.as_ptr().cast_mut().cast();
        // SAFETY: the out-pointer is valid; the address is only looked up.
        unsafe { sys::cuMemHostGetFlags(&mut flags, address) }.result()?;
        assert_eq!(flags & sys::CU_MEMHOSTALLOC_WRITECOMBINED, 0);
        assert_eq!(pool.pinned_bytes(), LEN * size_of::<u32>());
        assert_eq!(pool.buffer_len(), LEN);
        Ok(())
    });
}
