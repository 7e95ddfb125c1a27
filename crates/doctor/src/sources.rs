//! Who says so. Each is listed on the book's page of sources, too.

/// A source.
#[derive(Debug)]
pub struct Source {
    /// Who says it.
    pub title: &'static str,
    /// Where.
    pub url: &'static str,
    /// When it was written, or when we read it.
    pub date: &'static str,
}

macro_rules! sources {
    ($($name:ident = $title:literal, $url:literal, $date:literal;)*) => {
        $(#[doc = $title] pub static $name: Source = Source { title: $title, url: $url, date: $date };)*
    };
}

sources! {
    GDRCOPY = "NVIDIA, gdrcopy's tests", "https://github.com/NVIDIA/gdrcopy", "2026-06-15";
    RMM = "RAPIDS memory manager", "https://github.com/rapidsai/rmm", "2026-07-02";
    CUDA_MEMORY = "CUDA driver API: memory management", "https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html", "CUDA 13.x";
    GRACE_SETTINGS = "NVIDIA, Grace tuning guide: OS settings", "https://docs.nvidia.com/grace-perf-tuning-guide/os-settings.html", "read 2026-11";
    GRACE_PLATFORM = "NVIDIA, Grace benchmarking guide: platform", "https://nvidia.github.io/grace-cpu-benchmarking-guide/platform/index.html", "read 2026-11";
    COHERENT_MEMORY = "NVIDIA, memory management on hardware-coherent platforms", "https://developer.nvidia.com/blog/understanding-memory-management-on-hardware-coherent-platforms", "2025-10-14";
    HUGE_PAGES = "Linux: transparent huge pages", "https://docs.kernel.org/admin-guide/mm/transhuge.html", "read 2026-11";
    VM_SYSCTL = "Linux: vm sysctls", "https://docs.kernel.org/admin-guide/sysctl/vm.html", "read 2026-11";
    KERNEL_SYSCTL = "Linux: kernel sysctls", "https://docs.kernel.org/admin-guide/sysctl/kernel.html", "read 2026-11";
    MLOCK = "mlock(2)", "https://man7.org/linux/man-pages/man2/mlock.2.html", "read 2026-11";
    CGROUP = "Linux: control groups, version 2", "https://docs.kernel.org/admin-guide/cgroup-v2.html", "current";
    CSCS = "CSCS documentation for Alps", "https://github.com/eth-cscs/cscs-docs", "2026";
    TWO_GH200 = "user report: two GH200", "https://dnhkng.github.io/posts/gh200-benchmarking/", "2026-04-25";
    TORCHTITAN = "user report: GB200, torchtitan 3489", "https://github.com/pytorch/torchtitan/pull/3489", "2026-06-02";
    XLA = "user report: DGX H100, XLA 21708", "https://github.com/openxla/xla/pull/21708", "2025-01-22";
    NVBANDWIDTH = "user report: NUMA nodes of a GH200, nvbandwidth 23", "https://github.com/NVIDIA/nvbandwidth/issues/23", "2024-08-23";
    TENSORRT = "user report: page cache in GPU memory, TensorRT-LLM 13955", "https://github.com/NVIDIA/TensorRT-LLM/pull/13955", "2026-05-10";
    SPARKRING = "user report: GB10 after seven days, sparkring 173", "https://github.com/FujitsuPolycom/sparkring/issues/173", "2026-09-02";
    DRIVER_LOCK = "user report: compaction under the driver's lock, open-gpu-kernel-modules 1383", "https://github.com/NVIDIA/open-gpu-kernel-modules/pull/1383", "2026-09-22";
    ROUNDING = "user report: pinned memory rounded up, Soup 989", "https://github.com/MakazhanAlpamys/Soup/pull/989", "2026-09-15";
    PINNED_OPTIONS = "PyTorch 164501, and the headers of 2.15.0", "https://github.com/pytorch/pytorch/pull/164501", "2025-10";
    MIMALLOC_IN_PYTORCH = "PyTorch 164741, and the wheel of 2.15.0", "https://github.com/pytorch/pytorch/pull/164741", "2025-10";
    MIMALLOC = "mimalloc: environment options", "https://microsoft.github.io/mimalloc/environment.html", "read 2026-11-30";
    WSL = "user report: pinned memory under WSL2, WSL 14078", "https://github.com/microsoft/WSL/issues/14078", "2026-01-17";
    LMCACHE = "user report: registrations beyond 512 GiB, LMCache 5177", "https://github.com/LMCache/LMCache/pull/5177", "2026-08-04";
    COSMOS = "user report: copies from file mappings, cosmos-framework 55", "https://github.com/NVIDIA/cosmos-framework/pull/55", "2026-06-24";
    VORTEX = "user report: write-combined on a GH200, vortex 7815", "https://github.com/vortex-data/vortex/pull/7815", "2026-05-06";
}
