//! Every kernel of `lab` against the same computed in Rust, for lengths around the size of a block.

use std::sync::Arc;

use anyhow::Result;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use lab::kernels::{Checksum, FillPattern, Matvec, Relu, ReluBackward, Saxpy, Scale};

const LENGTHS: [usize; 6] = [0, 1, 255, 256, 257, 10_000];

/// A stream with as many values, which are no round numbers.
fn values(len: usize, seed: u32) -> Vec<f32> {
    (0..len as u32)
        .map(|index| (index.wrapping_mul(2_654_435_761).wrapping_add(seed) as i32) as f32 / 3e7)
        .collect()
}

fn upload(stream: &Arc<CudaStream>, values: &[f32]) -> Result<CudaSlice<f32>> {
    // No allocation is empty.
    let mut slice = stream.alloc_zeros(values.len().max(1))?;
    if values.is_empty() {
        return Ok(stream.null()?);
    }
    stream.memcpy_htod(values, &mut slice)?;
    Ok(slice)
}

fn stream() -> Result<Arc<CudaStream>> {
    Ok(CudaContext::new(0)?.new_stream()?)
}

#[test]
fn fill_pattern_writes_a_progression() -> Result<()> {
    let stream = stream()?;
    let kernel = FillPattern::load(stream.context())?;
    for len in &LENGTHS[1..] {
        let mut out = stream.alloc_zeros::<u32>(*len)?;
        kernel.launch(&stream, &mut out, u32::MAX - 3, 7)?;
        let read = stream.clone_dtoh(&out)?;
        stream.synchronize()?;
        let expected = (0..*len as u32).map(|i| (u32::MAX - 3).wrapping_add(i.wrapping_mul(7)));
        assert!(read.into_iter().eq(expected), "{len}");
    }
    Ok(())
}

#[test]
fn scale_multiplies_in_place() -> Result<()> {
    let stream = stream()?;
    let kernel = Scale::load(stream.context())?;
    for len in LENGTHS {
        let host = values(len, 1);
        let mut device = upload(&stream, &host)?;
        kernel.launch(&stream, &mut device, 0.3)?;
        if len > 0 {
            let read = stream.clone_dtoh(&device)?;
            stream.synchronize()?;
            let expected: Vec<f32> = host.iter().map(|value| value * 0.3).collect();
            assert_eq!(read, expected);
        }
    }
    Ok(())
}

#[test]
fn saxpy_rounds_once() -> Result<()> {
    let stream = stream()?;
    let kernel = Saxpy::load(stream.context())?;
    for len in &LENGTHS[1..] {
        let (x, y) = (values(*len, 2), values(*len, 3));
        let (dx, mut dy) = (upload(&stream, &x)?, upload(&stream, &y)?);
        kernel.launch(&stream, 1.7, &dx, &mut dy)?;
        let read = stream.clone_dtoh(&dy)?;
        stream.synchronize()?;
        let expected: Vec<f32> = x
            .iter()
            .zip(&y)
            .map(|(x, y)| 1.7f32.mul_add(*x, *y))
            .collect();
        assert_eq!(read, expected);
    }
    let (short, mut long) = (stream.alloc_zeros(1)?, stream.alloc_zeros(2)?);
    assert!(kernel.launch(&stream, 1.0, &short, &mut long).is_err());
    Ok(())
}

#[test]
fn relu_keeps_what_is_positive() -> Result<()> {
    let stream = stream()?;
    let kernel = Relu::load(stream.context())?;
    for len in &LENGTHS[1..] {
        let mut input = values(*len, 4);
        input[0] = f32::NAN;
        let (device, mut out) = (upload(&stream, &input)?, stream.alloc_zeros(*len)?);
        kernel.launch(&stream, &device, &mut out)?;
        let read = stream.clone_dtoh(&out)?;
        stream.synchronize()?;
        let expected: Vec<f32> = input.iter().map(|value| value.max(0.0)).collect();
        assert_eq!(read, expected);
    }
    Ok(())
}

#[test]
fn relu_backward_keeps_the_gradient_where_relu_was_open() -> Result<()> {
    let stream = stream()?;
    let kernel = ReluBackward::load(stream.context())?;
    for len in &LENGTHS[1..] {
        let mut out = values(*len, 7);
        out[0] = f32::NAN;
        let gradient = values(*len, 8);
        let (device, mut changed) = (upload(&stream, &out)?, upload(&stream, &gradient)?);
        kernel.launch(&stream, &device, &mut changed)?;
        let read = stream.clone_dtoh(&changed)?;
        stream.synchronize()?;
        let kept = |(out, gradient): (&f32, &f32)| if *out > 0.0 { *gradient } else { 0.0 };
        let expected: Vec<f32> = out.iter().zip(&gradient).map(kept).collect();
        assert_eq!(read, expected);
    }
    Ok(())
}

#[test]
fn matvec_adds_in_the_order_of_the_columns() -> Result<()> {
    let stream = stream()?;
    let kernel = Matvec::load(stream.context())?;
    for (rows, columns) in [(1, 1), (3, 5), (257, 31), (40, 300)] {
        let (matrix, x) = (values(rows * columns, 5), values(columns, 6));
        let (dm, dx) = (upload(&stream, &matrix)?, upload(&stream, &x)?);
        let mut dy = stream.alloc_zeros(rows)?;
        kernel.launch(&stream, &dm, &dx, &mut dy)?;
        let read = stream.clone_dtoh(&dy)?;
        stream.synchronize()?;
        let expected: Vec<f32> = matrix
            .chunks(columns)
            .map(|row| {
                row.iter()
                    .zip(&x)
                    .fold(0.0, |sum, (a, b)| a.mul_add(*b, sum))
            })
            .collect();
        assert_eq!(read, expected);
    }
    Ok(())
}

#[test]
fn checksum_adds_everything_once() -> Result<()> {
    let stream = stream()?;
    let (fill, checksum) = (
        FillPattern::load(stream.context())?,
        Checksum::load(stream.context())?,
    );
    for len in &LENGTHS[1..] {
        let mut device = stream.alloc_zeros::<u32>(*len)?;
        let mut sum = stream.alloc_zeros::<u32>(1)?;
        fill.launch(&stream, &mut device, 1 << 30, 3)?;
        checksum.launch(&stream, &device, &mut sum)?;
        let read = stream.clone_dtoh(&sum)?;
        stream.synchronize()?;
        let values = (0..*len as u32).map(|i| (1u32 << 30).wrapping_add(i.wrapping_mul(3)));
        assert_eq!(read, [values.fold(0, u32::wrapping_add)]);
    }
    Ok(())
}
