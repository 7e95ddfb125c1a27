// y = matrix * x, the matrix row by row; the sum of a row is taken in the order of its columns.
extern "C" __global__ void matvec(const float *matrix, const float *x, float *y, size_t rows, size_t columns) {
    size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (size_t column = 0; column < columns; column++) {
            sum = fmaf(matrix[row * columns + column], x[column], sum);
        }
        y[row] = sum;
    }
}
