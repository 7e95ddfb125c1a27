// y[i] = a * x[i] + y[i], rounded once.
extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaf(a, x[i], y[i]);
    }
}
