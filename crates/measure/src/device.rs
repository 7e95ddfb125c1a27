//! The CUDA device: two streams, memory, and copies between it and the host.

use std::ptr::NonNull;
use std::sync::Arc;

use anyhow::{Context, Result};
use cudarc::driver::{result, sys, CudaContext, CudaStream};
use lab::Driver;

use crate::machine::Device;
use crate::nvml;

/// The first CUDA device.
pub struct Gpu {
    context: Arc<CudaContext>,
    streams: [Arc<CudaStream>; 2],
    /// What the record says of it.
    pub about: Device,
}

impl Gpu {
    /// Opens the first device of the driver that this process finds.
    ///
    /// # Errors
    /// When there is no driver or no device; the message is why device cases are waived.
    pub fn open() -> Result<Self> {
        // SAFETY: opening a driver library runs its initializers, which touch nothing of ours.
        if !unsafe { sys::is_culib_present() } {
            anyhow::bail!("no CUDA driver (libcuda.so) was found");
        }
        let (driver, simulated) = match lab::driver()? {
            Driver::Model { version } => (format!("model {version}"), true),
            Driver::Nvidia { version } => (format!("NVIDIA, CUDA {version}"), false),
        };
        let context = CudaContext::new(0).context("the CUDA driver opens no device")?;
        let stream = || context.new_stream().context("creating a stream");
        let attribute = |attribute| context.attribute(attribute).ok();
        use sys::CUdevice_attribute as Attribute;
        let host_page_tables =
            Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        let (c2c, no_c2c_because) = match simulated {
            true => (None, Some("the driver model has no links".to_owned())),
            false => match nvml::c2c_links(&context) {
                Ok(links) => (Some(links), None),
                Err(error) => (None, Some(format!("{error:#}"))),
            },
        };
        let about = Device {
            name: context.name().context("asking the device for its name")?,
            simulated,
            driver,
            uses_host_page_tables: attribute(host_page_tables).map(|value| value != 0),
            pageable_memory_access: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
            )
            .map(|value| value != 0),
            host_numa_id: attribute(Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID),
            c2c,
            no_c2c_because,
        };
        Ok(Self {
            streams: [stream()?, stream()?],
            context,
            about,
        })
    }

    /// The context, current in this thread.
    ///
    /// # Errors
    /// When the driver refuses to make it current.
    pub fn context(&self) -> Result<&Arc<CudaContext>> {
        self.context
            .bind_to_thread()
            .context("making the CUDA context current")?;
        Ok(&self.context)
    }

    /// One of its two streams.
    pub fn stream(&self, index: usize) -> &Arc<CudaStream> {
        &self.streams[index % self.streams.len()]
    }

    /// Waits until the first `streams` of its streams have done everything.
    ///
    /// # Errors
    /// When one of the copies failed.
    pub fn wait(&self, streams: usize) -> Result<()> {
        for stream in self.streams.iter().take(streams) {
            stream.synchronize().context("waiting for a copy")?;
        }
        Ok(())
    }
}

/// Memory of the device.
pub struct DeviceMemory {
    start: sys::CUdeviceptr,
    bytes: usize,
}

impl DeviceMemory {
    /// Allocates `bytes` in the current context.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn allocate(bytes: usize) -> Result<Self> {
        // SAFETY: the memory belongs to the value that is returned, and `drop` frees it.
        let start = unsafe { result::malloc_sync(bytes) }
            .with_context(|| format!("the device has no room for {bytes} bytes"))?;
        Ok(Self { start, bytes })
    }

    /// Queues a download of `bytes` from `offset` to host memory.
    ///
    /// # Safety
    /// The host memory has room, and is neither freed nor used until the stream has been waited for.
    ///
    /// # Errors
    /// When the driver refuses.
    pub unsafe fn download(
        &self,
        offset: usize,
        to: NonNull<u8>,
        bytes: usize,
        stream: &CudaStream,
    ) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        let from = self.start + offset as sys::CUdeviceptr;
        // SAFETY: the range is in this memory; the caller answers for the host's.
        unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_ptr().cast(), from, bytes, stream.cu_stream()) }
            .result()
            .with_context(|| format!("downloading {bytes} bytes"))
    }

    /// Queues an upload of `bytes` from host memory to `offset`.
    ///
    /// # Safety
    /// As for [`DeviceMemory::download`]; the host memory has been written.
    ///
    /// # Errors
    /// When the driver refuses.
    pub unsafe fn upload(
        &self,
        offset: usize,
        from: NonNull<u8>,
        bytes: usize,
        stream: &CudaStream,
    ) -> Result<()> {
        debug_assert!(offset + bytes <= self.bytes);
        let to = self.start + offset as sys::CUdeviceptr;
        // SAFETY: as above.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, stream.cu_stream()) }
            .result()
            .with_context(|| format!("uploading {bytes} bytes"))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the memory is ours; every copy with it was waited for before.
        let _ = unsafe { result::free_sync(self.start) };
    }
}
