// One text for the device and for the host: groups of lanes that share a data point.
//
// On the device a group is 1, 2, 4 ... 32 neighbouring threads of a warp; on the host, where tests run the same text,
// its lanes are taken one after the other. What a lane owns is PerLane; what the group owns is GROUP_SHARED.
#pragma once

#ifdef __CUDACC__
#define COMMA ,
#define CONSTANT __host__ __device__ constexpr
#define INLINE __device__ __forceinline__
#define ENTRY __global__ void __launch_bounds__(128)
#define ENTRY_AT_LEAST(n_blocks) __global__ void __launch_bounds__(128, (n_blocks))  // on one multiprocessor
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_4 _Pragma("unroll 4")
#else
#include <cmath>
#include <cstdlib>
#define COMMA ,
#define CONSTANT constexpr
#define INLINE inline
#define ENTRY static void
#define ENTRY_AT_LEAST(n_blocks) static void
#define UNROLL
#define UNROLL_BY_4
#endif

constexpr int BLOCK = 128;  // threads, on the device

template <typename T> INLINE T larger(T a, T b) { return a > b ? a : b; }

// Exponents below the floor count as the floor, or as nothing where they are negligible and that is quicker. Weights
// that add up to something between `least` and `most` are precise.
template <typename T> struct Limits;
template <> struct Limits<double> {
    static constexpr double off = -1e300, floor = -600.0, negligible = -80.0, least = 1e-200, most = 1e200;
};
template <> struct Limits<float> {
    static constexpr float off = -1e38f, floor = -85.0f, negligible = -30.0f, least = 1e-21f, most = 1e21f;
};
constexpr float MOST_ROUGH = 5e7f;  // a log joint up to which single precision says well enough which state is likely

#ifdef __CUDACC__

// Of normal numbers, whose results are normal or negligible: nothing is spent on the others.
INLINE float exp_of(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.442695041f));
    return y;
}
INLINE float log_of(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y * 0.6931471806f;
}
INLINE float rsqrt_of(float x) {
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
INLINE double log_of(double x) { return log(x); }

// Without the branches of the library, which would keep states from being computed side by side. Of normal numbers.
INLINE double rsqrt_of(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    UNROLL for (int step = 0; step < 2; ++step) {
        const double rest = fma(-x * y, y, 1.0);
        y = fma(0.5 * y, rest, y);
    }
    return y;
}
// Of exponents from -700 to 700: exp(x) = 2^k exp(r), and a polynomial of r in [-0.35, 0.35].
INLINE double exp_of(double x) {
    const double shift = 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer in the low bits
    const double shifted = fma(x, 1.4426950408889634, shift);
    const double k = shifted - shift;
    const double r = fma(k, -1.9082149292705877e-10, fma(k, -6.93147180369123816490e-01, x));
    const double r2 = r * r, r4 = r2 * r2;
    const double a = fma(r, 1.0 / 6.0, 0.5), b = fma(r, 1.0 / 120.0, 1.0 / 24.0);
    const double c = fma(r, 1.0 / 5040.0, 1.0 / 720.0), d = fma(r, 1.0 / 362880.0, 1.0 / 40320.0);
    const double e = fma(r, 1.0 / 39916800.0, 1.0 / 3628800.0), f = fma(r, 1.0 / 6227020800.0, 1.0 / 479001600.0);
    const double low = fma(b, r2, a), middle = fma(d, r2, c), high = fma(f, r2, e);
    const double tail = fma(fma(high, r4, middle), r4, low);
    const double value = 1.0 + fma(tail, r2, r);
    return __hiloint2double(__double2hiint(value) + (__double2loint(shifted) << 20), __double2loint(value));
}

#else

INLINE double exp_of(double x) { return exp(x); }
INLINE float exp_of(float x) { return expf(x); }
INLINE double log_of(double x) { return log(x); }
INLINE float log_of(float x) { return logf(x); }
INLINE double rsqrt_of(double x) { return 1.0 / sqrt(x); }
INLINE float rsqrt_of(float x) { return 1.0f / sqrtf(x); }

#endif

// Upper triangles are packed row by row.
CONSTANT int triangle(int n) { return n * (n + 1) / 2; }
CONSTANT int at(int i, int j, int n) { return i * n - i * (i - 1) / 2 + j - i; }

template <typename T, int N> struct Values { T value[N]; };

#ifdef __CUDACC__

template <typename V, int G> struct PerLane {
    V own;
    INLINE V& operator[](int) { return own; }
};
#define EACH_LANE(lane, G) for (int lane = threadIdx.x % (G), once_ = 1; once_; once_ = 0)
#define EACH_GROUP(n, n_groups, G)                                                            \
    for (long long n = ((long long)blockIdx.x * blockDim.x + threadIdx.x) / (G), n_end_ = (n_groups); n < n_end_; \
         n += (long long)gridDim.x * blockDim.x / (G))
#define EACH_THREAD(n, n_threads) EACH_GROUP(n, n_threads, 1)
#define GROUP_SHARED(Type, name, G)          \
    __shared__ Type name##_of_all[BLOCK / (G)]; \
    Type& name = name##_of_all[threadIdx.x / (G)]

// Numbers of a lane that wait in shared memory, since registers are few: the compiler may not keep a copy of them.
#define LANE_SHARED(Type, name, count)                \
    __shared__ Type name##_of_all[(count) * BLOCK]; \
    Type* name = name##_of_all + threadIdx.x
constexpr int LANE_STRIDE = BLOCK;
#define FORGET_COPIES asm volatile("" ::: "memory")

template <int G> INLINE unsigned members() {
    if (G == 32) return 0xffffffffu;
    return ((1u << (G % 32)) - 1u) << ((threadIdx.x % 32) / G * G);
}
template <int G> INLINE void group_sync() { __syncwarp(members<G>()); }

template <typename T, int G> INLINE T group_max(PerLane<T, G>& x) {
    T value = x.own;
    UNROLL for (int step = 1; step < G; step *= 2) value = larger(value, __shfl_xor_sync(members<G>(), value, step));
    return value;
}
#if __CUDA_ARCH__ >= 800
template <> INLINE unsigned long long group_max<unsigned long long, 32>(PerLane<unsigned long long, 32>& x) {
    const unsigned high = (unsigned)(x.own >> 32), highest = __reduce_max_sync(0xffffffffu, high);
    const unsigned low = __reduce_max_sync(0xffffffffu, high == highest ? (unsigned)x.own : 0u);
    return (unsigned long long)highest << 32 | low;
}
#endif
template <typename T, int G> INLINE T group_sum(PerLane<T, G>& x) {
    T value = x.own;
    UNROLL for (int step = 1; step < G; step *= 2) value += __shfl_xor_sync(members<G>(), value, step);
    return value;
}
template <typename T, int G> INLINE T from_lane(PerLane<T, G>& x, int lane) {
    return __shfl_sync(members<G>(), x.own, lane, G);
}

// Sums over the lanes of each of N values; afterwards lane l holds those numbered l, G + l, ... first of all its values.
template <typename T, int N, int G> INLINE void sum_and_spread(PerLane<Values<T, N>, G>& all) {
    T* v = all.own.value;
    int n = N;
    UNROLL for (int step = 1; step < G; step *= 2) {
        const bool odd = threadIdx.x & step;
        UNROLL for (int i = 0; i < (N + 1) / 2; ++i) {
            if (2 * i < n) {
                const T even_value = v[2 * i], odd_value = 2 * i + 1 < n ? v[2 * i + 1 < N ? 2 * i + 1 : 0] : T(0);
                const T sent = odd ? even_value : odd_value;
                v[i] = (odd ? odd_value : even_value) + __shfl_xor_sync(members<G>(), sent, step);
            }
        }
        n = (n + 1) / 2;
    }
}

#else

template <typename V, int G> struct PerLane {
    V own[G];
    V& operator[](int lane) { return own[lane]; }
};
#define EACH_LANE(lane, G) for (int lane = 0; lane < (G); ++lane)
#define EACH_GROUP(n, n_groups, G) for (long long n = 0; n < (n_groups); ++n)
#define EACH_THREAD(n, n_threads) EACH_GROUP(n, n_threads, 1)
#define GROUP_SHARED(Type, name, G) static thread_local Type name
#define LANE_SHARED(Type, name, count) Type name[count]
constexpr int LANE_STRIDE = 1;
#define FORGET_COPIES

template <int G> INLINE void group_sync() {}
template <typename T, int G> INLINE T group_max(PerLane<T, G>& x) {
    T value = x[0];
    for (int lane = 1; lane < G; ++lane) value = larger(value, x[lane]);
    return value;
}
template <typename T, int G> INLINE T group_sum(PerLane<T, G>& x) {
    T value = x[0];
    for (int lane = 1; lane < G; ++lane) value += x[lane];
    return value;
}
template <typename T, int G> INLINE T from_lane(PerLane<T, G>& x, int lane) { return x[lane]; }
template <typename T, int N, int G> INLINE void sum_and_spread(PerLane<Values<T, N>, G>& all) {
    T total[N];
    for (int k = 0; k < N; ++k) {
        total[k] = T(0);
        for (int lane = 0; lane < G; ++lane) total[k] += all[lane].value[k];
    }
    for (int k = 0; k < N; ++k) all[k % G].value[k / G] = total[k];
}

#endif

// How the subsets of H candidates are shared out: each lane takes a subset of the first TOP candidates, and walks the
// subsets of the other M; more than 32 lanes' worth are taken one after the other.
template <int H> struct Shares {
    static constexpr int M = (H + 1) / 2 < 5 ? (H + 1) / 2 : 5, TOP = H - M;
    static constexpr int LANES = 1 << (TOP < 5 ? TOP : 5);
};
INLINE int count_bits(unsigned mask) {
    int n = 0;
    for (; mask; mask &= mask - 1) ++n;
    return n;
}
