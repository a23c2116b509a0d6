// A wave reads a row block of w13 and its scales through the fold: a 64-bit base an expert, and inside it 32 bits: a
// uniform tile, a lane's own bytes. One source for clang's HIP (no headers there) and nvcc.
#include "aiter.hpp"
#include "corners.hpp"
#include "inherited.hpp"
#include "minimax_m3.hpp"

using namespace mono::minimax_m3;

struct alignas(16) Chunk {
    unsigned word[4];
};

#ifdef __HIP__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

struct Item {
    __amdgpu_buffer_rsrc_t resource;
};

__device__ inline Item item_at(const unsigned char* base, int bytes) {
    return {__builtin_amdgcn_make_buffer_rsrc(const_cast<unsigned char*>(base), 0, bytes, 0x27000)};
}
__device__ inline Chunk load_chunk(Item item, int tile, int lane) {
    return __builtin_bit_cast(Chunk, __builtin_amdgcn_raw_buffer_load_b128(item.resource, lane, tile, 0));
}
__device__ inline unsigned load_dword(Item item, int tile, int lane) {
    return __builtin_amdgcn_raw_buffer_load_b32(item.resource, lane, tile, 0);
}
__device__ inline int lane_id() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
__device__ inline int block_id() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
#else
struct Item {
    const unsigned char* base;
};

__device__ inline Item item_at(const unsigned char* base, int) { return {base}; }
__device__ inline Chunk load_chunk(Item item, int tile, int lane) {
    return *reinterpret_cast<const Chunk*>(item.base + tile + lane);
}
__device__ inline unsigned load_dword(Item item, int tile, int lane) {
    return *reinterpret_cast<const unsigned*>(item.base + tile + lane);
}
__device__ inline int lane_id() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_id() { return static_cast<int>(blockIdx.x); }
#endif

static_assert(w13::kLaneBytes == sizeof(Chunk), "a lane reads one chunk a tile");
static_assert(s13::kLanes == 64 && s13::kLaneBytes == 4, "a lane reads one dword of scales");

extern "C" __global__ void fold_kernel(const unsigned char* data, const unsigned char* scales, unsigned* out) {
    const int lane = lane_id();
    const int expert = block_id() / 96;
    const int rows = block_id() % 96;  // 16 rows a block
    const Item weights = item_at(data + w13::base(expert), w13::layout::kBytes);
    const Item dwords = item_at(scales + s13::base(expert), s13::layout::kBytes);
    unsigned sum = 0;
    for (int k = 0; k < w13::kExtent_k / 128; ++k) {
        // Lanes 0..31 read one tile, 32..63 the next: tiles of k follow each other.
        const Chunk chunk = load_chunk(weights, w13::tile(rows, 2 * k), w13::lane(lane));
        const unsigned scale = load_dword(dwords, s13::tile(rows / 2, k / 2), s13::lane(lane));
        sum += chunk.word[0] ^ chunk.word[1] ^ chunk.word[2] ^ chunk.word[3];
        sum += scale >> (8 * s13::select(k % 2, rows % 2)) & 0xFF;
    }
    out[block_id() * 64 + lane] = sum + static_cast<unsigned>(mono::corners::big::base(expert) >> 32);
}

// The same through the fold over a wave: 128 k a step, whatever the layout's own tiles are.
extern "C" __global__ void wave_fold_kernel(const unsigned char* data, const unsigned char* scales, unsigned* out) {
    using Data = wave_fold<w13, 16, 128, 32>;
    using Scales = wave_fold<s13, 16, 4, 1>;
    static_assert(Data::kPieceBytes == sizeof(Chunk) && Data::kAlignBytes >= 16, "a lane reads one chunk a step");
    static_assert(Scales::kSelectChunks == 2 && w13::kExtent_k % 256 == 0, "chunks must be even: two share a dword");
    const int lane = lane_id();
    const int expert = block_id() / 96;
    const int rows = block_id() % 96;
    const Item weights = item_at(data + w13::base(expert), w13::layout::kBytes);
    const Item dwords = item_at(scales + s13::base(expert), s13::layout::kBytes);
    unsigned sum = 0;
    for (int k = 0; k < w13::kExtent_k / 128; ++k) {
        const Chunk chunk = load_chunk(weights, Data::uniform(rows, k), Data::lane(lane));
        const unsigned scale = load_dword(dwords, Scales::dword(rows, k), Scales::lane(lane));
        sum += chunk.word[0] ^ chunk.word[1] ^ chunk.word[2] ^ chunk.word[3];
        sum += scale >> (8 * Scales::select(rows, k)) & 0xFF;
    }
    out[block_id() * 64 + lane] = sum;
}
