// out[i] = first + i * step, without regard to overflow.
extern "C" __global__ void fill_pattern(unsigned *out, size_t n, unsigned first, unsigned step) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = first + (unsigned)i * step;
    }
}
