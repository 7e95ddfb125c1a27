// out[i] is in[i], or 0 where that is negative.
extern "C" __global__ void relu(const float *in, float *out, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = fmaxf(in[i], 0.0f);
    }
}
