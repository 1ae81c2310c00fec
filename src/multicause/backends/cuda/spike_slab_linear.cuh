// Spike-and-slab latents with independent coefficients: every truncated state of a data point, by Schur complements.
//
//     x(s) = sum_{h in s} a_h - log|det K_ss| / 2 + c_s^T K_ss^-1 c_s / 2,      K = I + G,   c = b + mu
//
// Adding a latent to a state eliminates it from K and c; on the way back an eliminated variable v is, given the rest,
// normal with mean (c_v - sum_i K_iv x_i) / K_vv and variance 1 / K_vv. See numba_cpu/spike_slab_linear.py.
#pragma once

template <typename T, int H> struct SlabPoint {
    T linear[H], offset[H], gram[triangle(H)];
    int candidates[H];
};

// Expectations over the states of a subtree of M latents, times its weight.
template <typename T, int M> struct SlabSums {
    T weight, energy, active[M > 0 ? M : 1], first[M > 0 ? M : 1], second[M > 0 ? triangle(M) : 1];
};

// Latent J of the M that remain, eliminated: what the m after it are left with.
template <typename T, int M, int J, bool ROUGH> struct Eliminated {
    static constexpr int m = M - 1 - J;
    T mean, inverse, gain, factors[m > 0 ? m : 1], c[m > 0 ? m : 1], K[m > 0 ? triangle(m) : 1];

    INLINE void take(const T* c_above, const T* K_above, const T* offset) {
        const T pivot = K_above[at(J, J, M)];
        inverse = T(1) / pivot;
        mean = c_above[J] * inverse;
        gain = offset[J] + T(0.5) * (mean * c_above[J] - (ROUGH ? rough_log(pivot) : log_of(pivot)));
        UNROLL for (int i = 0; i < m; ++i) {
            const T column = K_above[at(J, J + 1 + i, M)];
            factors[i] = column * inverse;
            c[i] = c_above[J + 1 + i] - column * mean;
        }
        UNROLL for (int i = 0; i < m; ++i)
            UNROLL for (int k = i; k < m; ++k)
                K[at(i, k, m)] = K_above[at(J + 1 + i, J + 1 + k, M)] - factors[i] * K_above[at(J, J + 1 + k, M)];
    }
};

template <typename T> struct Largest {
    static constexpr bool rough = true;
    T value;
    INLINE void see(T x) { value = larger(value, x); }
};
template <typename T> struct Total {
    static constexpr bool rough = false;
    T beta, largest, weight, energy;
    INLINE void see(T x) {
        const T below = larger(beta * x - largest, Limits<T>::floor), w = exp_of(below);
        weight += w;
        energy += w * below;
    }
};

template <typename T, int M, int J, typename Visitor>
INLINE void slab_visit(const T* c, const T* K, const T* offset, T x, int left, Visitor& visitor) {
    if constexpr (J == 0) visitor.see(x);
    if constexpr (J < M) {
        if (left > 0) {
            Eliminated<T, M, J, Visitor::rough> below;
            below.take(c, K, offset);
            slab_visit<T, M - 1 - J, 0>(below.c, below.K, offset + J + 1, x + below.gain, left - 1, visitor);
            slab_visit<T, M, J + 1>(c, K, offset, x, left, visitor);
        }
    }
}

// What latent J has in the states that hold it, from the moments of those after it.
template <typename T, int M, int J>
INLINE void slab_restore(const Eliminated<T, M, J, false>& gone, const SlabSums<T, M - 1 - J>& below,
                         SlabSums<T, M>& sums) {
    constexpr int m = M - 1 - J;
    T x = below.weight * gone.mean;
    UNROLL for (int i = 0; i < m; ++i) x -= gone.factors[i] * below.first[i];
    T xx = below.weight * gone.inverse + gone.mean * x;
    UNROLL for (int i = 0; i < m; ++i) {
        T product = gone.mean * below.first[i];
        UNROLL for (int k = 0; k < m; ++k)
            product -= gone.factors[k] * below.second[k < i ? at(k, i, m) : at(i, k, m)];
        sums.second[at(J, J + 1 + i, M)] += product;
        xx -= gone.factors[i] * product;
    }
    sums.first[J] += x;
    sums.second[at(J, J, M)] += xx;
    sums.active[J] += below.weight;
    sums.weight += below.weight;
    sums.energy += below.energy;
    UNROLL for (int i = 0; i < m; ++i) {
        sums.active[J + 1 + i] += below.active[i];
        sums.first[J + 1 + i] += below.first[i];
        UNROLL for (int k = i; k < m; ++k) sums.second[at(J + 1 + i, J + 1 + k, M)] += below.second[at(i, k, m)];
    }
}

template <typename T, int M, int J>
INLINE void slab_collect(const T* c, const T* K, const T* offset, T x, int left, T beta, T largest,
                         SlabSums<T, M>& sums) {
    if constexpr (J == 0) {
        const T below = larger(beta * x - largest, Limits<T>::floor);
        sums.weight = exp_of(below);
        sums.energy = sums.weight * below;
        UNROLL for (int i = 0; i < M; ++i) sums.active[i] = sums.first[i] = T(0);
        UNROLL for (int i = 0; i < triangle(M); ++i) sums.second[i] = T(0);
    }
    if constexpr (J < M) {
        if (left > 0) {
            Eliminated<T, M, J, false> gone;
            gone.take(c, K, offset);
            SlabSums<T, M - 1 - J> below;
            slab_collect<T, M - 1 - J, 0>(gone.c, gone.K, offset + J + 1, x + gone.gain, left - 1, beta, largest, below);
            slab_restore<T, M, J>(gone, below, sums);
            slab_collect<T, M, J + 1>(c, K, offset, x, left, beta, largest, sums);
        }
    }
}

// A lane's own first latents, eliminated in place: K_vi becomes factors, K_vv an inverse pivot, c_v a mean.
template <typename T, int H> struct SlabTop {
    static constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    T c[H], K[triangle(H)], x;

    template <bool ROUGH> INLINE void take(const SlabPoint<T, H>& point, unsigned mask) {
        x = T(0);
        UNROLL for (int i = 0; i < H; ++i) c[i] = point.linear[i];
        UNROLL for (int i = 0; i < triangle(H); ++i) K[i] = point.gram[i];
        UNROLL for (int v = 0; v < TOP; ++v)
            if (mask >> v & 1u) {
                const T pivot = K[at(v, v, H)], inverse = T(1) / pivot, mean = c[v] * inverse;
                x += point.offset[v] + T(0.5) * (mean * c[v] - (ROUGH ? rough_log(pivot) : log_of(pivot)));
                UNROLL for (int i = v + 1; i < H; ++i) {
                    const T factor = K[at(v, i, H)] * inverse;
                    c[i] -= K[at(v, i, H)] * mean;
                    UNROLL for (int k = i; k < H; ++k) K[at(i, k, H)] -= factor * K[at(v, k, H)];
                }
                UNROLL for (int i = v + 1; i < H; ++i) K[at(v, i, H)] *= inverse;
                K[at(v, v, H)] = inverse;
                c[v] = mean;
            }
    }
    INLINE const T* bottom_c() const { return c + TOP; }
    INLINE const T* bottom_K() const { return K + at(TOP, TOP, H); }
};

// Weight, energy, <s> (H), <x> (H), and <x x^T> (upper triangle): what is kept of a data point's states.
template <int H> CONSTANT int slab_values() { return 2 + 2 * H + triangle(H); }

template <typename T, int H>
INLINE void slab_lane(const SlabPoint<T, H>& point, unsigned mask, int max_active, T beta, T largest, T* value) {
    constexpr int TOP = Shares<H>::TOP, M = Shares<H>::M;
    SlabTop<T, H> top;
    top.template take<false>(point, mask);
    SlabSums<T, M> below;
    slab_collect<T, M, 0>(top.bottom_c(), top.bottom_K(), point.offset + TOP, top.x, max_active - count_bits(mask), beta,
                          largest, below);
    T *active = value + 2, *first = active + H, *second = first + H;
    value[0] = below.weight;
    value[1] = below.energy;
    UNROLL for (int i = 0; i < M; ++i) {
        active[TOP + i] = below.active[i];
        first[TOP + i] = below.first[i];
    }
    UNROLL for (int i = 0; i < triangle(M); ++i) second[at(TOP, TOP, H) + i] = below.second[i];
    UNROLL for (int v = TOP - 1; v >= 0; --v) {
        const bool on = mask >> v & 1u;
        const T mean = top.c[v], inverse = top.K[at(v, v, H)];
        T x = below.weight * mean;
        UNROLL for (int i = v + 1; i < H; ++i) x -= top.K[at(v, i, H)] * first[i];
        T xx = below.weight * inverse + mean * x;
        UNROLL for (int i = v + 1; i < H; ++i) {
            T product = mean * first[i];
            UNROLL for (int k = v + 1; k < H; ++k)
                product -= top.K[at(v, k, H)] * second[k < i ? at(k, i, H) : at(i, k, H)];
            second[at(v, i, H)] = on ? product : T(0);
            xx -= top.K[at(v, i, H)] * product;
        }
        active[v] = on ? below.weight : T(0);
        first[v] = on ? x : T(0);
        second[at(v, v, H)] = on ? xx : T(0);
    }
}

// The candidates' part of a row.
template <typename T, int H, int G>
INLINE void slab_gather(SlabPoint<T, H>& point, const T* linear, const int* candidates, const T* offset, const T* gram,
                        int n_latents) {
    group_sync<G>();
    EACH_LANE(lane, G) for (int i = lane; i < H; i += G) {
        const int h = candidates[i];
        point.candidates[i] = h;
        point.linear[i] = linear[h];
        point.offset[i] = offset[h];
    }
    group_sync<G>();
    EACH_LANE(lane, G) for (int p = lane; p < triangle(H); p += G) {
        int i = 0, rest = p;
        for (; rest >= H - i; ++i) rest -= H - i;
        point.gram[p] = gram[(long long)point.candidates[i] * n_latents + point.candidates[i + rest]];
    }
    group_sync<G>();
}

// A singleton's log joint, and its coefficient's mean; OFF where it is a candidate. Columns must come in rising order.
template <typename T, int H> struct Singletons {
    const T *linear, *inverse, *constant;
    T beta;
    INLINE T operator()(const SlabPoint<T, H>& point, int h, int& next) const {
        while (next < H && point.candidates[next] < h) ++next;
        if (next < H && point.candidates[next] == h) return Limits<T>::off;
        return beta * (constant[h] + T(0.5) * linear[h] * linear[h] * inverse[h]);
    }
};

enum SlabMode { NORMALISERS = 0, ROWS = 1, STATISTICS = 2 };

// Everything about each row, by a group of lanes. `mode` says what is written besides log Z_n and <x>_n: nothing; <s>
// and <s*z> in (N, H) arrays; or `values` of the candidates, and w_n <s> outside of them, and w_n <s*z>.
template <typename T, int H>
ENTRY slab_expectations(const T* linear, const int* candidates, const T* offset, const T* gram, const T* inverse,
                        const T* constant, const T* weights, const int* tops, int n_tops, int n_rows, int n_latents,
                        int max_active, int singletons, int mode, T beta, T* log_normaliser, T* energy, T* values, T* s,
                        T* x) {
    constexpr int G = Shares<H>::LANES, TOP = Shares<H>::TOP, M = Shares<H>::M, N = slab_values<H>();
    GROUP_SHARED(SlabPoint<T COMMA H>, point, G);
    EACH_GROUP(n, n_rows, G) {
        const T* row = linear + n * n_latents;
        slab_gather<T, H, G>(point, row, candidates + n * H, offset, gram, n_latents);
        const Singletons<T, H> single{row, inverse, constant, beta};
        PerLane<T, G> own;
        EACH_LANE(lane, G) {
            Largest<T> top{T(0)};
            for (int k = lane; k < n_tops; k += G) {
                SlabTop<T, H> entered;
                entered.template take<true>(point, tops[k]);
                slab_visit<T, M, 0>(entered.bottom_c(), entered.bottom_K(), point.offset + TOP, entered.x,
                                    max_active - count_bits(tops[k]), top);
            }
            T largest = beta * top.value;
            int next = 0;
            if (singletons)
                for (int h = lane; h < n_latents; h += G) largest = larger(largest, single(point, h, next));
            own[lane] = largest;
        }
        const T largest = group_max<T, G>(own);
        PerLane<T, G> outside, outside_energy;
        EACH_LANE(lane, G) {
            T total = T(0), sum = T(0);
            int next = 0;
            if (singletons)
                for (int h = lane; h < n_latents; h += G) {
                    const T below = single(point, h, next) - largest;
                    if (below > Limits<T>::floor) {
                        const T w = exp_of(below);
                        total += w;
                        sum += w * below;
                    }
                }
            outside[lane] = total;
            outside_energy[lane] = sum;
        }
        T total = group_sum<T, G>(outside), sum = group_sum<T, G>(outside_energy);
        if (mode == NORMALISERS) {
            PerLane<T, G> inside, inside_energy;
            EACH_LANE(lane, G) {
                Total<T> seen{beta, largest, T(0), T(0)};
                for (int k = lane; k < n_tops; k += G) {
                    SlabTop<T, H> entered;
                    entered.template take<false>(point, tops[k]);
                    slab_visit<T, M, 0>(entered.bottom_c(), entered.bottom_K(), point.offset + TOP, entered.x,
                                        max_active - count_bits(tops[k]), seen);
                }
                inside[lane] = seen.weight;
                inside_energy[lane] = seen.energy;
            }
            total += group_sum<T, G>(inside);
            sum += group_sum<T, G>(inside_energy);
            EACH_LANE(lane, G) if (lane == 0) {
                log_normaliser[n] = largest + log_of(total);
                energy[n] = largest + sum / total;
            }
            continue;
        }
        PerLane<Values<T, N>, G> all;
        EACH_LANE(lane, G) {
            T* value = all[lane].value;
            UNROLL for (int k = 0; k < N; ++k) value[k] = T(0);
            if constexpr (TOP <= 5) {
                if (lane < n_tops) slab_lane<T, H>(point, tops[lane], max_active, beta, largest, value);
            } else {
                for (int k = lane; k < n_tops; k += G) {
                    T more[N];
                    slab_lane<T, H>(point, tops[k], max_active, beta, largest, more);
                    UNROLL for (int i = 0; i < N; ++i) value[i] += more[i];
                }
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
        EACH_LANE(lane, G) {
            int next = 0;
            for (int h = lane; h < n_latents; h += G) {
                const T below = singletons ? single(point, h, next) - largest : Limits<T>::off;
                const T share = below > Limits<T>::floor ? weight * scale * exp_of(below) : T(0);
                s[n * n_latents + h] = share;
                x[n * n_latents + h] = share * row[h] * inverse[h];
            }
            if (lane == 0) {
                log_normaliser[n] = largest + log_of(total);
                energy[n] = largest + sum * scale;
            }
        }
        group_sync<G>();
        EACH_LANE(lane, G) {
            UNROLL for (int i = 0; i < (N + G - 1) / G; ++i) {
                const int k = i * G + lane;
                if (k >= N) continue;
                const T value = all[lane].value[i] * scale;
                if (mode == STATISTICS) values[n * N + k] = value;
                if (k >= 2 && k < 2 + H && mode == ROWS) s[n * n_latents + point.candidates[k - 2]] = value;
                if (k >= 2 + H && k < 2 + 2 * H) x[n * n_latents + point.candidates[k - 2 - H]] = weight * value;
            }
        }
    }
}
