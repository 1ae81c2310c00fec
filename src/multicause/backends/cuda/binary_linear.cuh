// Binary latents that add up: every truncated state of a data point, without ever touching D.
//
//     x(s) = sum_h s_h a_h - sum_{h<k} s_h s_k G_hk
//
// See numba_cpu/binary_linear.py.
#pragma once

template <typename T, int H> struct BinaryPoint {
    T linear[H], pairs[triangle(H)];  // the diagonal of the pairs is not used
    int candidates[H];
};

// Over the states of a subtree of M latents: weight, weight times exponent, and the weights of pairs.
template <typename T, int M> struct BinarySums {
    T weight, energy, second[M > 0 ? triangle(M) : 1];
};

template <typename T> struct BinaryLargest {
    T value;
    INLINE void see(T x) { value = larger(value, x); }
};
template <typename T> struct BinaryTotal {
    T largest, weight, energy;
    INLINE void see(T x) {
        const T below = larger(x - largest, Limits<T>::floor), w = exp_of(below);
        weight += w;
        energy += w * below;
    }
};

template <typename T, int M, int J, typename Visitor>
INLINE void binary_visit(const T* remaining, const T* pairs, T x, int left, Visitor& visitor) {
    if constexpr (J == 0) visitor.see(x);
    if constexpr (J < M) {
        if (left > 0) {
            constexpr int m = M - 1 - J;
            T below[m > 0 ? m : 1];
            UNROLL for (int i = 0; i < m; ++i) below[i] = remaining[J + 1 + i] - pairs[at(J, J + 1 + i, M)];
            binary_visit<T, m, 0>(below, pairs + at(J + 1, J + 1, M), x + remaining[J], left - 1, visitor);
            binary_visit<T, M, J + 1>(remaining, pairs, x, left, visitor);
        }
    }
}

template <typename T, int M, int J>
INLINE void binary_collect(const T* remaining, const T* pairs, T x, int left, T beta, T largest,
                           BinarySums<T, M>& sums) {
    if constexpr (J == 0) {
        const T below = larger(beta * x - largest, Limits<T>::floor);
        sums.weight = exp_of(below);
        sums.energy = sums.weight * below;
        UNROLL for (int i = 0; i < triangle(M); ++i) sums.second[i] = T(0);
    }
    if constexpr (J < M) {
        if (left > 0) {
            constexpr int m = M - 1 - J;
            T after[m > 0 ? m : 1];
            UNROLL for (int i = 0; i < m; ++i) after[i] = remaining[J + 1 + i] - pairs[at(J, J + 1 + i, M)];
            BinarySums<T, m> below;
            binary_collect<T, m, 0>(after, pairs + at(J + 1, J + 1, M), x + remaining[J], left - 1, beta, largest, below);
            sums.weight += below.weight;
            sums.energy += below.energy;
            sums.second[at(J, J, M)] += below.weight;
            UNROLL for (int i = 0; i < m; ++i) {
                sums.second[at(J, J + 1 + i, M)] += below.second[at(i, i, m)];
                UNROLL for (int k = i; k < m; ++k)
                    sums.second[at(J + 1 + i, J + 1 + k, M)] += below.second[at(i, k, m)];
            }
            binary_collect<T, M, J + 1>(remaining, pairs, x, left, beta, largest, sums);
        }
    }
}

// What the other latents add once a lane's own first latents are on.
template <typename T, int H>
INLINE T binary_top(const BinaryPoint<T, H>& point, unsigned mask, T* remaining) {
    constexpr int TOP = Shares<H>::TOP;
    T x = T(0);
    UNROLL for (int i = 0; i < H; ++i) {
        T gain = point.linear[i];
        UNROLL for (int v = 0; v < TOP; ++v)
            if (v < i && (mask >> v & 1u)) gain -= point.pairs[at(v, i, H)];
        if (i >= TOP)
            remaining[i - TOP] = gain;
        else if (mask >> i & 1u)
            x += gain;
    }
    return x;
}

// Weight, energy, and <s s^T> (upper triangle): what is kept of a data point's states.
template <int H> CONSTANT int binary_values() { return 2 + triangle(H); }

template <typename T, int H>
INLINE void binary_lane(const BinaryPoint<T, H>& point, unsigned mask, int max_active, T beta, T largest, T* value) {
    constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    T remaining[M];
    const T x = binary_top<T, H>(point, mask, remaining);
    BinarySums<T, M> below;
    binary_collect<T, M, 0>(remaining, point.pairs + at(TOP, TOP, H), x, max_active - count_bits(mask), beta, largest,
                            below);
    T* second = value + 2;
    value[0] = below.weight;
    value[1] = below.energy;
    UNROLL for (int i = 0; i < triangle(M); ++i) second[at(TOP, TOP, H) + i] = below.second[i];
    UNROLL for (int v = 0; v < TOP; ++v) {
        const T on = mask >> v & 1u ? T(1) : T(0);
        UNROLL for (int i = v; i < TOP; ++i) second[at(v, i, H)] = mask >> i & 1u ? on * below.weight : T(0);
        UNROLL for (int i = 0; i < M; ++i) second[at(v, TOP + i, H)] = on * below.second[at(i, i, M)];
    }
}

// The candidates' part of a row.
template <typename T, int H, int G>
INLINE void binary_gather(BinaryPoint<T, H>& point, const T* linear, const int* candidates, const T* gram,
                          int n_latents) {
    group_sync<G>();
    EACH_LANE(lane, G) for (int i = lane; i < H; i += G) {
        point.candidates[i] = candidates[i];
        point.linear[i] = linear[candidates[i]];
    }
    group_sync<G>();
    EACH_LANE(lane, G) for (int p = lane; p < triangle(H); p += G) {
        int i = 0, rest = p;
        for (; rest >= H - i; ++i) rest -= H - i;
        point.pairs[p] = gram[(long long)point.candidates[i] * n_latents + point.candidates[i + rest]];
    }
    group_sync<G>();
}

// All states of the candidates that a lane has, shown to a visitor.
template <typename T, int H, int G, typename Visitor>
INLINE void binary_visit_all(const BinaryPoint<T, H>& point, const int* tops, int n_tops, int max_active, int lane,
                             Visitor& visitor) {
    constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    for (int k = lane; k < n_tops; k += G) {
        T remaining[M];
        const T x = binary_top<T, H>(point, tops[k], remaining);
        binary_visit<T, M, 0>(remaining, point.pairs + at(TOP, TOP, H), x, max_active - count_bits(tops[k]), visitor);
    }
}

template <typename T, int H, int G>
INLINE T binary_largest(const BinaryPoint<T, H>& point, const T* linear, const int* tops, int n_tops, int n_latents,
                        int max_active, int singletons) {
    PerLane<T, G> own;
    EACH_LANE(lane, G) {
        BinaryLargest<T> top{T(0)};
        binary_visit_all<T, H, G>(point, tops, n_tops, max_active, lane, top);
        if (singletons)
            for (int h = lane; h < n_latents; h += G) top.see(linear[h]);  // of candidates, they are states anyway
        own[lane] = top.value;
    }
    return group_max<T, G>(own);
}

// The weights of all singletons outside of the candidates; `energy` becomes that of weights times exponents.
template <typename T, int H, int G>
INLINE T binary_outside(const BinaryPoint<T, H>& point, const T* linear, T largest, int n_latents, T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        BinaryTotal<T> seen{largest, T(0), T(0)};
        int next = 0;
        for (int h = lane; h < n_latents; h += G) {
            while (next < H && point.candidates[next] < h) ++next;
            const bool outside = !(next < H && point.candidates[next] == h);
            if (outside && linear[h] - largest > Limits<T>::negligible) seen.see(linear[h]);
        }
        own[lane] = seen.weight;
        own_energy[lane] = seen.energy;
    }
    energy = group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// The weights of all states of the candidates; `energy` gains weights times exponents.
template <typename T, int H, int G>
INLINE T binary_total(const BinaryPoint<T, H>& point, const int* tops, int n_tops, int max_active, T largest,
                      T& energy) {
    PerLane<T, G> own, own_energy;
    EACH_LANE(lane, G) {
        BinaryTotal<T> seen{largest, T(0), T(0)};
        binary_visit_all<T, H, G>(point, tops, n_tops, max_active, lane, seen);
        own[lane] = seen.weight;
        own_energy[lane] = seen.energy;
    }
    energy += group_sum<T, G>(own_energy);
    return group_sum<T, G>(own);
}

// Everything about each row, by a group of lanes; `mode` as for slabs, but that <s> is always whole, times w_n.
template <typename T, int H>
ENTRY binary_expectations(const T* linear, const int* candidates, const T* gram, const T* weights, const int* tops,
                          int n_tops, int n_rows, int n_latents, int max_active, int singletons, int mode,
                          T* log_normaliser, T* energy, T* values, T* s) {
    constexpr int G = Shares<H>::LANES, N = binary_values<H>();
    GROUP_SHARED(BinaryPoint<T COMMA H>, point, G);
    EACH_GROUP(n, n_rows, G) {
        const T* row = linear + n * n_latents;
        binary_gather<T, H, G>(point, row, candidates + n * H, gram, n_latents);
        const T largest = binary_largest<T, H, G>(point, row, tops, n_tops, n_latents, max_active, singletons);
        T sum = T(0), total = singletons ? binary_outside<T, H, G>(point, row, largest, n_latents, sum) : T(0);
        if (mode == NORMALISERS) {
            total += binary_total<T, H, G>(point, tops, n_tops, max_active, largest, sum);
            slab_settle<T, G>(largest, total, sum, log_normaliser + n, energy + n);
            continue;
        }
        PerLane<Values<T, N>, G> all;
        EACH_LANE(lane, G) {
            T* value = all[lane].value;
            UNROLL for (int k = 0; k < N; ++k) value[k] = T(0);
            for (int k = lane; k < n_tops; k += G) {
                T more[N];
                binary_lane<T, H>(point, tops[k], max_active, T(1), largest, more);
                UNROLL for (int i = 0; i < N; ++i) value[i] += more[i];
            }
        }
        sum_and_spread<T, N, G>(all);
        PerLane<T, G> head, second_head;
        EACH_LANE(lane, G) {
            head[lane] = all[lane].value[0];
            second_head[lane] = all[lane].value[1 / G];
        }
        total += from_lane<T, G>(head, 0);
        sum += from_lane<T, G>(second_head, 1 % G);
        const T scale = T(1) / total, weight = mode == STATISTICS ? weights[n] : T(1);
        slab_settle<T, G>(largest, total, sum, log_normaliser + n, energy + n);
        EACH_LANE(lane, G) for (int h = lane; h < n_latents; h += G) {
            const T below = row[h] - largest;
            const bool counts = singletons && below > Limits<T>::negligible;
            s[n * n_latents + h] = counts ? weight * scale * exp_of(below) : T(0);
        }
        group_sync<G>();
        EACH_LANE(lane, G) {
            UNROLL for (int i = 0; i < (N + G - 1) / G; ++i) {
                const int k = i * G + lane;
                if (k >= N) continue;
                const T value = all[lane].value[i] * scale;
                if (mode == STATISTICS) values[n * N + k] = value;
                UNROLL for (int c = 0; c < H; ++c)
                    if (k == 2 + at(c, c, H)) s[n * n_latents + point.candidates[c]] = weight * value;
            }
        }
    }
}
