// HIP's runtime as a launch sees it, without a GPU: what was launched is kept, and errors are what the test says.
#include <cstddef>
#include <cstring>
#include <string>

struct dim3 {
    unsigned x, y, z;
};

namespace {

struct Call {
    dim3 grid, block;
    std::size_t shared;
    void* stream;
};

Call call;
int last_error, next_error;  // what an earlier call left; what the next launch ends with
struct Kernel {
    const void* handle;
    std::string name;
} kernels[64];
int count;
std::string launched;

}  // namespace

extern "C" {

char mono_fatbin[16];

void** __hipRegisterFatBinary(const void*) {
    static void* modules;
    return &modules;
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, const void* handle, char*, const char* name, unsigned, void*, void*, void*, void*, int*) {
    kernels[count++] = {handle, name};
}
int __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
    call = {grid, block, shared, stream};
    return 0;
}
int __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void** stream) {
    *grid = call.grid, *block = call.block, *shared = call.shared, *stream = call.stream;
    return 0;
}
int hipLaunchKernel(const void* handle, dim3 grid, dim3 block, void** args, std::size_t shared, void* stream) {
    std::string name = "none";
    for (int i = 0; i < count; ++i) {
        if (kernels[i].handle == handle) name = kernels[i].name;
    }
    long long first;
    std::memcpy(&first, args[0], 8);
    launched = name;
    for (const unsigned n : {grid.x, grid.y, grid.z, block.x, block.y, block.z}) launched += " " + std::to_string(n);
    launched += " " + std::to_string(shared) + " " + std::to_string(reinterpret_cast<std::size_t>(stream)) + " " +
                std::to_string(first);
    if (name.find("shared_") != std::string::npos) {
        std::memcpy(&first, static_cast<char*>(args[1]) + 24, 8);
        launched += " " + std::to_string(first);
    }
    last_error = next_error != 0 ? next_error : last_error;
    return next_error;
}
int hipGetLastError() {
    const int error = last_error;
    last_error = 0;
    return error;
}
const char* hipGetErrorString(int error) { return error == 1 ? "of somebody else" : "of the launch"; }

const char* stub_launched() { return launched.c_str(); }
void stub_errors(int last, int next) { last_error = last, next_error = next; }
}
