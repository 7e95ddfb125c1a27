//! Kernels that listings launch: something that produces values on the device, and something that uses them.
//!
//! Each is CUDA C in `kernels/` with the PTX for compute_80 beside it, so that no listing needs a compiler.
//! `cargo xtask bless` compiles them again where it finds nvrtc 12.8; a driver must know CUDA 12.8 to load them.
//!
//! A launch is asynchronous: it is ordered by its stream alone, and none of these functions waits for anything.
//! With cudarc's event tracking on, a launch does what every launch of cudarc does: its stream waits for the last uses of
//! the slices on other streams, and their events are recorded behind it.
//! The error of a launch is that of the call; what goes wrong while the kernel runs comes with a later call.

use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

/// Threads of a block.
const BLOCK: u32 = 256;

macro_rules! kernels {
    ($($(#[doc = $doc:literal])* $name:ident $file:literal;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug)]
            pub struct $name(CudaFunction);

            impl $name {
                /// Loads the kernel into a context, before the first launch.
                ///
                /// # Errors
                /// When the driver refuses its PTX.
                pub fn load(ctx: &Arc<CudaContext>) -> Result<$name> {
                    load(ctx, $file).map($name)
                }
            }
        )*

        /// The kernels by name, each with its PTX; `kernels/<name>.cu` and `kernels/<name>.ptx` are the files.
        pub const ALL: &[(&str, &str)] = &[
            $(($file, include_str!(concat!("../kernels/", $file, ".ptx"))),)*
        ];
    };
}

kernels! {
    /// Writes an arithmetic progression.
    FillPattern "fill_pattern";
    /// Multiplies in place.
    Scale "scale";
    /// Adds a multiple of one vector to another.
    Saxpy "saxpy";
    /// Replaces negative values by 0.
    Relu "relu";
    /// Takes a gradient back through [`Relu`].
    ReluBackward "relu_backward";
    /// Multiplies a matrix and a vector.
    Matvec "matvec";
    /// Adds all values.
    Checksum "checksum";
}

impl FillPattern {
    /// Queues `out[i] = first + i * step`, modulo 2^32; with `step` 0 all values are `first`.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        out: &mut CudaSlice<u32>,
        first: u32,
        step: u32,
    ) -> Result<()> {
        let len = out.len();
        let Some(config) = one_thread_each(len)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(out).arg(&len).arg(&first).arg(&step);
        // SAFETY: the arguments are those of the kernel, which writes `len` values.
        unsafe { launch.launch(config) }.context("launching fill_pattern")?;
        Ok(())
    }
}

impl Scale {
    /// Queues `values[i] *= factor`.
    ///
    /// # Errors
    /// When the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        values: &mut CudaSlice<f32>,
        factor: f32,
    ) -> Result<()> {
        let len = values.len();
        let Some(config) = one_thread_each(len)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(values).arg(&len).arg(&factor);
        // SAFETY: the arguments are those of the kernel, which reads and writes `len` values.
        unsafe { launch.launch(config) }.context("launching scale")?;
        Ok(())
    }
}

impl Saxpy {
    /// Queues `y[i] = a * x[i] + y[i]`, rounded once, as `f32::mul_add` does.
    ///
    /// # Errors
    /// When the vectors have different lengths, or the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        a: f32,
        x: &CudaSlice<f32>,
        y: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let len = x.len();
        ensure!(
            y.len() == len,
            "saxpy adds vectors of one length, not of {len} and {}",
            y.len()
        );
        let Some(config) = one_thread_each(len)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(&a).arg(x).arg(y).arg(&len);
        // SAFETY: the arguments are those of the kernel, which reads `len` values of each vector and writes those of `y`.
        unsafe { launch.launch(config) }.context("launching saxpy")?;
        Ok(())
    }
}

impl Relu {
    /// Queues `out[i] = max(input[i], 0)`; a NaN becomes 0.
    ///
    /// # Errors
    /// When the slices have different lengths, or the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        input: &CudaSlice<f32>,
        out: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let len = input.len();
        ensure!(
            out.len() == len,
            "relu writes as many values as it reads, not {} for {len}",
            out.len()
        );
        let Some(config) = one_thread_each(len)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(input).arg(out).arg(&len);
        // SAFETY: the arguments are those of the kernel, which reads and writes `len` values.
        unsafe { launch.launch(config) }.context("launching relu")?;
        Ok(())
    }
}

impl ReluBackward {
    /// Queues `gradient[i] = 0` wherever `out[i]`, what [`Relu`] has written, is not above 0.
    ///
    /// # Errors
    /// When the slices have different lengths, or the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        out: &CudaSlice<f32>,
        gradient: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let len = out.len();
        ensure!(
            gradient.len() == len,
            "a gradient has as many values as the layer, not {} for {len}",
            gradient.len()
        );
        let Some(config) = one_thread_each(len)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(out).arg(gradient).arg(&len);
        // SAFETY: the arguments are those of the kernel, which reads `len` values of each slice and writes the gradient.
        unsafe { launch.launch(config) }.context("launching relu_backward")?;
        Ok(())
    }
}

impl Matvec {
    /// Queues `y = matrix * x`: the matrix has as many rows as `y` has values and as many columns as `x`, row by row.
    ///
    /// The products of a row are added in the order of its columns, each step rounded once.
    ///
    /// # Errors
    /// When the sizes do not fit, or the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        matrix: &CudaSlice<f32>,
        x: &CudaSlice<f32>,
        y: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let (rows, columns) = (y.len(), x.len());
        ensure!(
            rows.checked_mul(columns) == Some(matrix.len()),
            "a matrix of {rows} rows and {columns} columns does not have {} values",
            matrix.len()
        );
        let Some(config) = one_thread_each(rows)? else {
            return Ok(());
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(matrix).arg(x).arg(y).arg(&rows).arg(&columns);
        // SAFETY: the arguments are those of the kernel, which reads rows * columns values of the matrix and all of `x`,
        // and writes all of `y`.
        unsafe { launch.launch(config) }.context("launching matvec")?;
        Ok(())
    }
}

impl Checksum {
    /// Queues `sum[0] = ` the sum of all values, modulo 2^32.
    ///
    /// # Errors
    /// When `sum` does not have exactly one value, or the driver refuses the launch.
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        values: &CudaSlice<u32>,
        sum: &mut CudaSlice<u32>,
    ) -> Result<()> {
        let len = values.len();
        ensure!(
            sum.len() == 1,
            "a checksum is one value, and there are {}",
            sum.len()
        );
        let config = LaunchConfig {
            grid_dim: (1, 1, 1),
            block_dim: (BLOCK, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&self.0);
        launch.arg(values).arg(&len).arg(sum);
        // SAFETY: the arguments are those of the kernel, which reads `len` values, writes one, and is made for one block
        // of this size.
        unsafe { launch.launch(config) }.context("launching checksum")?;
        Ok(())
    }
}

/// The PTX of a kernel of this module, compiled for compute_80.
pub fn ptx(name: &str) -> Option<&'static str> {
    ALL.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, ptx)| *ptx)
}

fn load(ctx: &Arc<CudaContext>, name: &str) -> Result<CudaFunction> {
    let ptx = ptx(name).with_context(|| format!("there is no kernel {name}"))?;
    let module = ctx
        .load_module(Ptx::from_src(ptx))
        .with_context(|| format!("loading the kernel {name}"))?;
    module
        .load_function(name)
        .with_context(|| format!("finding the kernel {name} in its module"))
}

/// A grid of one thread for each of `len` values; nothing when there is no value, because no grid is empty.
fn one_thread_each(len: usize) -> Result<Option<LaunchConfig>> {
    let blocks = u32::try_from(len.div_ceil(BLOCK as usize))
        .ok()
        .filter(|&blocks| blocks <= i32::MAX as u32);
    let blocks = blocks.with_context(|| format!("{len} values are too many for one grid"))?;
    Ok((blocks > 0).then_some(LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_thread_and_no_grid_is_empty() {
        let blocks = |len| {
            let config = one_thread_each(len).expect("it fits");
            config.map(|config| config.grid_dim)
        };
        assert_eq!(blocks(0), None);
        assert_eq!(blocks(1), Some((1, 1, 1)));
        assert_eq!(blocks(256), Some((1, 1, 1)));
        assert_eq!(blocks(257), Some((2, 1, 1)));
        assert!(one_thread_each(usize::MAX).is_err());
    }
}
