// *sum is the sum of all values, without regard to overflow; for one block of 256 threads.
extern "C" __global__ void checksum(const unsigned *values, size_t n, unsigned *sum) {
    __shared__ unsigned partial[256];
    unsigned own = 0;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
        own += values[i];
    }
    partial[threadIdx.x] = own;
    for (unsigned half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        *sum = partial[0];
    }
}
