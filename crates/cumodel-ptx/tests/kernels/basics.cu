// Elementwise kernels, as listings use them.
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void fill(unsigned *out, unsigned n, unsigned seed) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = seed ^ (i * 2654435761u);
}

extern "C" __global__ void matvec(const float *m, const float *v, float *out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = 0; c < columns; c++) sum += m[(long long)row * columns + c] * v[c];
    out[row] = sum;
}
