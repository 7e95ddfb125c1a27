//! What the tests share: a device with one memory, and kernels on it.
#![allow(dead_code, reason = "each test target uses a part")]
mod flat;

use cumodel_ptx::{Executed, Launch, Memory, Module, Stopped};
pub use flat::FlatMemory;
use std::sync::atomic::{AtomicU64, Ordering};

/// A module with its variables, and memory for buffers.
pub struct Device {
    pub module: Module,
    pub memory: FlatMemory,
    pub globals: Vec<u64>,
    next: AtomicU64,
}

pub const BASE: u64 = 0x7f00_0000_0000;

impl Device {
    pub fn new(ptx: &str) -> Device {
        Device::with_memory(ptx, 1 << 22)
    }

    pub fn with_memory(ptx: &str, bytes: usize) -> Device {
        let module = Module::load(ptx).unwrap();
        let memory = FlatMemory::new(BASE, bytes);
        let mut device = Device {
            module,
            memory,
            globals: Vec::new(),
            next: AtomicU64::new(BASE),
        };
        device.globals = device
            .module
            .globals()
            .iter()
            .map(|global| device.allocate(global.size()))
            .collect();
        for (global, &address) in device.module.globals().iter().zip(&device.globals) {
            device
                .memory
                .store(address, &global.initial_bytes(&device.globals))
                .unwrap();
        }
        device
    }

    pub fn allocate(&self, bytes: usize) -> u64 {
        self.next
            .fetch_add(bytes.next_multiple_of(256) as u64, Ordering::Relaxed)
    }

    pub fn upload<T: Value>(&self, values: &[T]) -> u64 {
        let address = self.allocate(std::mem::size_of_val(values));
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        self.memory.store(address, &bytes).unwrap();
        address
    }

    pub fn download<T: Value>(&self, address: u64, count: usize) -> Vec<T> {
        let size = std::mem::size_of::<T>();
        let mut bytes = vec![0; count * size];
        self.memory.load(address, &mut bytes).unwrap();
        bytes.chunks_exact(size).map(T::from_bytes).collect()
    }

    pub fn run(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        params: &[Arg],
    ) -> Result<Executed, Box<Stopped>> {
        self.run_with(kernel, grid, block, 0, params, 1 << 32)
    }

    pub fn run_with(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        params: &[Arg],
        budget: u64,
    ) -> Result<Executed, Box<Stopped>> {
        let kernel = self.module.kernel(kernel).unwrap();
        let mut bytes = vec![0; kernel.param_bytes()];
        assert_eq!(kernel.params().len(), params.len());
        for (place, param) in kernel.params().iter().zip(params) {
            bytes[place.offset..][..place.size].copy_from_slice(&param.bytes()[..place.size]);
        }
        let launch = Launch {
            grid,
            block,
            dynamic_shared,
            params: &bytes,
            globals: &self.globals,
            budget,
            cores: 2,
        };
        self.module.run(kernel, &launch, &self.memory)
    }
}

/// A kernel's argument.
#[derive(Clone, Copy)]
pub enum Arg {
    I(i64),
    F(f32),
}

impl Arg {
    fn bytes(self) -> [u8; 8] {
        match self {
            Arg::I(value) => value.to_le_bytes(),
            Arg::F(value) => u64::from(value.to_bits()).to_le_bytes(),
        }
    }
}

/// A pointer argument.
pub fn at(address: u64) -> Arg {
    Arg::I(address as i64)
}

/// A value in memory.
pub trait Value: Copy {
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! value {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                <$ty>::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}
value!(u8, u16, u32, u64, i32, i64, f32, f64);

/// Numbers that look random and are the same every time.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Between -1 and 1.
    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
