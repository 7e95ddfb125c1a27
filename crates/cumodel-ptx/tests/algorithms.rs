//! Whole kernels that nvrtc compiled, against the same thing written in Rust.
#![allow(
    clippy::single_range_in_vec_init,
    reason = "a list of ranges with one range is meant"
)]
mod support;
use support::{at, Arg, Device, Numbers};

const BASICS: &str = include_str!("kernels/basics.ptx");
const ALGORITHMS: &str = include_str!("kernels/algorithms.ptx");

const SIZES: [usize; 8] = [1, 2, 31, 32, 33, 255, 1000, 4099];

fn blocks(n: usize, block: u32) -> [u32; 3] {
    [(n as u32).div_ceil(block), 1, 1]
}

#[test]
fn saxpy_reads_and_writes_exactly_its_elements() {
    for n in SIZES {
        let device = Device::new(BASICS);
        let mut numbers = Numbers(n as u64);
        let x: Vec<f32> = (0..n).map(|_| numbers.float()).collect();
        let y: Vec<f32> = (0..n).map(|_| numbers.float()).collect();
        let (x_at, y_at) = (device.upload(&x), device.upload(&y));
        let executed = device
            .run(
                "saxpy",
                blocks(n, 96),
                [96, 1, 1],
                &[Arg::I(n as i64), Arg::F(2.5), at(x_at), at(y_at)],
            )
            .unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x.mul_add(2.5, *y)).collect();
        assert_eq!(device.download::<f32>(y_at, n), expected);
        let bytes = 4 * n as u64;
        assert_eq!(executed.reads, [x_at..x_at + bytes, y_at..y_at + bytes]);
        assert_eq!(executed.writes, [y_at..y_at + bytes]);
        // 20 instructions for a thread with an element, 11 for one without.
        let threads = n.next_multiple_of(96) as u64;
        assert_eq!(
            executed.instructions,
            20 * n as u64 + 11 * (threads - n as u64)
        );
    }
}

#[test]
fn fill_strides_over_the_grid() {
    for n in SIZES {
        let device = Device::new(BASICS);
        let out = device.upload(&vec![0u32; n]);
        let executed = device
            .run(
                "fill",
                [3, 1, 1],
                [64, 1, 1],
                &[at(out), Arg::I(n as i64), Arg::I(77)],
            )
            .unwrap();
        let expected: Vec<u32> = (0..n as u32)
            .map(|i| 77 ^ i.wrapping_mul(2_654_435_761))
            .collect();
        assert_eq!(device.download::<u32>(out, n), expected);
        assert_eq!(executed.reads, []);
        assert_eq!(executed.writes, [out..out + 4 * n as u64]);
    }
}

#[test]
fn matvec_of_odd_sizes() {
    for (rows, columns) in [(1, 1), (7, 3), (33, 100), (130, 31)] {
        let device = Device::new(BASICS);
        let mut numbers = Numbers(rows as u64);
        let m: Vec<f32> = (0..rows * columns).map(|_| numbers.float()).collect();
        let v: Vec<f32> = (0..columns).map(|_| numbers.float()).collect();
        let out = device.upload(&vec![0f32; rows]);
        let params = [
            at(device.upload(&m)),
            at(device.upload(&v)),
            at(out),
            Arg::I(rows as i64),
            Arg::I(columns as i64),
        ];
        device
            .run("matvec", blocks(rows, 64), [64, 1, 1], &params)
            .unwrap();
        let expected: Vec<f32> = m
            .chunks(columns)
            .map(|row| {
                row.iter()
                    .zip(&v)
                    .fold(0.0, |sum, (m, v)| m.mul_add(*v, sum))
            })
            .collect();
        assert_eq!(device.download::<f32>(out, rows), expected);
    }
}

#[test]
fn sums_in_shared_memory() {
    for n in SIZES {
        let device = Device::new(ALGORITHMS);
        let values: Vec<i32> = (0..n as i32).map(|i| i * 1001 - 77).collect();
        let grid = blocks(n, 256);
        let out = device.upload(&vec![0i64; grid[0] as usize]);
        let input = device.upload(&values);
        device
            .run(
                "block_sums",
                grid,
                [256, 1, 1],
                &[at(input), at(out), Arg::I(n as i64)],
            )
            .unwrap();
        let expected: Vec<i64> = values
            .chunks(256)
            .map(|chunk| chunk.iter().map(|&v| i64::from(v)).sum())
            .collect();
        assert_eq!(device.download::<i64>(out, expected.len()), expected);
    }
}

#[test]
fn histograms_by_atomics() {
    for (n, count) in [(1, 1), (1000, 7), (4099, 64), (100_000, 251)] {
        let device = Device::new(ALGORITHMS);
        let mut numbers = Numbers(count as u64);
        let values: Vec<u8> = (0..n).map(|_| numbers.next() as u8).collect();
        let bins = device.upload(&vec![0u32; count]);
        let input = device.upload(&values);
        let params = [at(input), at(bins), Arg::I(n as i64), Arg::I(count as i64)];
        let executed = device
            .run_with(
                "histogram",
                [5, 1, 1],
                [128, 1, 1],
                4 * count as u32,
                &params,
                1 << 30,
            )
            .unwrap();
        let mut expected = vec![0u32; count];
        for value in values {
            expected[usize::from(value) % count] += 1;
        }
        assert_eq!(device.download::<u32>(bins, count), expected);
        // Atomics count as reads and as writes; the input may lie right behind the bins.
        let bins_range = bins..bins + 4 * count as u64;
        assert!(executed
            .reads
            .iter()
            .any(|range| range.start == bins && range.end >= bins_range.end));
        assert_eq!(executed.writes, [bins_range]);
    }
}

#[test]
fn tiled_products_of_odd_sizes() {
    for (rows, inner, columns) in [(1, 1, 1), (16, 16, 16), (17, 5, 33), (50, 49, 31)] {
        let device = Device::new(ALGORITHMS);
        let mut numbers = Numbers(inner as u64);
        let a: Vec<f32> = (0..rows * inner).map(|_| numbers.float()).collect();
        let b: Vec<f32> = (0..inner * columns).map(|_| numbers.float()).collect();
        let c = device.upload(&vec![0f32; rows * columns]);
        let grid = [(columns as u32).div_ceil(16), (rows as u32).div_ceil(16), 1];
        let params = [at(device.upload(&a)), at(device.upload(&b)), at(c)];
        let sizes = [rows, inner, columns].map(|size| Arg::I(size as i64));
        device
            .run("matmul", grid, [16, 16, 1], &[&params[..], &sizes].concat())
            .unwrap();
        let found = device.download::<f32>(c, rows * columns);
        for row in 0..rows {
            for column in 0..columns {
                let sum = (0..inner).fold(0f32, |sum, k| {
                    a[row * inner + k].mul_add(b[k * columns + column], sum)
                });
                assert_eq!(found[row * columns + column], sum, "{row} {column}");
            }
        }
    }
}

#[test]
fn prefix_sums_by_shuffles() {
    for n in [1, 31, 32, 33, 100, 1000, 1024] {
        let device = Device::new(ALGORITHMS);
        let mut numbers = Numbers(n as u64);
        let values: Vec<u32> = (0..n).map(|_| numbers.next() as u32).collect();
        let out = device.upload(&vec![0u32; n]);
        let block = [n.next_multiple_of(32) as u32, 1, 1];
        device
            .run(
                "prefix_sum",
                [1, 1, 1],
                block,
                &[at(device.upload(&values)), at(out), Arg::I(n as i64)],
            )
            .unwrap();
        let expected: Vec<u32> = values
            .iter()
            .scan(0u32, |sum, value| {
                *sum = sum.wrapping_add(*value);
                Some(*sum)
            })
            .collect();
        assert_eq!(device.download::<u32>(out, n), expected);
    }
}

#[test]
fn the_last_block_adds_up() {
    for n in SIZES {
        let device = Device::new(ALGORITHMS);
        let values: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
        let (partial, out) = (device.upload(&[0f32; 40]), device.upload(&[0f32]));
        let params = [
            at(device.upload(&values)),
            at(partial),
            at(out),
            Arg::I(n as i64),
        ];
        device
            .run("sum_by_last_block", [40, 1, 1], [96, 1, 1], &params)
            .unwrap();
        // Small integers, so that the order of additions does not show.
        assert_eq!(device.download::<f32>(out, 1), [values.iter().sum::<f32>()]);
        // The ticket wraps to zero for the next launch.
        device
            .run("sum_by_last_block", [40, 1, 1], [96, 1, 1], &params)
            .unwrap();
        assert_eq!(device.download::<f32>(out, 1), [values.iter().sum::<f32>()]);
    }
}

fn fibonacci(n: u32) -> u32 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

#[test]
fn calls_by_name_by_pointer_and_by_themselves() {
    let device = Device::new(ALGORITHMS);
    let n = 1000;
    let out = device.upload(&vec![0i32; n]);
    device
        .run(
            "calls",
            blocks(n, 128),
            [128, 1, 1],
            &[at(out), Arg::I(n as i64)],
        )
        .unwrap();
    let table = [1, -2, 3, -4, 5, -6, 7, -8];
    let expected: Vec<i32> = (0..n as i32)
        .map(|i| {
            let mut local = [0; 8];
            for k in 0..8 {
                local[((k + i) % 8) as usize] = table[k as usize] * i;
            }
            let value = local[(i % 7) as usize];
            let called = if i % 2 == 0 { 2 * value } else { value * value };
            called + fibonacci(i as u32 % 11) as i32 + (3 * i) + i
        })
        .collect();
    assert_eq!(device.download::<i32>(out, n), expected);
}

#[test]
fn library_functions_within_their_documented_error() {
    let device = Device::new(ALGORITHMS);
    let mut values: Vec<f32> = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-30,
        3.5,
        1000.0,
        -12_345.678,
        3.0e7,
        1e10,
    ];
    let mut numbers = Numbers(9);
    values.extend((0..990).map(|_| numbers.float() * 20.0));
    let n = values.len();
    let out = device.upload(&vec![0f32; 9 * n]);
    device
        .run(
            "math",
            blocks(n, 128),
            [128, 1, 1],
            &[at(device.upload(&values)), at(out), Arg::I(n as i64)],
        )
        .unwrap();
    let found = device.download::<f32>(out, 9 * n);
    for (&x, found) in values.iter().zip(found.chunks(9)) {
        let x = f64::from(x);
        // Units in the last place that the CUDA programming guide allows; erff is compared where its series is short.
        let exact = [
            x.sin(),
            x.cos(),
            x.exp(),
            x.abs().ln(),
            x.abs().sqrt(),
            x.abs().sqrt().recip(),
            x.tanh(),
            x.abs().powf(1.7f32.into()),
        ];
        for ((exact, allowed), found) in exact
            .into_iter()
            .zip([2.0, 2.0, 2.0, 1.0, 0.5, 2.0, 2.0, 4.0])
            .zip(found)
        {
            let rounded = exact as f32;
            if rounded.is_infinite() || *found == rounded {
                assert_eq!(*found, rounded, "of {x}");
                continue;
            }
            let unit = f64::from(rounded.abs().next_up() - rounded.abs());
            assert!(
                (f64::from(*found) - exact).abs() <= (allowed + 0.5) * unit,
                "{found} instead of {exact} of {x}"
            );
        }
    }
}

#[test]
fn library_functions_in_double_precision() {
    let device = Device::new(ALGORITHMS);
    let mut values: Vec<f64> = vec![
        0.0, -0.0, 1.0, -1.0, 1e-300, 700.0, -700.0, 1e5, -2.5e9, 1e22, 1e300,
    ];
    let mut numbers = Numbers(3);
    values.extend((0..500).map(|_| f64::from(numbers.float()) * 30.0));
    let n = values.len();
    let out = device.upload(&vec![0f64; 8 * n]);
    let params = [at(device.upload(&values)), at(out), Arg::I(n as i64)];
    device
        .run("math_double", blocks(n, 64), [64, 1, 1], &params)
        .unwrap();
    let found = device.download::<f64>(out, 8 * n);
    for (&x, found) in values.iter().zip(found.chunks(8)) {
        let exact = [
            x.sin(),
            x.cos(),
            x.exp(),
            x.abs().ln(),
            x.abs().powf(1.5),
            x.tanh(),
            x.cbrt(),
            x / 3.0,
        ];
        for (exact, found) in exact.into_iter().zip(found) {
            if *found == exact {
                continue;
            }
            // At most 2 units in the last place, says the CUDA programming guide, and one for the host's own library.
            let unit = exact.abs().next_up() - exact.abs();
            assert!(
                (found - exact).abs() <= 3.0 * unit,
                "{found} instead of {exact} of {x}"
            );
        }
    }
}

#[test]
fn switches_with_loops_in_their_arms() {
    let device = Device::new(ALGORITHMS);
    for n in SIZES {
        let values: Vec<i32> = (0..n as i32).map(|i| (i * 7 + i / 3) % 9).collect();
        let out = device.upload(&vec![0i32; n]);
        device
            .run(
                "jumps",
                blocks(n, 128),
                [128, 1, 1],
                &[at(device.upload(&values)), at(out), Arg::I(n as i64)],
            )
            .unwrap();
        let expected: Vec<i32> = (0..n)
            .map(|i| {
                let (v, next) = (values[i], |d: usize| values[(i + d) % n]);
                match v {
                    0 => next(1) * 3,
                    1 => v - next(2),
                    2 => next(3).count_ones() as i32,
                    3 => (0..i as i32 % 5)
                        .fold(next(4) ^ 77, |r, k| r.wrapping_mul(31).wrapping_add(k)),
                    4 => (i as u32).leading_zeros() as i32,
                    5 => (i as i32).reverse_bits(),
                    6 => i as i32 / (v + next(5) + 1),
                    _ => -v,
                }
            })
            .collect();
        assert_eq!(device.download::<i32>(out, n), expected);
    }
}
