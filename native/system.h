// What operating systems and processors are asked for. No other file knows which ones there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#else
// Declared here, because <windows.h> defines thousands of names, `small` among them.
extern "C" {
__declspec(dllimport) void* __stdcall VirtualAlloc(void* address, size_t bytes, unsigned long kind, unsigned long access);
__declspec(dllimport) int __stdcall VirtualFree(void* address, size_t bytes, unsigned long kind);
}
#endif

namespace supquant {

// A number that differs in a forked child. Nothing forks on Windows.
inline long long process_id() {
#if !defined(_WIN32)
    return getpid();
#else
    return 0;
#endif
}

// Memory that comes from the system, not from the allocator, and goes back to it.
class Pages {
  public:
    explicit Pages(size_t bytes) : bytes_(bytes), memory_(allocate(bytes)) {
        if (!memory_) throw std::bad_alloc();
    }
    ~Pages() {
#if !defined(_WIN32)
        munmap(memory_, bytes_);
#else
        VirtualFree(memory_, 0, 0x8000);  // MEM_RELEASE
#endif
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

  private:
    static void* allocate(size_t bytes) {
#if !defined(_WIN32)
        void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return found == MAP_FAILED ? nullptr : found;
#else
        return VirtualAlloc(nullptr, bytes, 0x3000, 0x04);  // MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE
#endif
    }

    [[maybe_unused]] const size_t bytes_;  // Windows knows it
    void* const memory_;
};

// What the processor can do, and whether the operating system saves the wide registers that it needs for that.
struct Processor {
    bool avx2 = false;        // with FMA and F16C
    bool avx512bw = false;    // with F and VL
    bool avx512vbmi = false;

    Processor() {
#if defined(__x86_64__)
        constexpr uint32_t kFma = 1 << 12, kXsave = 1 << 27, kF16c = 1 << 29;  // of leaf 1, ecx
        constexpr uint32_t kAvx2 = 1 << 5, kF = 1 << 16, kBw = 1 << 30, kVl = 1u << 31;  // of leaf 7, ebx
        constexpr uint32_t kVbmi = 1 << 1;  // of leaf 7, ecx
        constexpr uint32_t kYmm = 0x06, kZmm = 0xe6;  // registers that XGETBV tells of
        const auto has = [](uint32_t found, uint32_t wanted) { return (found & wanted) == wanted; };
        const Leaf basic = leaf(1);
        if (leaf(0).eax < 7 || !has(basic.ecx, kFma | kXsave | kF16c)) return;
        const uint32_t saved = saved_registers();
        const Leaf extended = leaf(7);
        avx2 = has(extended.ebx, kAvx2) && has(saved, kYmm);
        avx512bw = avx2 && has(extended.ebx, kF | kBw | kVl) && has(saved, kZmm);
        avx512vbmi = avx512bw && has(extended.ecx, kVbmi);
#endif
    }

#if defined(__x86_64__)
  private:
    struct Leaf {
        uint32_t eax, ebx, ecx, edx;
    };
    static Leaf leaf(uint32_t number) {
        Leaf found;
        asm("cpuid" : "=a"(found.eax), "=b"(found.ebx), "=c"(found.ecx), "=d"(found.edx) : "a"(number), "c"(0));
        return found;
    }
    static uint32_t saved_registers() {
        uint32_t low, high;
        asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        return low;
    }
#endif
};

}  // namespace supquant
