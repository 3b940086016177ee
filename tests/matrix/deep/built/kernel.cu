__global__ void scale(float *values) { values[threadIdx.x] *= 2; }
