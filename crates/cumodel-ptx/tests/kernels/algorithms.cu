// The classic shapes: each uses one thing that elementwise kernels do not.

// Shared memory and barriers.
extern "C" __global__ void block_sums(const int *in, long long *out, int n) {
    __shared__ long long part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step > 0; step >>= 1) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

// Atomics on shared and on global memory; the size of the shared array comes with the launch.
extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n, int count) {
    extern __shared__ unsigned mine[];
    for (int b = threadIdx.x; b < count; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i] % count], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < count; b += blockDim.x) atomicAdd(&bins[b], mine[b]);
}

// Two-dimensional blocks and tiles.
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int rows, int inner, int columns) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < inner; t += TILE) {
        left[threadIdx.y][threadIdx.x] = row < rows && t + threadIdx.x < inner ? a[row * inner + t + threadIdx.x] : 0.0f;
        right[threadIdx.y][threadIdx.x] = t + threadIdx.y < inner && column < columns ? b[(t + threadIdx.y) * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

// Shuffles within a warp, then shared memory between the warps of the block.
extern "C" __global__ void prefix_sum(const unsigned *in, unsigned *out, int n) {
    __shared__ unsigned totals[32];
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned value = threadIdx.x < n ? in[threadIdx.x] : 0;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        unsigned before = __shfl_up_sync(0xffffffffu, value, distance);
        if (lane >= distance) value += before;
    }
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < (blockDim.x + 31) / 32 ? totals[lane] : 0;
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            unsigned before = __shfl_up_sync(0xffffffffu, total, distance);
            if (lane >= distance) total += before;
        }
        totals[lane] = total;
    }
    __syncthreads();
    if (warp > 0) value += totals[warp - 1];
    if (threadIdx.x < n) out[threadIdx.x] = value;
}

// The last block to finish adds up: an atomic ticket and a fence.
__device__ unsigned arrived;
extern "C" __global__ void sum_by_last_block(const float *in, float *partial, float *out, int n) {
    __shared__ float warps[32];
    __shared__ bool last;
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float block = 0.0f;
        for (int w = 0; w < (blockDim.x + 31) / 32; w++) block += warps[w];
        partial[blockIdx.x] = block;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float all = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++) all += ((volatile float *)partial)[b];
        *out = all;
    }
}

// Tables in constant memory, a call through a pointer, recursion, local arrays.
__constant__ int table[8] = {1, -2, 3, -4, 5, -6, 7, -8};
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
typedef int (*Function)(int);
__device__ Function functions[2] = {twice, square};
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
struct Pair { int first; double second; };
__device__ __noinline__ Pair swapped(Pair p) { return Pair{(int)p.second, (double)p.first}; }
extern "C" __global__ void calls(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int local[8];
    for (int k = 0; k < 8; k++) local[(k + i) % 8] = table[k] * i;
    Pair p = swapped(Pair{i, 3.0 * i});
    out[i] = functions[i % 2](local[i % 7]) + fibonacci(i % 11) + p.first + (int)p.second;
}

extern "C" __global__ void math(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    out[9 * i + 0] = sinf(x);
    out[9 * i + 1] = cosf(x);
    out[9 * i + 2] = expf(x);
    out[9 * i + 3] = logf(fabsf(x));
    out[9 * i + 4] = sqrtf(fabsf(x));
    out[9 * i + 5] = rsqrtf(fabsf(x));
    out[9 * i + 6] = tanhf(x);
    out[9 * i + 7] = powf(fabsf(x), 1.7f);
    out[9 * i + 8] = erff(x);
}

// A switch that becomes a jump table, and its neighbours.
extern "C" __global__ void jumps(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = in[i], r;
    switch (v) {
    case 0: r = in[(i + 1) % n] * 3; break;
    case 1: r = v - in[(i + 2) % n]; break;
    case 2: r = __popc(in[(i + 3) % n]); break;
    case 3: r = in[(i + 4) % n] ^ 77; for (int k = 0; k < i % 5; k++) r = r * 31 + k; break;
    case 4: r = __clz(i); break;
    case 5: r = __brev(i); break;
    case 6: r = i / (v + in[(i + 5) % n] + 1); break;
    default: r = -v;
    }
    out[i] = r;
}

// The library's functions in double precision: long polynomials, tables in constant memory, slow paths that are called.
extern "C" __global__ void math_double(const double *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i];
    out[8 * i + 0] = sin(x);
    out[8 * i + 1] = cos(x);
    out[8 * i + 2] = exp(x);
    out[8 * i + 3] = log(fabs(x));
    out[8 * i + 4] = pow(fabs(x), 1.5);
    out[8 * i + 5] = tanh(x);
    out[8 * i + 6] = cbrt(x);
    out[8 * i + 7] = x / 3.0;
}
