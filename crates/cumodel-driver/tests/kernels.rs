//! Modules and launches on the model: codes, limits, faults, and where a kernel can reach.
//!
//! Each program runs in a process of its own (this test executes itself), because an error of a kernel stays.

use std::ffi::{c_int, c_void, CStr};
use std::process::{Command, ExitCode};
use std::{env, fs, ptr};

use cudarc::driver::sys::{self, CUfunction, CUmodule, CUresult};
use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Failed, Trial};

/// Kernels that no compiler would write.
const ODD: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 7;
.const .align 8 .u64 limit = 5;
.visible .entry bump()
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  mov.u64 %rd1, counter;
  atom.global.add.u32 %r1, [%rd1], 1;
  ret;
}
.visible .entry store(.param .u64 p)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, 9;
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry stop()
{
  trap;
}
.visible .entry spin()
{
$L_again:
  bra $L_again;
}
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) ;
.global .align 1 .b8 what[8] = {108, 101, 110, 32, 62, 32, 48, 0};
.global .align 1 .b8 place[5] = {97, 46, 99, 117, 0};
.visible .entry check()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, what;
  cvta.global.u64 %rd1, %rd1;
  mov.u64 %rd2, place;
  cvta.global.u64 %rd2, %rd2;
  {
  .param .b64 p0;
  st.param.b64 [p0], %rd1;
  .param .b64 p1;
  st.param.b64 [p1], %rd2;
  .param .b32 p2;
  st.param.b32 [p2], 12;
  .param .b64 p3;
  st.param.b64 [p3], %rd2;
  .param .b64 p4;
  st.param.b64 [p4], 1;
  call.uni __assertfail, (p0, p1, p2, p3, p4);
  }
  ret;
}
.visible .entry small() .maxntid 64, 1, 1
{
  ret;
}
";

fn ok(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

fn load(image: &CStr) -> CUmodule {
    let mut module = ptr::null_mut();
    // SAFETY: the out-pointer is valid and the image ends with a NUL.
    ok(unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) });
    module
}

fn function(module: CUmodule, name: &CStr) -> CUfunction {
    let mut function = ptr::null_mut();
    // SAFETY: the out-pointer is valid and the name ends with a NUL.
    ok(unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) });
    function
}

fn odd(name: &CStr) -> CUfunction {
    function(load(ODD), name)
}

/// A launch on the default stream.
fn launch(kernel: CUfunction, grid: [u32; 3], block: [u32; 3], arguments: &mut [u64]) -> u32 {
    let mut pointers: Vec<*mut c_void> = arguments
        .iter_mut()
        .map(|it| ptr::from_mut(it).cast())
        .collect();
    let (stream, extra) = (ptr::null_mut(), ptr::null_mut());
    let pointers = pointers.as_mut_ptr();
    // SAFETY: there is an argument of 8 bytes for each parameter.
    let result = unsafe {
        sys::cuLaunchKernel(
            kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0, stream, pointers,
            extra,
        )
    };
    result as u32
}

fn launch_one(kernel: CUfunction, arguments: &mut [u64]) -> u32 {
    launch(kernel, [1; 3], [1; 3], arguments)
}

fn sync() -> u32 {
    // SAFETY: no arguments.
    unsafe { sys::cuCtxSynchronize() as u32 }
}

fn device(bytes: usize) -> u64 {
    let mut address = 0;
    // SAFETY: the out-pointer is valid, and the memory has the size.
    unsafe {
        ok(sys::cuMemAlloc_v2(&mut address, bytes));
        ok(sys::cuMemsetD8_v2(address, 0, bytes));
    }
    assert_eq!(sync(), 0);
    address
}

fn read(address: u64) -> u32 {
    let mut value = 0u32;
    // SAFETY: the callers name 4 bytes of live memory.
    ok(unsafe { sys::cuMemcpyDtoH_v2(ptr::from_mut(&mut value).cast(), address, 4) });
    value
}

/// Stores through `address`: the codes of the wait and of the call after it.
fn store_to(address: u64) -> String {
    assert_eq!(launch_one(odd(c"store"), &mut [address]), 0);
    format!("{} {}", sync(), sync())
}

fn load_code(image: *const c_void) -> u32 {
    let mut module = ptr::null_mut();
    // SAFETY: the out-pointer is valid; the image is null, or ends with a NUL.
    unsafe { sys::cuModuleLoadData(&mut module, image) as u32 }
}

fn attribute(kernel: CUfunction, number: u32) -> c_int {
    let mut value = 0;
    // SAFETY: every number below 10 is one of the enumeration, which counts from 0.
    unsafe {
        let attribute = std::mem::transmute::<u32, sys::CUfunction_attribute>(number);
        ok(sys::cuFuncGetAttribute(&mut value, attribute, kernel));
    }
    value
}

/// A program, what it prints, the hazards under `last`, and what a report or a refusal says.
struct Program {
    name: &'static str,
    run: fn() -> String,
    prints: &'static str,
    hazards: &'static [&'static str],
    says: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
}

const fn program(name: &'static str, run: fn() -> String, prints: &'static str) -> Program {
    Program {
        name,
        run,
        prints,
        hazards: &[],
        says: &[],
        settings: &[],
    }
}

impl Program {
    const fn hazards(mut self, hazards: &'static [&'static str]) -> Program {
        self.hazards = hazards;
        self
    }

    const fn says(mut self, says: &'static [&'static str]) -> Program {
        self.says = says;
        self
    }

    const fn with(mut self, settings: &'static [(&'static str, &'static str)]) -> Program {
        self.settings = settings;
        self
    }
}

const PROGRAMS: &[Program] = &[
    program(
        "a_wild_address_gives_700_and_stays",
        || {
            // The variables of the module come first, so that nothing lies behind the buffer.
            let kernel = odd(c"store");
            let address = device(4096);
            assert_eq!(launch_one(kernel, &mut [address + 4096 + 512]), 0);
            format!("{} {}", sync(), sync())
        },
        "700 700",
    )
    .hazards(&["H34"])
    .says(&[
        "kernel `store`, PTX line 21, block [0, 0, 0], thread [0, 0, 0]",
        "the nearest allocation is device #5, of 4096 bytes, which ends 512 bytes before it",
    ]),
    program("null_is_a_wild_address", || store_to(0), "700 700").hazards(&["H34"]),
    program(
        "a_misaligned_address_gives_716",
        || store_to(device(4096) + 2),
        "716 716",
    )
    .hazards(&["H34"])
    .says(&["no multiple of 4"]),
    program(
        "a_trap_gives_719",
        || {
            assert_eq!(launch_one(odd(c"stop"), &mut []), 0);
            format!("{} {}", sync(), sync())
        },
        "719 719",
    )
    .hazards(&["H34"]),
    program(
        "a_failed_assertion_gives_710",
        || {
            let result = launch(odd(c"check"), [1; 3], [64, 1, 1], &mut []);
            format!("{result} {} {}", sync(), sync())
        },
        "0 710 710",
    )
    .hazards(&["H34"])
    .says(&["the assertion `len > 0` failed at a.cu:12 in a.cu"]),
    program(
        "a_kernel_that_never_ends_gives_702",
        || {
            assert_eq!(launch_one(odd(c"spin"), &mut []), 0);
            format!("{} {}", sync(), sync())
        },
        "702 702",
    )
    .hazards(&["H34"])
    .with(&[("CUMODEL_KERNEL_BUDGET", "100000")])
    .says(&["may never end"]),
    program(
        "sizes_of_a_launch_have_limits",
        || {
            let (kernel, small) = (odd(c"bump"), odd(c"small"));
            let mut codes = Vec::new();
            for (grid, block) in [
                ([1, 1, 1], [1, 1, 1]),
                ([0, 1, 1], [1, 1, 1]),
                ([1, 65_536, 1], [1, 1, 1]),
                ([1, 1, 1], [1, 1, 0]),
                ([1, 1, 1], [1025, 1, 1]),
                ([1, 1, 1], [1, 1, 65]),
                ([1, 1, 1], [32, 32, 2]),
            ] {
                codes.push(launch(kernel, grid, block, &mut []));
            }
            codes.push(launch(small, [1; 3], [64, 1, 1], &mut []));
            codes.push(launch(small, [1; 3], [65, 1, 1], &mut []));
            let codes: Vec<String> = codes.iter().map(u32::to_string).collect();
            codes.join(" ")
        },
        "0 1 1 1 1 1 1 0 701",
    )
    .says(&[
        "gridDimX is 0",
        "blockDimZ is 65",
        "a block of 2048 threads",
        "65 threads is larger than the 64",
    ]),
    program(
        "what_is_no_module_has_a_code",
        || {
            let mut codes = vec![load_code(ptr::null())];
            for image in [
                c"hello",
                c"\x7fELF\x02\x01",
                c"\x50\xed\x55\xba\x01",
                c"\xff\xfe\xfd",
            ] {
                codes.push(load_code(image.as_ptr().cast()));
            }
            let mut module = ptr::null_mut();
            // SAFETY: the out-pointer is valid and the path ends with a NUL.
            let code = unsafe { sys::cuModuleLoad(&mut module, c"/nowhere/at/all.ptx".as_ptr()) };
            codes.push(code as u32);
            let codes: Vec<String> = codes.iter().map(u32::to_string).collect();
            codes.join(" ")
        },
        "1 218 209 209 200 301",
    )
    .says(&["compile to PTX", "/nowhere/at/all.ptx cannot be read"]),
    program(
        "names_that_are_not_there_give_500",
        || {
            let module = load(ODD);
            let (mut function, mut address, mut bytes) = (ptr::null_mut(), 0, 0);
            let nothing = c"nothing".as_ptr();
            // SAFETY: the out-pointers are valid and the name ends with a NUL.
            unsafe {
                let kernel = sys::cuModuleGetFunction(&mut function, module, nothing);
                let variable = sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, nothing);
                format!("{} {}", kernel as u32, variable as u32)
            }
        },
        "500 500",
    ),
    program(
        "a_module_ends_once",
        || {
            let module = load(ODD);
            // SAFETY: a dead handle is refused.
            unsafe {
                let first = sys::cuModuleUnload(module) as u32;
                format!("{first} {}", sys::cuModuleUnload(module) as u32)
            }
        },
        "0 400",
    )
    .hazards(&["H21"]),
    program(
        "the_log_says_why_a_module_is_refused",
        || {
            let mut log = [0u8; 24];
            let mut module = ptr::null_mut();
            let mut options = [
                sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
                sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            ];
            let mut values: [*mut c_void; 2] = [
                log.as_mut_ptr().cast(),
                ptr::without_provenance_mut(log.len()),
            ];
            // SAFETY: the out-pointer is valid, the image ends with a NUL, and the buffer has its size.
            let code = unsafe {
                sys::cuModuleLoadDataEx(
                    &mut module,
                    c"hello".as_ptr().cast(),
                    2,
                    options.as_mut_ptr(),
                    values.as_mut_ptr(),
                )
            };
            let said = CStr::from_bytes_until_nul(&log).expect("the log ends with a NUL");
            let said = said.to_string_lossy();
            format!(
                "{} {} {}",
                code as u32,
                said.len(),
                said.starts_with("PTX line 1")
            )
        },
        "218 23 true",
    ),
    program(
        "a_variable_keeps_its_value_from_launch_to_launch",
        || {
            let module = load(ODD);
            let kernel = function(module, c"bump");
            let (mut address, mut bytes) = (0, 0);
            // SAFETY: the out-pointers are valid and the name ends with a NUL.
            ok(unsafe {
                sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, c"counter".as_ptr())
            });
            let before = read(address);
            for _ in 0..2 {
                assert_eq!(launch(kernel, [3, 1, 1], [32, 1, 1], &mut []), 0);
            }
            // SAFETY: nobody frees a module's variable, and this call is refused.
            let freed = unsafe { sys::cuMemFree_v2(address) } as u32;
            format!("{bytes} {before} {} {freed}", read(address))
        },
        "4 7 199 1",
    ),
    program(
        "parameters_can_be_packed",
        || {
            let (kernel, address) = (odd(c"store"), device(4));
            let (mut packed, mut size) = (address, 8usize);
            let mut extra: [*mut c_void; 5] = [
                ptr::without_provenance_mut(1),
                ptr::from_mut(&mut packed).cast(),
                ptr::without_provenance_mut(2),
                ptr::from_mut(&mut size).cast(),
                ptr::null_mut(),
            ];
            let stream = ptr::null_mut();
            // SAFETY: the list ends with a null, and the buffer has its size; parameters passed twice are refused.
            unsafe {
                let launch = |parameters, extra| {
                    sys::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, extra)
                        as u32
                };
                let none = ptr::null_mut();
                let both = launch(extra.as_mut_ptr(), extra.as_mut_ptr());
                let neither = launch(none, none);
                let right = launch(none, extra.as_mut_ptr());
                format!("{both} {neither} {right} {}", read(address))
            }
        },
        "1 1 0 9",
    ),
    program(
        "kernels_reach_managed_and_registered_memory",
        || {
            let mut managed = 0;
            let mut words = vec![1u32; 4096];
            let registered = words.as_mut_ptr();
            // SAFETY: the out-pointer is valid; the memory lives as long as it is registered.
            unsafe {
                ok(sys::cuMemAllocManaged(&mut managed, 4096, 1));
                ok(sys::cuMemHostRegister_v2(
                    registered.cast(),
                    4 * words.len(),
                    0,
                ));
            }
            let kernel = odd(c"store");
            assert_eq!(launch_one(kernel, &mut [managed]), 0);
            assert_eq!(launch_one(kernel, &mut [registered as u64 + 400]), 0);
            assert_eq!(sync(), 0);
            // SAFETY: both are memory of the program, and nothing is pending.
            unsafe {
                let seen = (
                    (managed as *const u32).read_volatile(),
                    registered.add(100).read_volatile(),
                );
                ok(sys::cuMemHostUnregister(registered.cast()));
                ok(sys::cuMemFree_v2(managed));
                format!("{seen:?}")
            }
        },
        "(9, 9)",
    ),
    program(
        "write_combined_memory_is_reached_by_its_device_address",
        || {
            let (mut host, mut mapped) = (ptr::null_mut(), 0);
            // SAFETY: the out-pointers are valid.
            unsafe {
                ok(sys::cuMemHostAlloc(&mut host, 4096, 4));
                ok(sys::cuMemHostGetDevicePointer_v2(&mut mapped, host, 0));
            }
            assert_eq!(launch_one(odd(c"store"), &mut [mapped]), 0);
            assert_eq!(sync(), 0);
            // SAFETY: the memory has 4 bytes, and nothing is pending.
            let seen = unsafe { host.cast::<u32>().read_volatile() };
            format!("{seen} {}", store_to(host as u64))
        },
        "9 700 700",
    )
    .hazards(&["H34"]),
    program(
        "a_coherent_device_reaches_pageable_memory",
        || {
            let mut value = 1u32;
            let pointer = ptr::from_mut(&mut value);
            let codes = store_to(pointer as u64);
            // SAFETY: the variable lives, and nothing is pending.
            format!("{codes} {}", unsafe { pointer.read_volatile() })
        },
        "0 0 9",
    )
    .with(&[("CUMODEL_MACHINE", "coherent")]),
    program(
        "a_discrete_device_does_not",
        || {
            let mut value = 1u32;
            store_to(ptr::from_mut(&mut value) as u64)
        },
        "700 700",
    )
    .hazards(&["H34"]),
    program(
        "a_captured_kernel_runs_at_each_launch",
        || {
            let module = load(ODD);
            let kernel = function(module, c"bump");
            let (mut address, mut bytes) = (0, 0);
            let (mut stream, mut graph, mut exec) =
                (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            // SAFETY: out-pointers are valid, and the handles live.
            unsafe {
                ok(sys::cuModuleGetGlobal_v2(
                    &mut address,
                    &mut bytes,
                    module,
                    c"counter".as_ptr(),
                ));
                ok(sys::cuStreamCreate(&mut stream, 1));
                let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
                ok(sys::cuStreamBeginCapture_v2(stream, mode));
                let none = ptr::null_mut();
                ok(sys::cuLaunchKernel(
                    kernel,
                    1,
                    1,
                    1,
                    32,
                    1,
                    1,
                    0,
                    stream,
                    ptr::null_mut(),
                    none,
                ));
                ok(sys::cuStreamEndCapture(stream, &mut graph));
                ok(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0));
                let before = read(address);
                for _ in 0..3 {
                    ok(sys::cuGraphLaunch(exec, stream));
                }
                ok(sys::cuStreamSynchronize(stream));
                format!("{before} {}", read(address))
            }
        },
        "7 103",
    ),
    program(
        "a_kernel_tells_its_properties",
        || {
            let (bump, small) = (odd(c"bump"), odd(c"small"));
            let (threads, constant) = (attribute(small, 0), attribute(bump, 2));
            let (target, shared) = (attribute(bump, 5), attribute(bump, 8));
            let (mut blocks, mut grid, mut block) = (0, 0, 0);
            // SAFETY: the out-pointers are valid.
            unsafe {
                ok(sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    bump,
                    256,
                    0,
                ));
                ok(sys::cuOccupancyMaxPotentialBlockSize(
                    &mut grid, &mut block, bump, None, 0, 0,
                ));
            }
            format!("{threads} {constant} {target} {shared} {blocks} {grid} {block}")
        },
        "64 8 80 49152 8 2 1024",
    ),
    program(
        "a_cooperative_launch_has_one_block",
        || {
            let kernel = odd(c"bump");
            let launch = |blocks| {
                let (stream, none) = (ptr::null_mut(), ptr::null_mut());
                // SAFETY: the kernel has no parameters.
                unsafe {
                    sys::cuLaunchCooperativeKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, none)
                        as u32
                }
            };
            format!("{} {}", launch(1), launch(2))
        },
        "0 801",
    ),
];

fn test(program: &Program) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report");
    let mut command = Command::new(env::current_exe()?);
    command
        .env("CUMODEL_TEST_PROGRAM", program.name)
        .env("CUMODEL_SCHEDULE", "last")
        .env("CUMODEL_REPORT", &report);
    for (name, value) in program.settings {
        command.env(name, value);
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8_lossy(&output.stdout);
    if printed.trim() != program.prints {
        return Err(format!("it printed {printed:?}, not {:?}:\n{said}", program.prints).into());
    }
    let mut hazards = Vec::new();
    for line in fs::read_to_string(&report).unwrap_or_default().lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        if line["severity"] == "hazard" {
            hazards.push(line["id"].as_str().unwrap_or_default().to_owned());
        }
    }
    if hazards != program.hazards {
        return Err(format!("hazards {hazards:?}, not {:?}:\n{said}", program.hazards).into());
    }
    match program.says.iter().find(|text| !said.contains(**text)) {
        Some(text) => Err(format!("it does not say {text:?}:\n{said}").into()),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    if let Ok(name) = env::var("CUMODEL_TEST_PROGRAM") {
        let Some(program) = PROGRAMS.iter().find(|program| program.name == name) else {
            eprintln!("there is no program {name}");
            return ExitCode::FAILURE;
        };
        let context = CudaContext::new(0).expect("the model has device 0");
        println!("{}", (program.run)());
        // After an error that stays every call fails, and dropping the context would say so.
        std::mem::forget(context);
        return ExitCode::SUCCESS;
    }
    let mut trials: Vec<Trial> = PROGRAMS
        .iter()
        .map(|program| Trial::test(program.name, move || test(program)))
        .collect();
    // A planted fault: a program that prints something else than it should.
    trials.push(Trial::test("planted::a_wrong_result_is_caught", || {
        let wrong = program("null_is_a_wild_address", String::new, "0 0");
        match test(&wrong) {
            Ok(()) => Err("it was not caught".into()),
            Err(_) => Ok(()),
        }
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
