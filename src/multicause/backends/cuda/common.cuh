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
#define UNROLL _Pragma("unroll")
#else
#include <cmath>
#include <cstdlib>
#define COMMA ,
#define CONSTANT constexpr
#define INLINE inline
#define ENTRY static void
#define UNROLL
#endif

constexpr int BLOCK = 128;  // threads, on the device

template <typename T> struct Limits;
template <> struct Limits<double> { static constexpr double off = -1e300, floor = -80.0; };
template <> struct Limits<float> { static constexpr float off = -1e38f, floor = -80.0f; };

template <typename T> INLINE T larger(T a, T b) { return a > b ? a : b; }

INLINE double exp_of(double x) { return exp(x); }
INLINE float exp_of(float x) { return expf(x); }
INLINE double log_of(double x) { return log(x); }
INLINE float log_of(float x) { return logf(x); }

// Of a state: a logarithm that is only good enough to say which state is likely.
INLINE double rough_log(double x) { return (double)logf((float)x); }
INLINE float rough_log(float x) { return logf(x); }

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
