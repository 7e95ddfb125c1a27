// gradient[i] stays where out[i], what relu has written, is above 0; elsewhere it becomes 0.
extern "C" __global__ void relu_backward(const float *out, float *gradient, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !(out[i] > 0.0f)) {
        gradient[i] = 0.0f;
    }
}
