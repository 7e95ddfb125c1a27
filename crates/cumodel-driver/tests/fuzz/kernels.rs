//! Random calls about modules and kernels.

use std::ffi::{c_int, c_void, CStr};
use std::ptr;

use cumodel_driver::abi::{function::*, launch::*, module::*, occupancy::*};

use crate::calls::{call, Caller};
use crate::pool::Kind;

/// Three kernels: `bump` adds 1 to a variable of the module, `fill` writes `n` values from `p` on, `spin` never ends.
const MODULE: &CStr = c"
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 7;
.visible .entry bump()
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  mov.u64 %rd1, counter;
  atom.global.add.u32 %r1, [%rd1], 1;
  ret;
}
.visible .entry fill(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<4>;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra $L_end;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r5;
$L_end:
  ret;
}
.visible .entry spin()
{
$L_again:
  bra $L_again;
}
";

/// What is no module: nothing, a text that is no PTX, an instruction that does not exist, binaries.
const NO_MODULES: [&CStr; 6] = [
    c"",
    c"hello",
    c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { frobnicate; }",
    c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() {",
    c"\x7fELF",
    c"\x50\xed\x55\xba",
];

impl Caller {
    pub fn kernels(&mut self) {
        let (module, function) = (self.handle(Kind::Module), self.handle(Kind::Function));
        match self.rng.u8(..20) {
            0..=2 => self.load(),
            3..=5 => self.find(module),
            6 => {
                call!(self, cuModuleUnload, module);
            }
            7 => {
                let (mut address, mut bytes) = (0, 0);
                let (address, bytes) = (self.out(&mut address), self.out(&mut bytes));
                let name = [c"counter", c"bump", c""][self.rng.usize(..3)].as_ptr();
                call!(self, cuModuleGetGlobal_v2, address, bytes, module, name);
            }
            8 => self.properties(function),
            9 => self.occupancy(function),
            _ => self.launch(function),
        }
    }

    fn load(&mut self) {
        let mut handle = 0;
        let out = self.out(&mut handle);
        let image = match self.rng.u8(..6) {
            0 => NO_MODULES[self.rng.usize(..NO_MODULES.len())].as_ptr(),
            1 if self.rng.bool() => ptr::null(),
            _ => MODULE.as_ptr(),
        };
        let ok = match self.rng.u8(..4) {
            0 => {
                let mut log = [1u8; 32];
                let options = [5, 6];
                let bytes = self.rng.usize(..=log.len());
                let values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), bytes as *mut c_void];
                let (options, values) = (options.as_ptr(), values.as_ptr());
                let image = image.cast();
                call!(self, cuModuleLoadDataEx, out, image, 2, options, values)
            }
            1 if self.rng.u8(..4) == 0 => {
                let path = c"/nowhere/at/all.ptx".as_ptr();
                call!(self, cuModuleLoad, out, path)
            }
            _ => {
                let image = image.cast();
                call!(self, cuModuleLoadData, out, image)
            }
        };
        self.made(ok, Kind::Module, handle);
    }

    fn find(&mut self, module: usize) {
        let mut handle = 0;
        let out = self.out(&mut handle);
        // Nobody can tell a launch with arguments of another kernel from a right one, so each has the same.
        let names = [c"fill", c"bump", c"spin", c"nothing"];
        let most = if self.faults { 4 } else { 2 };
        let name = match self.rng.u8(..12) {
            0 => names[3].as_ptr(),
            1 => ptr::null(),
            _ => names[self.rng.usize(..most)].as_ptr(),
        };
        let ok = call!(self, cuModuleGetFunction, out, module, name);
        self.made(ok, Kind::Function, handle);
    }

    fn properties(&mut self, function: usize) {
        let mut value = 0;
        let attribute = self.rng.i32(-2..20);
        match self.rng.u8(..3) {
            0 => {
                let out = self.out(&mut value);
                call!(self, cuFuncGetAttribute, out, attribute, function);
            }
            1 => {
                let value = self.rng.i32(-2..1 << 18);
                call!(self, cuFuncSetAttribute, function, attribute, value);
            }
            _ => {
                call!(self, cuFuncSetCacheConfig, function, attribute);
            }
        }
    }

    fn occupancy(&mut self, function: usize) {
        let (mut first, mut second, mut bytes) = (0, 0, 0);
        let (threads, shared) = (self.rng.i32(-1..1100), self.rng.usize(..1 << 18));
        let blocks = self.rng.i32(-1..40);
        match self.rng.u8(..3) {
            0 => {
                let out = self.out(&mut first);
                call!(
                    self,
                    cuOccupancyMaxActiveBlocksPerMultiprocessor,
                    out,
                    function,
                    threads,
                    shared
                );
            }
            1 => {
                let (grid, block) = (self.out(&mut first), self.out(&mut second));
                let none: Option<unsafe extern "C" fn(c_int) -> usize> = None;
                call!(
                    self,
                    cuOccupancyMaxPotentialBlockSize,
                    grid,
                    block,
                    function,
                    none,
                    shared,
                    threads
                );
            }
            _ => {
                let out = self.out(&mut bytes);
                call!(
                    self,
                    cuOccupancyAvailableDynamicSMemPerBlock,
                    out,
                    function,
                    blocks,
                    threads
                );
            }
        }
    }

    fn launch(&mut self, function: usize) {
        let stream = self.stream();
        let mut address = self.device_address();
        let mut count = if self.faults { self.rng.u32(..300) } else { 0 };
        let mut parameters: [*mut c_void; 2] = [
            ptr::from_mut(&mut address).cast(),
            ptr::from_mut(&mut count).cast(),
        ];
        let side = |caller: &mut Caller| match caller.rng.u8(..30) {
            0 => 0,
            1 => caller.rng.u32(..),
            _ => caller.rng.u32(1..3),
        };
        let threads = match self.rng.u8(..20) {
            0 => self.rng.u32(..),
            1 => 1025,
            _ => self.rng.u32(1..130),
        };
        let (x, y) = (side(self), side(self));
        let shared = self.rng.u32(..20) / 19 * self.rng.u32(..);
        // A grid of billions of blocks is legal, and takes its time.
        let x = x.min(4);
        let passed = if self.rng.u8(..30) == 0 {
            ptr::null_mut()
        } else {
            parameters.as_mut_ptr()
        };
        let extra = ptr::null_mut();
        if self.rng.u8(..8) == 0 {
            call!(
                self,
                cuLaunchCooperativeKernel,
                function,
                x,
                y,
                1,
                threads,
                1,
                1,
                shared,
                stream,
                passed
            );
        } else {
            call!(
                self,
                cuLaunchKernel,
                function,
                x,
                y,
                1,
                threads,
                1,
                1,
                shared,
                stream,
                passed,
                extra
            );
        }
    }
}
