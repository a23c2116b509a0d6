// The yardstick of the stages: 16-byte reads of so many bytes, by the same grid of 512 threads, and nothing else.
struct alignas(16) Quad {
    unsigned w[4];
};

__global__ void __launch_bounds__(512) read_kernel(const Quad* from, long long quads, unsigned* sink) {
    const long long blocks = static_cast<long long>(gridDim.x) * gridDim.y;
    const long long block = static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x;
    const long long begin = quads * block / blocks, end = quads * (block + 1) / blocks;
    unsigned seen = 0;
    long long at = begin + threadIdx.x;
    for (; at + 7 * 512 < end; at += 8 * 512) {
        Quad q[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) q[i] = from[at + i * 512];
#pragma unroll
        for (int i = 0; i < 8; ++i) seen ^= q[i].w[0] ^ q[i].w[1] ^ q[i].w[2] ^ q[i].w[3];
    }
    for (; at < end; at += 512) seen ^= from[at].w[0] ^ from[at].w[1] ^ from[at].w[2] ^ from[at].w[3];
    if (seen == 0x9E3779B9u) *sink = seen;  // never, and the compiler cannot know
}

extern "C" int read_bytes(const void* from, long long bytes, int x, int y, void* sink, void* stream) {
    read_kernel<<<dim3(x, y), 512, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<const Quad*>(from), bytes / 16,
                                                                            static_cast<unsigned*>(sink));
    return static_cast<int>(cudaGetLastError());
}
